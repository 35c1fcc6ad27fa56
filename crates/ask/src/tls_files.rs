//! The files of TLS that settings name, read and named in messages: all of them for what PostgreSQL meets, the parts for what clients do.

use std::fs;
use std::io;

use settings::{Key, SslMode, TlsSettings};
use tls::{Connector, ConnectorFiles, FileProblem, ServerCheck, Versions};

/// What servers meet.
///
/// # Errors
/// A file cannot be read or used, in words that name its setting.
pub fn connector(settings: &TlsSettings) -> Result<Connector, String> {
    let certificate = match settings.server_tls_cert_file.is_empty() {
        true => None,
        false => Some((
            file(Key::server_tls_cert_file, &settings.server_tls_cert_file)?,
            file(Key::server_tls_key_file, &settings.server_tls_key_file)?,
        )),
    };
    let ca = file_if_named(Key::server_tls_ca_file, &settings.server_tls_ca_file)?;
    let check = match settings.server_tls_sslmode {
        SslMode::VerifyFull => ServerCheck::Full,
        SslMode::VerifyCa => ServerCheck::Ca,
        // As in libpq: with a CA file, `require` means `verify-ca`.
        SslMode::Require if ca.is_some() => ServerCheck::Ca,
        _ => ServerCheck::Nothing,
    };
    // As in PgBouncer: without a CA file, the system's.
    let system_cas = match (check, &ca) {
        (ServerCheck::Nothing, _) | (_, Some(_)) => Vec::new(),
        (_, None) => system_cas(),
    };
    let files = ConnectorFiles {
        ca,
        system_cas,
        revocations: file_if_named(Key::server_tls_crl_file, &settings.server_tls_crl_file)?,
        certificate,
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

/// The certificates of the CAs that this system trusts, without those that cannot be read.
fn system_cas() -> Vec<Vec<u8>> {
    rustls_native_certs::load_native_certs().certs.into_iter().map(|certificate| certificate.to_vec()).collect()
}

/// `config` refuses words that name no version that there is.
#[must_use]
pub fn versions(words: &[String]) -> Versions {
    Versions::named(words.iter().map(String::as_str)).unwrap_or(Versions::ALL)
}

/// The contents of the file that a setting names.
///
/// # Errors
/// The file cannot be read.
pub fn file(key: Key, name: &str) -> Result<Vec<u8>, String> {
    fs::read(name).map_err(|error| format!("{}: cannot read \"{name}\": {}", key.name(), why(&error)))
}

/// The contents of the file that a setting names. `None`: the setting is empty.
///
/// # Errors
/// The file cannot be read.
pub fn file_if_named(key: Key, name: &str) -> Result<Option<Vec<u8>>, String> {
    (!name.is_empty()).then(|| file(key, name)).transpose()
}

/// A file's problem, with the setting that names the file.
#[must_use]
pub fn words(problem: &FileProblem, files: [(Key, &String); 4]) -> String {
    let place = match problem.what {
        "certificate" => 0,
        "key" => 1,
        "CA file" => 2,
        "revocation list" => 3,
        _ => return problem.to_string(),
    };
    let (key, name) = files[place];
    if name.is_empty() {
        return format!("{}: {}", key.name(), problem.why);
    }
    format!("{}: \"{name}\" cannot be used: {}", key.name(), problem.why)
}

/// The system's words for an error, without its number.
fn why(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.clone(), |(words, _)| words.to_owned())
}
