//! The side of TLS that PostgreSQL meets.

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::sign::SingleCertAndKey;

use crate::files::{FileProblem, own, revocations, roots, system_roots, unusable};
use crate::old_certificates::Authorities;
use crate::trust::Trust;
use crate::versions::Versions;

/// How far a server's certificate is checked.
//= pg18 libpq-ssl#LIBPQ-SSL-PROTECTION
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ServerCheck {
    /// Not at all: `allow`, `prefer`, and `require` without a CA file.
    #[default]
    Nothing,
    /// That a CA of the file has signed it: `verify-ca`, and `require` with a CA file.
    Ca,
    /// And that it names the host that was connected to: `verify-full`.
    Full,
}

/// The contents of the files, in PEM.
#[derive(Clone, Default)]
pub struct ConnectorFiles {
    /// Against which servers' certificates are checked.
    pub ca: Option<Vec<u8>>,
    /// The CAs that this system trusts, in DER: they count where certificates are checked and no CA file is given.
    pub system_cas: Vec<Vec<u8>>,
    pub revocations: Option<Vec<u8>>,
    /// What servers are shown that ask for a certificate, and its key.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for ConnectorFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectorFiles(..)")
    }
}

/// What servers meet, made once for all of them.
#[derive(Clone)]
pub struct Connector {
    pub(crate) config: Arc<ClientConfig>,
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector(..)")
    }
}

impl Connector {
    /// Reads the files.
    ///
    /// # Errors
    /// A file cannot be used, or they do not fit each other.
    pub fn new(files: &ConnectorFiles, check: ServerCheck, versions: Versions) -> Result<Connector, FileProblem> {
        let mut config = config(files, check, versions)?;
        config.alpn_protocols = vec![crate::ALPN.to_vec()];
        // PostgreSQL gives out no tickets.
        config.resumption = Resumption::disabled();
        Ok(Connector { config: Arc::new(config) })
    }
}

/// The configuration for servers other than PostgreSQL, such as directory servers. Their certificates have to lead to one of these CAs, in DER,
/// and to name the host, by the same rules.
///
/// # Errors
/// None of the CAs can be read.
pub fn trusting(system_cas: Vec<Vec<u8>>) -> Result<ClientConfig, FileProblem> {
    config(&ConnectorFiles { system_cas, ..ConnectorFiles::default() }, ServerCheck::Full, Versions::ALL)
}

fn config(files: &ConnectorFiles, check: ServerCheck, versions: Versions) -> Result<ClientConfig, FileProblem> {
    let provider = Arc::new(default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&versions.list())
        .map_err(|error| unusable("versions", error))?
        .dangerous();
    let trust = match (check, &files.ca) {
        (ServerCheck::Nothing, _) => Trust::everybody(&provider),
        (_, ca) => {
            let (store, roots) = match ca {
                Some(ca) => roots(ca)?,
                None => system_roots(&files.system_cas)?,
            };
            let lists = files.revocations.as_deref().map(revocations).transpose()?.unwrap_or_default();
            let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider));
            let verifier = match lists.is_empty() {
                false => verifier.with_crls(lists.clone()).enforce_revocation_expiration(),
                true => verifier,
            };
            let verifier = verifier.build().map_err(|error| unusable("CA file", error))?;
            Trust::of(verifier, Authorities { roots, lists }, check == ServerCheck::Full)
        }
    };
    let builder = builder.with_custom_certificate_verifier(Arc::new(trust));
    Ok(match &files.certificate {
        Some((certificate, key)) => {
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own(&provider, certificate, key)?)))
        }
        None => builder.with_no_client_auth(),
    })
}
