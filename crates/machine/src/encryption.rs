//! TLS as the machines see it: they ask for it, learn what has become of it, and go on in plain bytes.

use std::sync::Arc;

use connections::encryption::Facts;

/// Which side of a handshake we are on.
#[derive(Debug)]
pub enum Secure {
    /// The client begins. `is_direct`: it did so without SSLRequest; `received` is what it has sent of it already.
    Accept { is_direct: bool, received: Vec<u8> },
    /// We begin. `host`: the server's name or address, as it was configured; `is_direct`: without SSLRequest.
    Connect { host: String, is_direct: bool },
}

/// A connection that has been encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secured {
    /// `TLSv1.3` or `TLSv1.2`.
    pub version: &'static str,
    /// As OpenSSL names it.
    pub cipher: String,
    /// The group of the key exchange, if it was a full handshake.
    pub group: Option<String>,
    /// Whether it continues an earlier session.
    pub is_resumed: bool,
    /// The names in the peer's certificate, if it has shown one, which was found valid.
    pub certificate: Option<CertificateNames>,
    /// The hash that an exchange inside TLS is bound by, of the server's certificate: `tls-server-end-point`.
    //= rfc5929#section-4.1
    pub end_point: Option<Arc<[u8]>>,
}

impl Secured {
    /// Version and cipher as the console shows them.
    //= pgbouncer usage.md#SHOW-CLIENTS
    #[must_use]
    pub fn shown(&self) -> String {
        match &self.group {
            Some(group) => format!("{}/{}/{group}", self.version, self.cipher),
            None => format!("{}/{}", self.version, self.cipher),
        }
    }
}

/// What is kept of a handshake with PostgreSQL.
impl From<Secured> for Facts {
    fn from(secured: Secured) -> Facts {
        Facts { shown: secured.shown().into(), end_point: secured.end_point }
    }
}

/// The names in a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// The subject's common name, if there is exactly one.
    pub common_name: Option<String>,
    /// The subject as RFC 2253 writes it.
    pub distinguished_name: String,
    /// Who has signed it.
    pub issuer: String,
    /// In hexadecimal digits.
    pub serial: String,
}
