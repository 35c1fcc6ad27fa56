//! What a file asks of TLS: the files that it needs, and what rustls has not.
//!
//! Promises that nothing is weaker than the file says: what cannot be done is an error where less would be done for it, and a
//! warning where more is. Whether the files can be used is known when they are read.

use ::settings::Key;

use crate::problem::{Problem, quoted};
use crate::settings::Values;

/// Versions of TLS that can be used, and words that name several.
const VERSIONS: [&str; 5] = ["all", "secure", "default", "tlsv1.2", "tlsv1.3"];

/// Choices of ciphers that ask for no certain ones.
const ANY_CIPHER: [&str; 8] = ["default", "secure", "normal", "fast", "all", "compat", "legacy", "insecure"];

/// Judges the values of `[pgbouncer]`.
pub(crate) fn judge(values: &Values) -> Vec<Problem> {
    let client = files(values, &CLIENT);
    let server = files(values, &SERVER);
    let words = WORDS.iter().filter(|word| is_used(values, word.key)).filter_map(|word| {
        let shown = values.get(word.key).show();
        let fits = (word.fits)(&shown);
        (!fits).then(|| problem(values, word.key, word.expected, false))
    });
    client.into_iter().chain(certificates(values)).chain(server).chain(words).chain(versions(values)).collect()
}

/// One side's files.
struct Side {
    mode: Key,
    certificate: Key,
    key: Key,
    ca: Key,
    /// Whether its peers are always shown a certificate.
    has_certificate: bool,
}

const CLIENT: Side = Side {
    mode: Key::client_tls_sslmode,
    certificate: Key::client_tls_cert_file,
    key: Key::client_tls_key_file,
    ca: Key::client_tls_ca_file,
    has_certificate: true,
};

const SERVER: Side = Side {
    mode: Key::server_tls_sslmode,
    certificate: Key::server_tls_cert_file,
    key: Key::server_tls_key_file,
    ca: Key::server_tls_ca_file,
    has_certificate: false,
};

fn files(values: &Values, side: &Side) -> Vec<Problem> {
    let mode = values.choice(side.mode);
    if mode == "disable" {
        return Vec::new();
    }
    let is_missing = |key: Key| values.text(key).is_empty();
    let needs = |given: Key, file: Key, why: &str| problem(values, given, &format!("{} too: {why}", file.name()), true);
    let mut problems = Vec::new();
    for (file, other) in [(side.certificate, side.key), (side.key, side.certificate)] {
        if side.has_certificate && is_missing(file) {
            problems.push(needs(
                side.mode,
                file,
                "clients are shown a certificate, and its key proves that it is ours",
            ));
        } else if is_missing(file) && !is_missing(other) {
            // A key alone harms nobody, and the console's SET names one file after the other.
            let is_error = other == side.certificate;
            let expected = format!("{} too: neither is of use alone", file.name());
            problems.push(problem(values, other, &expected, is_error));
        }
    }
    // Servers' certificates are checked against the system's CAs then.
    if mode.starts_with("verify-") && is_missing(side.ca) && side.has_certificate {
        problems.push(needs(side.mode, side.ca, "certificates are checked against it"));
    }
    problems
}

/// Logins by certificate need certificates.
fn certificates(values: &Values) -> Option<Problem> {
    let asks = values.choice(CLIENT.mode) != "disable" && !values.text(CLIENT.ca).is_empty();
    let expected = "client_tls_sslmode and client_tls_ca_file too: clients are not asked for certificates";
    (values.choice(Key::auth_type) == "cert" && !asks).then(|| problem(values, Key::auth_type, expected, true))
}

/// Words that OpenSSL would follow and rustls does not.
struct Unfollowed {
    key: Key,
    fits: fn(&str) -> bool,
    expected: &'static str,
}

const STRONG: &str = "default: rustls has no ciphers but strong ones, and chooses among them itself";
const STRONG_TOO: &str = "nothing: rustls has no ciphers but strong ones, and chooses among them itself";

const WORDS: [Unfollowed; 6] = [
    Unfollowed { key: Key::client_tls_ciphers, fits: |text| ANY_CIPHER.contains(&text), expected: STRONG },
    Unfollowed { key: Key::server_tls_ciphers, fits: |text| ANY_CIPHER.contains(&text), expected: STRONG },
    Unfollowed { key: Key::client_tls13_ciphers, fits: str::is_empty, expected: STRONG_TOO },
    Unfollowed { key: Key::server_tls13_ciphers, fits: str::is_empty, expected: STRONG_TOO },
    Unfollowed {
        key: Key::client_tls_dheparams,
        fits: |text| ["auto", "none"].contains(&text),
        expected: "auto: rustls exchanges keys by elliptic curves only",
    },
    Unfollowed {
        key: Key::client_tls_ecdhcurve,
        fits: |text| text == "auto",
        expected: "auto: rustls and the client agree on X25519MLKEM768, X25519, P-256 or P-384",
    },
];

fn versions(values: &Values) -> Option<Problem> {
    [Key::client_tls_protocols, Key::server_tls_protocols].into_iter().filter(|key| is_used(values, *key)).find_map(
        |key| {
            let text = values.get(key).show().to_lowercase();
            let words = text.split([',', ':']).map(str::trim);
            let (known, others): (Vec<&str>, Vec<&str>) = words.partition(|word| VERSIONS.contains(word));
            if known.is_empty() {
                Some(problem(values, key, "secure, tlsv1.2 or tlsv1.3: older versions are not supported", true))
            } else if !others.is_empty() {
                Some(problem(
                    values,
                    key,
                    "secure, tlsv1.2 or tlsv1.3: others are not supported, and passed over",
                    false,
                ))
            } else {
                None
            }
        },
    )
}

/// Whether TLS is used on the side that a setting is about.
fn is_used(values: &Values, key: Key) -> bool {
    let side = if key.name().starts_with("client_") { &CLIENT } else { &SERVER };
    values.choice(side.mode) != "disable"
}

fn problem(values: &Values, key: Key, expected: &str, is_error: bool) -> Problem {
    let place = values.place(key).cloned().unwrap_or_default();
    let make = if is_error { Problem::error } else { Problem::warning };
    make(&place, key.name(), quoted(&values.get(key).show()), expected.to_owned())
}
