//! What a certificate says: its subject's names, and its hash for channel binding.

use std::fmt::Write as _;

use aws_lc_rs::digest;
use rustls::pki_types::ServerName;
use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// The names of a certificate's subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// The common name, if there is exactly one, without NUL bytes.
    pub common_name: Option<String>,
    /// The whole distinguished name as OpenSSL writes it by RFC 2253, most special part first; empty if a part of it is no text.
    pub distinguished_name: String,
    /// The distinguished name of who has signed it.
    pub issuer: String,
    /// In hexadecimal digits.
    pub serial: String,
}

impl Names {
    /// Reads a certificate in DER; `None`: it is none.
    #[must_use]
    pub fn of(certificate: &[u8]) -> Option<Names> {
        let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
        let subject = certificate.subject();
        let mut common_names = subject.iter_common_name();
        // PostgreSQL refuses a name with a NUL byte, which would end it for some and not for others (CVE-2009-4034).
        let common_name = common_names.next().and_then(text).filter(|name| !name.contains('\0'));
        Some(Names {
            common_name: common_name.filter(|_| common_names.next().is_none()),
            distinguished_name: in_rfc2253(subject),
            issuer: in_rfc2253(certificate.issuer()),
            serial: certificate.raw_serial().iter().fold(String::new(), |mut digits, byte| {
                let _ = write!(digits, "{byte:02x}");
                digits
            }),
        })
    }
}

fn text(attribute: &AttributeTypeAndValue<'_>) -> Option<String> {
    attribute.as_str().ok().map(str::to_owned)
}

/// RFC 2253, section 2: the parts from last to first, joined by commas. As `openssl x509 -nameopt RFC2253` has it, by which the manual
/// tells people to write their maps. Empty if a part is no text: it is then nobody's name.
//= pg18 auth-pg-hba-conf
fn in_rfc2253(name: &X509Name<'_>) -> String {
    let parts: Vec<Vec<_>> = name.iter_rdn().map(|part| part.iter().collect()).collect();
    let mut written = String::new();
    for part in parts.iter().rev() {
        if !written.is_empty() {
            written.push(',');
        }
        for (index, attribute) in part.iter().rev().enumerate() {
            if index > 0 {
                written.push('+');
            }
            written.push_str(&key_of(attribute));
            written.push('=');
            let Some(value) = text(attribute) else { return String::new() };
            escape(&value, &mut written);
        }
    }
    written
}

/// The short names that RFC 2253 and OpenSSL have; others are written as numbers.
fn key_of(attribute: &AttributeTypeAndValue<'_>) -> String {
    let number = attribute.attr_type().to_id_string();
    let known = match number.as_str() {
        "2.5.4.3" => "CN",
        "2.5.4.4" => "SN",
        "2.5.4.5" => "serialNumber",
        "2.5.4.6" => "C",
        "2.5.4.7" => "L",
        "2.5.4.8" => "ST",
        "2.5.4.9" => "street",
        "2.5.4.10" => "O",
        "2.5.4.11" => "OU",
        "2.5.4.12" => "title",
        "2.5.4.42" => "GN",
        "0.9.2342.19200300.100.1.1" => "UID",
        "0.9.2342.19200300.100.1.25" => "DC",
        "1.2.840.113549.1.9.1" => "emailAddress",
        _ => return number,
    };
    known.to_owned()
}

fn escape(value: &str, written: &mut String) {
    let last = value.chars().count().saturating_sub(1);
    for (index, letter) in value.chars().enumerate() {
        let at_an_end = (index == 0 && (letter == ' ' || letter == '#')) || (index == last && letter == ' ');
        if letter.is_control() || !letter.is_ascii() {
            let bytes = letter.to_string();
            bytes.bytes().for_each(|byte| _ = write!(written, "\\{byte:02X}"));
            continue;
        }
        if at_an_end || matches!(letter, ',' | '+' | '"' | '\\' | '<' | '>' | ';') {
            written.push('\\');
        }
        written.push(letter);
    }
}

/// The public key of a certificate: its SubjectPublicKeyInfo in DER. `None`: the bytes are no certificate.
pub(crate) fn public_key(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    Some(certificate.public_key().raw.to_vec())
}

