//! ReadyForQuery: the answer is complete, and this is how the transaction stands.

use super::tag;
use crate::{Error, reader::Reader};

/// How the server's transaction stands.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// In none.
    Idle,
    InTransaction,
    /// In one that failed: everything but its end is refused.
    Failed,
}

impl Status {
    /// The byte that stands for it in the message.
    pub fn byte(self) -> u8 {
        match self {
            Status::Idle => b'I',
            Status::InTransaction => b'T',
            Status::Failed => b'E',
        }
    }

    /// `None` if the byte stands for none.
    pub fn from_byte(byte: u8) -> Option<Status> {
        match byte {
            b'I' => Some(Status::Idle),
            b'T' => Some(Status::InTransaction),
            b'E' => Some(Status::Failed),
            _ => None,
        }
    }
}

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-READYFORQUERY
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ReadyForQuery {
    pub status: Status,
}

impl ReadyForQuery {
    /// # Errors
    /// If the body is not exactly one of the three bytes.
    pub fn decode(body: &[u8]) -> Result<ReadyForQuery, Error> {
        let mut reader = Reader::new(body);
        let status = Status::from_byte(reader.u8()?).ok_or(Error::BadValue("an unknown transaction status"))?;
        reader.end()?;
        Ok(ReadyForQuery { status })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[tag::READY_FOR_QUERY, 0, 0, 0, 5, self.status.byte()]);
    }
}

/// Appends ReadyForQuery.
pub fn encode_ready(out: &mut Vec<u8>, status: Status) {
    ReadyForQuery { status }.encode(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        for (status, wire) in [
            (Status::Idle, b"Z\0\0\0\x05I"),
            (Status::InTransaction, b"Z\0\0\0\x05T"),
            (Status::Failed, b"Z\0\0\0\x05E"),
        ] {
            exact!(ReadyForQuery, tag::READY_FOR_QUERY, ReadyForQuery { status }, wire);
            let mut out = Vec::new();
            encode_ready(&mut out, status);
            assert_eq!(out, wire);
        }
    }

    #[test]
    fn only_three_states_there_are() {
        for byte in (0..=255).filter(|byte| !b"ITE".contains(byte)) {
            assert_eq!(ReadyForQuery::decode(&[byte]), Err(Error::BadValue("an unknown transaction status")));
        }
    }
}
