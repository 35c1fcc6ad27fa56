//! libpq's sslmodes as rules for rustls.
//!
//! A self-signed certificate that stands in the CA file itself is accepted, as by libpq, even if it says that it is a CA's:
//! that is what PostgreSQL's manual teaches people to make.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

use crate::certificate::is_valid_at;

/// Whose certificate is accepted.
#[derive(Debug)]
pub(crate) struct Trust {
    algorithms: WebPkiSupportedAlgorithms,
    checks: Option<Checks>,
}

#[derive(Debug)]
struct Checks {
    chains: Arc<WebPkiServerVerifier>,
    /// The certificates of the CA file.
    roots: Vec<CertificateDer<'static>>,
    /// Whether the name counts.
    names: bool,
}

impl Trust {
    /// Any certificate whose owner has its key.
    pub(crate) fn everybody(provider: &CryptoProvider) -> Trust {
        Trust { algorithms: provider.signature_verification_algorithms, checks: None }
    }

    /// Certificates that lead to one of the roots; with `names`, only that of the host.
    pub(crate) fn of(chains: Arc<WebPkiServerVerifier>, roots: Vec<CertificateDer<'static>>, names: bool) -> Trust {
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        Trust { algorithms, checks: Some(Checks { chains, roots, names }) }
    }
}

impl Checks {
    /// A certificate of the CA file that a server shows as its own.
    fn check_root(&self, shown: &CertificateDer<'_>, name: &ServerName<'_>, now: UnixTime) -> Result<(), Error> {
        if !is_valid_at(shown, now.as_secs()) {
            return Err(Error::InvalidCertificate(CertificateError::Expired));
        }
        if self.names { verify_server_name(&ParsedCertificate::try_from(shown)?, name) } else { Ok(()) }
    }
}

impl ServerCertVerifier for Trust {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(checks) = &self.checks else { return Ok(ServerCertVerified::assertion()) };
        match checks.chains.verify_server_cert(shown, intermediates, name, ocsp, now) {
            // The name is looked at last, after the chain and the revocation lists.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !checks.names => Ok(ServerCertVerified::assertion()),
            Err(Error::InvalidCertificate(
                CertificateError::Other(OtherError(_)) | CertificateError::UnknownIssuer,
            )) if checks.roots.iter().any(|root| root == shown) => {
                checks.check_root(shown, name, now).map(|()| ServerCertVerified::assertion())
            }
            outcome => outcome,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, shown, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, shown, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