/// Whether the common name of a certificate is that of the host, where no alternative name is one of a host of that kind.
//= pg18 libpq-ssl#LIBQ-SSL-CERTIFICATES
pub(crate) fn is_named_in_subject(certificate: &[u8], host: &ServerName<'_>) -> bool {
    let Some(common_name) = Names::of(certificate).and_then(|names| names.common_name) else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(alternatives) = certificate.subject_alternative_name() else { return false };
    let mut alternatives = alternatives.iter().flat_map(|names| &names.value.general_names);
    match host {
        ServerName::DnsName(name) => {
            !alternatives.any(|other| matches!(other, GeneralName::DNSName(_))) && fits(&common_name, name.as_ref())
        }
        ServerName::IpAddress(address) => {
            let address = std::net::IpAddr::from(*address).to_string();
            !alternatives.any(|other| matches!(other, GeneralName::IPAddress(_))) && common_name == address
        }
        _ => false,
    }
}

/// Whether a name is a host's. A star stands for its first label.
fn fits(name: &str, host: &str) -> bool {
    if name.eq_ignore_ascii_case(host) {
        return true;
    }
    let (Some(rest), Some((label, host))) = (name.strip_prefix("*."), host.split_once('.')) else { return false };
    !label.is_empty() && rest.eq_ignore_ascii_case(host)
}

/// Whether a certificate's time has come and not passed, at so many seconds after 1970.
pub(crate) fn is_valid_at(certificate: &[u8], seconds: u64) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    let Ok(seconds) = i64::try_from(seconds) else { return false };
    let validity = certificate.validity();
    (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&seconds)
}

/// The hash of a server's certificate by which an exchange inside TLS is bound to it: `tls-server-end-point`. `None`: it
/// is signed in a way that says no hash, such as Ed25519.
//= rfc5929#section-4.1
#[must_use]
pub fn end_point_hash(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let algorithm = match parsed.signature_algorithm.algorithm.to_id_string().as_str() {
        // RSA and ECDSA with SHA-384 and SHA-512.
        "1.2.840.113549.1.1.12" | "1.2.840.10045.4.3.3" => &digest::SHA384,
        "1.2.840.113549.1.1.13" | "1.2.840.10045.4.3.4" => &digest::SHA512,
        // With SHA-256; MD5 and SHA-1 count as SHA-256.
        "1.2.840.113549.1.1.11" | "1.2.840.10045.4.3.2" => &digest::SHA256,
        "1.2.840.113549.1.1.4" | "1.2.840.113549.1.1.5" | "1.2.840.10045.4.1" => &digest::SHA256,
        // RSASSA-PSS names its hash in its parameters.
        "1.2.840.113549.1.1.10" => pss_hash(&parsed)?,
        _ => return None,
    };
    Some(digest::digest(algorithm, certificate).as_ref().to_vec())
}

fn pss_hash(certificate: &X509Certificate<'_>) -> Option<&'static digest::Algorithm> {
    use x509_parser::signature_algorithm::SignatureAlgorithm;
    let SignatureAlgorithm::RSASSA_PSS(parameters) =
        SignatureAlgorithm::try_from(&certificate.signature_algorithm).ok()?
    else {
        return None;
    };
    match parameters.hash_algorithm_oid().to_id_string().as_str() {
        "2.16.840.1.101.3.4.2.2" => Some(&digest::SHA384),
        "2.16.840.1.101.3.4.2.3" => Some(&digest::SHA512),
        "2.16.840.1.101.3.4.2.1" | "1.3.14.3.2.26" => Some(&digest::SHA256),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_star_stands_for_one_label() {
        let table = [
            ("db.example", "DB.example", true),
            ("*.example", "db.example", true),
            ("*.example", "a.db.example", false),
            ("*.example", "example", false),
            ("*.example", ".example", false),
            ("*", "example", false),
            ("d*.example", "db.example", false),
            ("db.example", "db.example.org", false),
        ];
        for (name, host, expected) in table {
            assert_eq!(fits(name, host), expected, "{name} {host}");
        }
    }
}
