//! Messages of a client after which its session ends, and the check of message headers.

use wire::frontend::tag;
use wire::{Header, frontend};

use crate::end_reason::EndReason;

/// Why a session ends because of what its client sent.
#[derive(Debug)]
pub enum Ending {
    /// It sent Terminate.
    Terminate,
    /// It gets this FATAL error, and is closed.
    Refuse(EndReason),
}

impl From<wire::Error> for Ending {
    fn from(error: wire::Error) -> Ending {
        Ending::Refuse(error.into())
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
    Ending::Refuse(EndReason::MessageType { type_byte: tag })
}

#[cold]
fn invalid_length() -> Ending {
    Ending::Refuse(EndReason::MessageLength)
}
