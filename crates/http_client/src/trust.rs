//! Which CAs are believed.

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The certificates of a file, with the setting that names it, or of the system, read anew.
///
/// # Errors
/// There are none, in words for the log.
pub fn certificates(file: Option<(&str, &str)>) -> Result<Vec<CertificateDer<'static>>, String> {
    let (certificates, whose): (Vec<_>, _) = match file {
        Some((setting, name)) => (read(setting, name)?, format!("{setting} \"{name}\"")),
        None => (rustls_native_certs::load_native_certs().certs, "this system".to_owned()),
    };
    if certificates.is_empty() {
        return Err(format!("{whose} has no certificates of CAs"));
    }
    Ok(certificates)
}

/// The certificates in a file.
pub(crate) fn read(setting: &str, name: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = std::fs::read(name).map_err(|error| format!("{setting} \"{name}\": {error}"))?;
    Ok(CertificateDer::pem_slice_iter(&bytes).flatten().collect())
}

/// The cryptography.
#[must_use]
pub fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_certificates_is_told() {
        let why = certificates(Some(("auth_tls_ca_file", "/nonexistent/ca.pem"))).expect_err("it is not there");
        assert!(why.starts_with("auth_tls_ca_file \"/nonexistent/ca.pem\": "), "{why}");
        let why = certificates(Some(("patroni_tls_ca_file", "/dev/null"))).expect_err("it has none");
        assert_eq!(why, "patroni_tls_ca_file \"/dev/null\" has no certificates of CAs");
    }
}
