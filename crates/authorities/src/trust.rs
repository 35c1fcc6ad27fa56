//! Which servers are believed over TLS: those whose certificates a CA of the file has signed, or one of the system's.
//!
//! What was read is used for [`KEPT`]: reading the system's hundred and fifty CAs for each login would take longer than all
//! the rest of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::ClientConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

const KEPT: Duration = Duration::from_secs(60);

/// The certificates that were read last.
#[derive(Default)]
pub(crate) struct Trust(Mutex<Option<Kept>>);

struct Kept {
    file: Option<Arc<str>>,
    until: Instant,
    config: Arc<ClientConfig>,
}

impl Trust {
    /// What a connection over TLS begins with.
    ///
    /// # Errors
    /// There are no certificates, in words for the log.
    pub(crate) fn config(&self, file: Option<&Arc<str>>) -> Result<Arc<ClientConfig>, String> {
        // It is replaced whole: should reading a file panic, what was kept before is still good.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Kept { config, .. }) = kept.as_ref().filter(|kept| kept.is_of(file)) {
            return Ok(Arc::clone(config));
        }
        let config = Arc::new(made_of(certificates(file.map(|file| &**file))?)?);
        *kept = Some(Kept { file: file.cloned(), until: Instant::now() + KEPT, config: Arc::clone(&config) });
        Ok(config)
    }
}

impl Kept {
    fn is_of(&self, file: Option<&Arc<str>>) -> bool {
        self.file.as_ref() == file && Instant::now() < self.until
    }
}

/// The certificates themselves, read anew.
///
/// # Errors
/// There are none, in words for the log.
pub(crate) fn certificates(file: Option<&str>) -> Result<Vec<CertificateDer<'static>>, String> {
    let (certificates, whose): (Vec<_>, _) = match file {
        Some(name) => {
            let bytes = std::fs::read(name).map_err(|error| format!("auth_tls_ca_file \"{name}\": {error}"))?;
            (CertificateDer::pem_slice_iter(&bytes).flatten().collect(), format!("auth_tls_ca_file \"{name}\""))
        }
        None => (rustls_native_certs::load_native_certs().certs, "this system".to_owned()),
    };
    if certificates.is_empty() {
        return Err(format!("{whose} has no certificates of CAs"));
    }
    Ok(certificates)
}

/// The cryptography.
pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn made_of(certificates: Vec<CertificateDer<'static>>) -> Result<ClientConfig, String> {
    tls::trusting(certificates.iter().map(|certificate| certificate.to_vec()).collect()).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_told() {
        let missing: Arc<str> = "/nonexistent/ca.pem".into();
        let why = Trust::default().config(Some(&missing)).expect_err("it is not there");
        assert!(why.starts_with("auth_tls_ca_file \"/nonexistent/ca.pem\": "), "{why}");
        let empty: Arc<str> = "/dev/null".into();
        let why = Trust::default().config(Some(&empty)).expect_err("it has none");
        assert_eq!(why, "auth_tls_ca_file \"/dev/null\" has no certificates of CAs");
    }
}
