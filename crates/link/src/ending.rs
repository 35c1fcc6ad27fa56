//! Messages of a client after which its session ends, and the check of message headers.

use wire::frontend::tag;
use wire::{Header, SqlState, frontend, sqlstate};

/// Why a session ends because of what its client sent.
#[derive(Debug)]
pub enum Ending {
    /// It sent Terminate.
    Terminate,
    /// It gets this FATAL error, and is closed.
    Refuse(SqlState, String),
}

impl Ending {
    pub(crate) fn violation(text: impl Into<String>) -> Ending {
        Ending::Refuse(sqlstate::PROTOCOL_VIOLATION, text.into())
    }
}

impl From<wire::Error> for Ending {
    fn from(error: wire::Error) -> Ending {
        Ending::violation(error.to_string())
    }
}

/// Checks a header against what PostgreSQL accepts of a client after login.
#[inline(always)]
pub fn checked_header(bytes: &[u8]) -> Result<Option<Header>, Ending> {
    let Some(&first) = bytes.first() else { return Ok(None) };
    let Some(len_max) = frontend::len_max(first).filter(|_| first != tag::PASSWORD) else {
        return Err(invalid_type(first));
    };
    // The header is not complete yet.
    let Some(header) = Header::parse(bytes)? else { return Ok(None) };
    if header.body_len() > len_max {
        return Err(invalid_length());
    }
    Ok(Some(header))
}

#[cold]
fn invalid_type(tag: u8) -> Ending {
    Ending::violation(format!("invalid frontend message type {tag}"))
}

#[cold]
fn invalid_length() -> Ending {
    Ending::violation("invalid message length")
}
