//! Why a SCRAM exchange ended without a login.
//!
//! Carries no bytes of the peer's, so it may be logged and shown as it is.

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
    /// The client wants channel binding, which was not offered.
    ChannelBinding,
    /// The client wants to act as another user than it logs in as.
    AuthorizationIdentity,
    /// A mandatory extension, and we know none.
    Extension,
    /// The nonce is empty, too long, has forbidden characters, or does not continue the exchange.
    Nonce,
    /// What the client says of channel binding at the end is not what it said at the start.
    BindingChanged,
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

impl fmt::Display for ScramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ScramError::TooLong => "SCRAM message is too long",
            ScramError::Malformed => "malformed SCRAM message",
            ScramError::ChannelBinding => "SCRAM channel binding is not supported",
            ScramError::AuthorizationIdentity => "SCRAM authorization identity is not supported",
            ScramError::Extension => "SCRAM exchange requires an unknown extension",
            ScramError::Nonce => "invalid SCRAM nonce",
            ScramError::BindingChanged => "SCRAM channel binding changed during the exchange",
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
