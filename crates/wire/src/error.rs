//! Why bytes are not a message. It promises to be small and free to copy; it carries no bytes of the peer, so that it may
//! be logged as it is. It does not say what to do about it.

use std::fmt;

use crate::sqlstate::{self, SqlState};

/// What is wrong with the bytes.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The length word is negative, smaller than itself, or not one that this kind of message can have.
    BadLength { len: i32 },
    /// A string does not end within its message.
    MissingTerminator,
    /// The message ends before its last field does.
    Truncated,
    /// A field holds what it must not hold; the text says which.
    BadValue(&'static str),
    /// The message is longer than it may be; both in bytes, the length word counted.
    TooLarge { len: usize, max: usize },
    /// The first packet asks for a protocol whose major version is not 3.
    UnsupportedVersion { major: u16, minor: u16 },
}

impl Error {
    /// The SQLSTATE for the peer, the same as PostgreSQL's.
    pub fn sqlstate(self) -> SqlState {
        match self {
            Error::UnsupportedVersion { .. } => sqlstate::FEATURE_NOT_SUPPORTED,
            Error::BadLength { .. }
            | Error::MissingTerminator
            | Error::Truncated
            | Error::BadValue(_)
            | Error::TooLarge { .. } => sqlstate::PROTOCOL_VIOLATION,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::BadLength { len } => write!(f, "invalid message length {len}"),
            Error::MissingTerminator => f.write_str("a string in the message has no end"),
            Error::Truncated => f.write_str("the message ends too early"),
            Error::BadValue(what) => write!(f, "invalid message: {what}"),
            Error::TooLarge { len, max } => {
                write!(f, "a message of {len} bytes is longer than the {max} allowed")
            }
            Error::UnsupportedVersion { major, minor } => {
                write!(f, "unsupported frontend protocol {major}.{minor}: 3.0 is supported")
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_shown_as_text() {
        assert!(size_of::<Error>() <= 24, "an error travels in every result");
        let told = [
            (Error::BadLength { len: -7 }, "invalid message length -7"),
            (Error::MissingTerminator, "a string in the message has no end"),
            (Error::Truncated, "the message ends too early"),
            (Error::BadValue("a bad thing"), "invalid message: a bad thing"),
            (Error::TooLarge { len: 9, max: 8 }, "a message of 9 bytes is longer than the 8 allowed"),
            (Error::UnsupportedVersion { major: 2, minor: 1 }, "unsupported frontend protocol 2.1: 3.0 is supported"),
        ];
        for (error, words) in told {
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn codes_are_those_of_postgresql() {
        assert_eq!(Error::Truncated.sqlstate(), sqlstate::PROTOCOL_VIOLATION);
        assert_eq!(Error::BadLength { len: 0 }.sqlstate(), sqlstate::PROTOCOL_VIOLATION);
        let old = Error::UnsupportedVersion { major: 2, minor: 0 };
        assert_eq!(old.sqlstate(), sqlstate::FEATURE_NOT_SUPPORTED);
    }
}
