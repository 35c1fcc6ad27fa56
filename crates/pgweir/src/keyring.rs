//! The files of TLS: read at start and on RELOAD, and again when one of them has changed, which `files` notices.
//!
//! They are taken together or not at all: while a certificate is new and its key still old, what was read last is used.

use std::fs;

use ::settings::{Key, SslMode, TlsSettings};
use engine::{Handle, Keyring};
use machine::Level;
use tls::{Acceptor, AcceptorFiles, ClientCertificates, Connector, ConnectorFiles, FileProblem, ServerCheck, Versions};

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

/// What servers meet.
///
/// # Errors
/// As [`read`].
pub(crate) fn connector(settings: &TlsSettings) -> Result<Connector, String> {
    let certificate = match settings.server_tls_cert_file.is_empty() {
        true => None,
        false => Some((
            file(Key::server_tls_cert_file, &settings.server_tls_cert_file)?,
            file(Key::server_tls_key_file, &settings.server_tls_key_file)?,
        )),
    };
    let files = ConnectorFiles {
        ca: file_if_named(Key::server_tls_ca_file, &settings.server_tls_ca_file)?,
        revocations: file_if_named(Key::server_tls_crl_file, &settings.server_tls_crl_file)?,
        certificate,
    };
    let check = match settings.server_tls_sslmode {
        SslMode::VerifyFull => ServerCheck::Full,
        SslMode::VerifyCa => ServerCheck::Ca,
        // As libpq: whoever names CAs wants them to count.
        SslMode::Require if files.ca.is_some() => ServerCheck::Ca,
        _ => ServerCheck::Nothing,
    };
    Connector::new(&files, check, versions(&settings.server_tls_protocols)).map_err(|problem| {
        let names = [
            (Key::server_tls_cert_file, &settings.server_tls_cert_file),
            (Key::server_tls_key_file, &settings.server_tls_key_file),
            (Key::server_tls_ca_file, &settings.server_tls_ca_file),
            (Key::server_tls_crl_file, &settings.server_tls_crl_file),
        ];
        words(&problem, names)
    })
}

/// `config` refuses words that name no version that there is.
fn versions(words: &[String]) -> Versions {
    Versions::named(words.iter().map(String::as_str)).unwrap_or(Versions::ALL)
}

fn file(key: Key, name: &str) -> Result<Vec<u8>, String> {
    fs::read(name).map_err(|error| format!("{}: cannot read \"{name}\": {}", key.name(), crate::complain::why(&error)))
}

fn file_if_named(key: Key, name: &str) -> Result<Option<Vec<u8>>, String> {
    (!name.is_empty()).then(|| file(key, name)).transpose()
}

/// A file's problem, with the setting that names the file.
fn words(problem: &FileProblem, files: [(Key, &String); 4]) -> String {
    let place = match problem.what {
        "certificate" => 0,
        "key" => 1,
        "CA file" => 2,
        "revocation list" => 3,
        _ => return problem.to_string(),
    };
    let (key, name) = files[place];
    format!("{}: \"{name}\" cannot be used: {}", key.name(), problem.why)
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
