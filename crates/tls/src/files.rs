//! PEM files as bytes: certificates, private keys, revocation lists.

use std::fmt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem};
use rustls::sign::CertifiedKey;

use crate::certificate::public_key;

/// What is wrong with a file, in words that follow its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// Which file: `certificate`, `key`, `CA file`, `revocation list`.
    pub what: &'static str,
    pub why: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

fn problem(what: &'static str, why: impl fmt::Display) -> FileProblem {
    FileProblem { what, why: why.to_string() }
}

/// A certificate and those that lead from it to a CA, in this order.
fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    certificates(text, "certificate")
}

fn certificates(text: &[u8], what: &'static str) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| problem(what, error))?;
    if found.is_empty() {
        return Err(problem(what, "it holds no certificate in PEM"));
    }
    Ok(found)
}

fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, FileProblem> {
    let is_encrypted = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        text.contains("BEGIN ENCRYPTED PRIVATE KEY") || text.contains("Proc-Type: 4,ENCRYPTED")
    };
    match PrivateKeyDer::from_pem_slice(text) {
        _ if is_encrypted(text) => {
            Err(problem("key", "it is encrypted, and passphrases are not supported: give an unencrypted key"))
        }
        Ok(key) => Ok(key),
        Err(pem::Error::NoItemsFound) => Err(problem("key", "it holds no private key in PEM")),
        Err(error) => Err(problem("key", error)),
    }
}

/// Certificates that others are checked against, as rustls has them and as they stand in the file.
pub(crate) fn roots(text: &[u8]) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), FileProblem> {
    let certificates = certificates(text, "CA file")?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|error| problem("CA file", error))?;
    }
    Ok((store, certificates))
}

/// The same of certificates in DER, without those that cannot be read.
pub(crate) fn system_roots(
    certificates: &[Vec<u8>],
) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), FileProblem> {
    let certificates: Vec<_> = certificates.iter().map(|certificate| certificate.clone().into()).collect();
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(certificates.iter().cloned());
    match store.is_empty() {
        true => Err(problem("CA file", "there is none, and this system has no certificates of CAs")),
        false => Ok((store, certificates)),
    }
}

/// A chain and the key of its first certificate, which may be of any version of X.509.
pub(crate) fn own(
    provider: &CryptoProvider,
    certificate: &[u8],
    private_key: &[u8],
) -> Result<Arc<CertifiedKey>, FileProblem> {
    let (chain, private_key) = (chain(certificate)?, key(private_key)?);
    let signing = provider.key_provider.load_private_key(private_key).map_err(|error| problem("key", error))?;
    let shown = chain.first().and_then(|certificate| public_key(certificate));
    let shown = shown.ok_or_else(|| problem("certificate", "it cannot be read"))?;
    match signing.public_key() {
        Some(ours) if *ours != *shown => Err(problem("key", "it does not belong to the certificate")),
        _ => Ok(Arc::new(CertifiedKey::new(chain, signing))),
    }
}

pub(crate) fn revocations(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, FileProblem> {
    let found: Result<Vec<_>, pem::Error> = CertificateRevocationListDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| problem("revocation list", error))?;
    if found.is_empty() {
        return Err(problem("revocation list", "it holds no revocation list in PEM"));
    }
    Ok(found)
}

pub(crate) fn unusable(what: &'static str, error: impl fmt::Display) -> FileProblem {
    problem(what, error)
}
