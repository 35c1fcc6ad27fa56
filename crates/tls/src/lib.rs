//! TLS over bytes, on both sides.
//!
//! ```text
//!   files.rs        PEM ──► certificates, keys, revocation lists
//!   versions.rs     client_tls_protocols and the like ──► versions of TLS
//!   acceptor.rs     what clients are shown, and which of their certificates are trusted
//!   connector.rs    what PostgreSQL is shown, and how far its certificate is checked
//!     trust.rs        libpq's sslmodes as rules for rustls
//!     old_certificates.rs  certificates of X.509's version 1, which rustls does not read
//!   session.rs      one connection: received bytes ──► plain bytes; plain bytes ──► bytes to send
//!   certificate.rs  names in a certificate, and its hash for channel binding
//! ```
//!
//! The crate promises: it reads and writes no file and no socket; no input makes it panic; it keeps no plain byte, and of
//! received bytes only those of an incomplete record.
//!
//! It does not do what rustls leaves out: TLS below 1.2, OpenSSL's cipher strings, DH parameters, and encrypted keys.
//!
//! //= pg18 ssl-tcp
//! //= pg18 libpq-ssl

mod acceptor;
mod certificate;
mod connector;
mod files;
mod old_certificates;
#[cfg(test)]
mod old_certificates_tests;
mod session;
#[cfg(test)]
mod tests;
mod trust;
mod versions;

pub use acceptor::{Acceptor, AcceptorFiles, ClientCertificates};
pub use certificate::{Names, end_point_hash};
pub use connector::{Connector, ConnectorFiles, ServerCheck, trusting};
pub use files::FileProblem;
pub use session::{Facts, Failure, Outgoing, Received, Session};
pub use versions::Versions;

/// The name by which both sides agree on PostgreSQL's protocol inside TLS.
//= pg18 protocol-flow#PROTOCOL-FLOW-SSL
pub const ALPN: &[u8] = b"postgresql";
