//! The side of TLS that clients meet.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;

use crate::certificate::end_point_hash;
use crate::files::{FileProblem, own, revocations, roots, unusable};
use crate::old_certificates::Authorities;
use crate::trust::ClientTrust;
use crate::versions::Versions;

/// Whether clients are asked for a certificate.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ClientCertificates {
    /// They are not.
    #[default]
    Unwanted,
    /// They may show one, which has to be valid then.
    Optional,
    /// A client without a valid one is refused.
    Required,
}

/// The contents of the files, in PEM.
#[derive(Clone, Default)]
pub struct AcceptorFiles {
    /// The certificate that clients are shown, then those that lead to a CA.
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// Against which clients' certificates are checked.
    pub ca: Option<Vec<u8>>,
    pub revocations: Option<Vec<u8>>,
}

impl fmt::Debug for AcceptorFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AcceptorFiles(..)")
    }
}

/// What clients meet, made once for all of them.
#[derive(Clone)]
pub struct Acceptor {
    /// For clients that have asked for encryption by SSLRequest; they need not name a protocol.
    pub(crate) negotiated: Arc<ServerConfig>,
    /// `tls-server-end-point` of our certificate.
    pub(crate) end_point: Option<Arc<[u8]>>,
    pub(crate) asks_for_certificate: bool,
}

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor(..)")
    }
}

impl Acceptor {
    /// Reads the files.
    ///
    /// Sessions can be resumed by tickets, unless clients are asked for certificates: a resumed session would not notice
    /// that one has expired or was revoked. An acceptor made anew does not know the tickets of the last one.
    ///
    /// # Errors
    /// A file cannot be used, or they do not fit each other.
    pub fn new(
        files: &AcceptorFiles,
        certificates: ClientCertificates,
        versions: Versions,
    ) -> Result<Acceptor, FileProblem> {
        let provider = Arc::new(default_provider());
        let own = own(&provider, &files.certificate, &files.key)?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions.list())
            .map_err(|error| unusable("versions", error))?;
        let end_point = own.cert.first().and_then(|certificate| end_point_hash(certificate)).map(Arc::from);
        let builder = match (&files.ca, certificates) {
            (None, ClientCertificates::Required) => {
                return Err(unusable("CA file", "there is none, and clients' certificates are to be checked"));
            }
            (None, _) | (_, ClientCertificates::Unwanted) => builder.with_no_client_auth(),
            (Some(ca), _) => {
                let algorithms = provider.signature_verification_algorithms;
                let (store, roots) = roots(ca)?;
                let lists = files.revocations.as_deref().map(revocations).transpose()?.unwrap_or_default();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(store), provider);
                let verifier = match lists.is_empty() {
                    false => verifier.with_crls(lists.clone()).enforce_revocation_expiration(),
                    true => verifier,
                };
                let verifier = match certificates {
                    ClientCertificates::Required => verifier,
                    _ => verifier.allow_unauthenticated(),
                };
                let chains = verifier.build().map_err(|error| unusable("CA file", error))?;
                let authorities = Authorities { roots, lists };
                builder.with_client_cert_verifier(Arc::new(ClientTrust { chains, authorities, algorithms }))
            }
        };
        let asks_for_certificate = files.ca.is_some() && certificates != ClientCertificates::Unwanted;
        let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(own)));
        config.alpn_protocols = vec![crate::ALPN.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        if asks_for_certificate {
            config.send_tls13_tickets = 0;
        } else {
            config.ticketer = Ticketer::new().map_err(|error| unusable("tickets", error))?;
            config.send_tls13_tickets = 1;
        }
        Ok(Acceptor { negotiated: Arc::new(config), end_point, asks_for_certificate })
    }
}
