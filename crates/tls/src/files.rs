//! PEM files as bytes: certificates, private keys, revocation lists.

use std::fmt;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, pem};

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
pub(crate) fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
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

pub(crate) fn key(text: &[u8]) -> Result<PrivateKeyDer<'static>, FileProblem> {
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

/// Certificates that others are checked against.
pub(crate) struct Roots {
    pub(crate) store: RootCertStore,
    /// The same as they stand in the file.
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

pub(crate) fn roots(text: &[u8]) -> Result<Roots, FileProblem> {
    let certificates = certificates(text, "CA file")?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        store.add(certificate.clone()).map_err(|error| problem("CA file", error))?;
    }
    Ok(Roots { store, certificates })
}

pub(crate) fn revocations(text: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, FileProblem> {
    let found: Result<Vec<_>, pem::Error> = CertificateRevocationListDer::pem_slice_iter(text).collect();
    let found = found.map_err(|error| problem("revocation list", error))?;
    if found.is_empty() {
        return Err(problem("revocation list", "it holds no revocation list in PEM"));
    }
    Ok(found)
}

/// Rustls' refusal of a key that does not belong to its certificate, and the like.
pub(crate) fn refused(error: &rustls::Error) -> FileProblem {
    match error {
        rustls::Error::InconsistentKeys(_) => problem("key", "it does not belong to the certificate"),
        other => problem("certificate or key", other),
    }
}

pub(crate) fn unusable(what: &'static str, error: impl fmt::Display) -> FileProblem {
    problem(what, error)
}
