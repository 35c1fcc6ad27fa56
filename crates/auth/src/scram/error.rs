//! Why a SCRAM exchange ended without a login.
//!
//! Promises that it may be logged and shown as it is: the only bytes of a peer's that it carries are printable ones. To a
//! client the texts are PostgreSQL's.

use std::error::Error;
use std::fmt;

/// Why a SCRAM exchange ended without a login. All but `WrongProof` mean that the peer broke the protocol, asked
/// for something we do not do, or (`WrongSignature`) does not know the user's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScramError {
    /// The message is longer than any honest one.
    TooLong,
    /// A field is missing, out of place, not in base64 or of a wrong length.
    Malformed,
    /// The client's mechanism and its words about channel binding do not fit together.
    ChannelBinding,
    /// The client says that we have not offered channel binding, and we have: somebody has removed the offer.
    Downgrade,
    /// A type of channel binding that is not `tls-server-end-point`.
    UnknownBinding(BindingType),
    /// The client wants to act as another user than it logs in as.
    AuthorizationIdentity,
    /// A mandatory extension, and we know none.
    Extension,
    /// The nonce is empty, too long, or has forbidden characters.
    Nonce,
    /// The nonce does not continue the exchange.
    OtherNonce,
    /// What the client says of channel binding at the end is not what it said at the start.
    BindingChanged,
    /// The client has seen another certificate than ours: somebody between us ends its TLS.
    OtherCertificate,
    /// The client does not know the password.
    WrongProof,
    /// The server asks for no rounds at all, or for more than `ITERATIONS_MAX`.
    Iterations,
    /// The server sent an empty salt, one longer than `SALT_LEN_MAX`, or one that is not base64.
    Salt,
    /// The server does not know the user's keys: it may be another server.
    WrongSignature,
    /// The server ended the exchange with an error of its own (`e=`).
    Refused,
    /// A message that has no place in the exchange now.
    OutOfOrder,
}

/// The name of a type of channel binding, as far as PostgreSQL shows it: 30 bytes, of which all but printable ASCII are `?`.
#[derive(Copy, Clone, PartialEq, Eq, Hash)]
pub struct BindingType {
    len: u8,
    bytes: [u8; BindingType::LEN_MAX],
}

impl BindingType {
    const LEN_MAX: usize = 30;

    pub(super) fn new(name: &[u8]) -> BindingType {
        let mut bytes = [0; BindingType::LEN_MAX];
        let mut len = 0;
        for (to, &byte) in bytes.iter_mut().zip(name) {
            *to = if matches!(byte, 0x21..=0x7e) { byte } else { b'?' };
            len += 1;
        }
        BindingType { len, bytes }
    }

    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).expect("each byte is printable ASCII")
    }
}

impl fmt::Debug for BindingType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}

impl ScramError {
    /// What is wrong, for the log: PostgreSQL's text for a client may be the same for several mistakes.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            ScramError::TooLong => "the SCRAM message is too long",
            ScramError::ChannelBinding => "the SASL mechanism and the SCRAM message differ in whether they bind to TLS",
            ScramError::Downgrade => "the client supports SCRAM channel binding but thinks that it was not offered",
            ScramError::UnknownBinding(_) => "the client asks for an unknown type of SCRAM channel binding",
            ScramError::OtherNonce => "the SCRAM nonce does not match",
            ScramError::OtherCertificate => "the client is bound to another certificate than ours",
            ScramError::WrongProof => "wrong password",
            _ => "the client broke the rules of SCRAM",
        }
    }
}

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScramError::TooLong => "SCRAM message is too long",
            ScramError::Malformed | ScramError::ChannelBinding => "malformed SCRAM message",
            ScramError::Downgrade => "SCRAM channel binding negotiation error",
            ScramError::UnknownBinding(name) => {
                return write!(f, "unsupported SCRAM channel-binding type \"{}\"", name.as_str());
            }
            ScramError::AuthorizationIdentity => "client uses authorization identity, but it is not supported",
            ScramError::Extension => "client requires an unsupported SCRAM extension",
            ScramError::Nonce => "non-printable characters in SCRAM nonce",
            ScramError::OtherNonce => "invalid SCRAM response",
            ScramError::BindingChanged => "unexpected SCRAM channel-binding attribute in client-final-message",
            ScramError::OtherCertificate => "SCRAM channel binding check failed",
            ScramError::WrongProof => "password authentication failed",
            ScramError::Iterations => "SCRAM iteration count is out of range",
            ScramError::Salt => "invalid SCRAM salt",
            ScramError::WrongSignature => "wrong SCRAM server signature",
            ScramError::Refused => "server refused the SCRAM exchange",
            ScramError::OutOfOrder => "SCRAM message out of order",
        })
    }
}

impl Error for ScramError {}
