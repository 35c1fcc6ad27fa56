//! Which servers are believed over TLS: those whose certificates a CA of the file has signed, or one of the system's.
//!
//! What was read is used for [`KEPT`]: reading the system's hundred and fifty CAs for each login would take longer than all
//! the rest of it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_client::certificates;
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;

/// The setting that names the file.
pub(crate) const CA_FILE: &str = "auth_tls_ca_file";

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
        let config = Arc::new(made_of(certificates(file.map(|file| (CA_FILE, &**file)))?)?);
        *kept = Some(Kept { file: file.cloned(), until: Instant::now() + KEPT, config: Arc::clone(&config) });
        Ok(config)
    }
}

impl Kept {
    fn is_of(&self, file: Option<&Arc<str>>) -> bool {
        self.file.as_ref() == file && Instant::now() < self.until
    }
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
