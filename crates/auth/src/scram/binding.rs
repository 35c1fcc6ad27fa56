//! Channel binding: an exchange inside TLS that also proves which certificate both ends have seen.
//!
//! ```text
//!   gs2 header    mechanism            what the client says                                   c= of client-final
//!     n,,         SCRAM-SHA-256        it does not bind                                       base64 of "n,,"
//!     y,,         SCRAM-SHA-256        it could bind, but the server has not offered to       base64 of "y,,"
//!     p=TYPE,,    SCRAM-SHA-256-PLUS   it binds to the server's certificate                   base64 of "p=TYPE,," HASH
//! ```
//!
//! Promises that an exchange with `y` fails where the server has offered to bind: somebody between the two has removed the
//! offer. Knows one type, `tls-server-end-point`. Does not compute the hash: `tls` does.
//= rfc5802#section-6
//= rfc5929#section-4

use super::ScramError;
use super::error::BindingType;
use super::message::encode;

/// The type of channel binding that PostgreSQL and libpq know.
const TYPE: &str = "tls-server-end-point";

/// A server's view of channel binding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ServerBinding<'a> {
    /// SCRAM-SHA-256-PLUS was not offered.
    NotOffered,
    /// SCRAM-SHA-256-PLUS was offered, and the client has chosen SCRAM-SHA-256.
    Declined,
    /// The client has chosen SCRAM-SHA-256-PLUS. The hash is that of our certificate.
    Chosen(&'a [u8]),
}

impl ServerBinding<'_> {
    /// Checks what a client says of channel binding: the first field of client-first.
    //= pg18 sasl-authentication#SASL-SCRAM-SHA-256
    pub(super) fn check(self, field: &[u8]) -> Result<(), ScramError> {
        match (field, self) {
            (b"n", ServerBinding::NotOffered | ServerBinding::Declined) => Ok(()),
            (b"y", ServerBinding::NotOffered) => Ok(()),
            (b"y", ServerBinding::Declined) => Err(ScramError::Downgrade),
            ([b'p', b'=', name @ ..], ServerBinding::Chosen(_)) if name == TYPE.as_bytes() => Ok(()),
            ([b'p', b'=', name @ ..], ServerBinding::Chosen(_)) => {
                Err(ScramError::UnknownBinding(BindingType::new(name)))
            }
            (b"n" | b"y", ServerBinding::Chosen(_)) | ([b'p', b'=', ..], _) => Err(ScramError::ChannelBinding),
            _ => Err(ScramError::Malformed),
        }
    }

    /// The `c=` that client-final has to carry, for the header of client-first.
    pub(super) fn attribute(self, header: &[u8]) -> String {
        let hash = if let ServerBinding::Chosen(hash) = self { hash } else { &[] };
        encode(&[header, hash].concat())
    }
}

/// A client's view of channel binding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ClientBinding<'a> {
    /// We do not bind.
    Unused,
    /// We could bind, and the server has not offered SCRAM-SHA-256-PLUS.
    NotOffered,
    /// We bind by SCRAM-SHA-256-PLUS. The hash is that of the server's certificate.
    Chosen(&'a [u8]),
}

impl ClientBinding<'_> {
    /// The header of client-first, with its final comma.
    pub(super) fn header(self) -> String {
        match self {
            ClientBinding::Unused => "n,,".to_owned(),
            ClientBinding::NotOffered => "y,,".to_owned(),
            ClientBinding::Chosen(_) => format!("p={TYPE},,"),
        }
    }

    /// The `c=` of client-final.
    pub(super) fn attribute(self) -> String {
        let hash = if let ClientBinding::Chosen(hash) = self { hash } else { &[] };
        encode(&[self.header().as_bytes(), hash].concat())
    }
}
