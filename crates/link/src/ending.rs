//! Messages of a client's that nobody can go on after, and how a header is told to be one.

use wire::frontend::tag;
use wire::{Header, SqlState, frontend, sqlstate};

/// Why a client's conversation ends because of what it sent.
#[derive(Debug)]
pub enum Ending {
    /// It said goodbye.
    Terminate,
    /// It is told this, and closed.
    Refuse(SqlState, String),
}

impl Ending {
    pub fn violation(text: impl Into<String>) -> Ending {
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
    // Not all of it is there.
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
