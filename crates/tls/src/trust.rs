//! How certificates of servers and clients are verified: libpq's sslmodes as verifiers for rustls.
//!
//! Three things that rustls refuses are accepted, as by libpq: a self-signed certificate that stands in the CA file itself, even if it
//! says that it is a CA's; one that names its host only in the common name; and one of X.509's version 1. PostgreSQL's manual teaches
//! people to make such certificates.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme};

use crate::certificate::{is_named_in_subject, is_valid_at};
use crate::old_certificates::{self, Authorities, HandshakeVersion, Purpose};

/// Whose certificate is accepted.
#[derive(Debug)]
pub(crate) struct Trust {
    algorithms: WebPkiSupportedAlgorithms,
    checks: Option<Checks>,
}

#[derive(Debug)]
struct Checks {
    chains: Arc<WebPkiServerVerifier>,
    authorities: Authorities,
    /// Whether the name counts.
    names: bool,
}

impl Trust {
    /// Any certificate whose owner has its key.
    pub(crate) fn everybody(provider: &CryptoProvider) -> Trust {
        Trust { algorithms: provider.signature_verification_algorithms, checks: None }
    }

    /// Certificates that lead to one of the roots; with `names`, only that of the host.
    pub(crate) fn of(chains: Arc<WebPkiServerVerifier>, authorities: Authorities, names: bool) -> Trust {
        let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
        Trust { algorithms, checks: Some(Checks { chains, authorities, names }) }
    }
}

impl Checks {
    /// A certificate of the CA file that a server shows as its own.
    fn check_root(&self, shown: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
        match is_valid_at(shown, now.as_secs()) {
            true => Ok(()),
            false => Err(Error::InvalidCertificate(CertificateError::Expired)),
        }
    }

    fn check_name(&self, shown: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
        if !self.names || is_named_in_subject(shown, name) {
            return Ok(());
        }
        if old_certificates::is_old(shown) {
            return Err(Error::InvalidCertificate(CertificateError::NotValidForName));
        }
        verify_server_name(&ParsedCertificate::try_from(shown)?, name)
    }

    fn check(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<(), Error> {
        let is_root = || self.authorities.roots.iter().any(|root| root == shown);
        if old_certificates::is_old(shown) {
            if is_root() {
                self.check_root(shown, now)?;
            } else {
                let outcome = self.authorities.check(shown, intermediates, now, Purpose::Server);
                outcome.map_err(Error::InvalidCertificate)?;
            }
            return self.check_name(shown, name);
        }
        match self.chains.verify_server_cert(shown, intermediates, name, ocsp, now) {
            // The name is looked at last, after the chain and the revocation lists.
            Err(
                refusal @ Error::InvalidCertificate(
                    CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
                ),
            ) => match !self.names || is_named_in_subject(shown, name) {
                true => Ok(()),
                false => Err(refusal),
            },
            Err(Error::InvalidCertificate(
                CertificateError::Other(OtherError(_)) | CertificateError::UnknownIssuer,
            )) if is_root() => {
                self.check_root(shown, now)?;
                self.check_name(shown, name)
            }
            outcome => outcome.map(drop),
        }
    }
}

/// Checks that the peer has the key of its certificate, of any version.
fn verify_handshake(
    message: &[u8],
    shown: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
    version: HandshakeVersion,
) -> Result<HandshakeSignatureValid, Error> {
    if old_certificates::is_old(shown) {
        return old_certificates::verify_handshake(message, shown, signed, algorithms, version);
    }
    match version {
        HandshakeVersion::Tls12 => verify_tls12_signature(message, shown, signed, algorithms),
        HandshakeVersion::Tls13 => verify_tls13_signature(message, shown, signed, algorithms),
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
        if let Some(checks) = &self.checks {
            checks.check(shown, intermediates, name, ocsp, now)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_handshake(message, shown, signed, &self.algorithms, HandshakeVersion::Tls12)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_handshake(message, shown, signed, &self.algorithms, HandshakeVersion::Tls13)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Verifies clients' certificates: those of version 3 by rustls, older ones by `old_certificates`.
#[derive(Debug)]
pub(crate) struct ClientTrust {
    pub(crate) chains: Arc<dyn ClientCertVerifier>,
    pub(crate) authorities: Authorities,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for ClientTrust {
    fn offer_client_auth(&self) -> bool {
        self.chains.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.chains.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if !old_certificates::is_old(shown) {
            return self.chains.verify_client_cert(shown, intermediates, now);
        }
        let outcome = self.authorities.check(shown, intermediates, now, Purpose::Client);
        outcome.map(|()| ClientCertVerified::assertion()).map_err(Error::InvalidCertificate)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_handshake(message, shown, signed, &self.algorithms, HandshakeVersion::Tls12)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_handshake(message, shown, signed, &self.algorithms, HandshakeVersion::Tls13)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
