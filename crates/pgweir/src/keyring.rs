//! The files of TLS: read at start and on RELOAD, and again when one of them has changed, which `files` notices.
//!
//! They are taken together or not at all: while a certificate is new and its key still old, what was read last is used.

use ::settings::{Key, SslMode, TlsSettings};
use ask::tls_files::{connector, file, file_if_named, versions, words};
use engine::{Handle, Keyring};
use machine::Level;
use tls::{Acceptor, AcceptorFiles, ClientCertificates};

/// Reads the files that the settings name.
///
/// # Errors
/// A file cannot be read or used, in words that name its setting.
pub(crate) fn read(settings: &TlsSettings) -> Result<Keyring, String> {
    let acceptor = (settings.client_tls_sslmode != SslMode::Disable).then(|| acceptor(settings)).transpose()?;
    let connector = (settings.server_tls_sslmode != SslMode::Disable).then(|| connector(settings)).transpose()?;
    Ok(Keyring { acceptor, connector })
}

fn acceptor(settings: &TlsSettings) -> Result<Acceptor, String> {
    let files = AcceptorFiles {
        certificate: file(Key::client_tls_cert_file, &settings.client_tls_cert_file)?,
        key: file(Key::client_tls_key_file, &settings.client_tls_key_file)?,
        ca: file_if_named(Key::client_tls_ca_file, &settings.client_tls_ca_file)?,
        revocations: file_if_named(Key::client_tls_crl_file, &settings.client_tls_crl_file)?,
    };
    let certificates = match settings.client_tls_sslmode {
        SslMode::VerifyCa | SslMode::VerifyFull => ClientCertificates::Required,
        _ if files.ca.is_some() => ClientCertificates::Optional,
        _ => ClientCertificates::Unwanted,
    };
    Acceptor::new(&files, certificates, versions(&settings.client_tls_protocols)).map_err(|problem| {
        let names = [
            (Key::client_tls_cert_file, &settings.client_tls_cert_file),
            (Key::client_tls_key_file, &settings.client_tls_key_file),
            (Key::client_tls_ca_file, &settings.client_tls_ca_file),
            (Key::client_tls_crl_file, &settings.client_tls_crl_file),
        ];
        words(&problem, names)
    })
}

/// The files that the settings name.
pub(crate) fn names(settings: &TlsSettings) -> [&String; 8] {
    [
        &settings.client_tls_cert_file,
        &settings.client_tls_key_file,
        &settings.client_tls_ca_file,
        &settings.client_tls_crl_file,
        &settings.server_tls_cert_file,
        &settings.server_tls_key_file,
        &settings.server_tls_ca_file,
        &settings.server_tls_crl_file,
    ]
}

/// A file has changed. What is wrong with them is told once for each change, since half of a new set may be there.
/// Returns whether they are in use.
pub(crate) fn read_again(handle: &Handle, settings: &TlsSettings) -> bool {
    match read(settings) {
        Ok(keyring) => {
            handle.set_tls(keyring);
            handle.log().say(Level::Log, "the files of TLS have changed and were read again".to_owned());
            true
        }
        Err(why) => {
            handle.log().say(Level::Error, format!("{why}; what was read before stays in use"));
            false
        }
    }
}
