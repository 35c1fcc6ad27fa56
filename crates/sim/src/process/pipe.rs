//! The bytes between a process and its connection: received but not handled, and answered but not sent.
//!
//! Answers are buffered as in PostgreSQL, until a message flushes them or the buffer is full.

use wire::frontend::tag;
use wire::{HEADER_LEN, Header};

use crate::link::Link;

/// PostgreSQL buffers answers up to this length, or until a Flush or Sync.
const HELD_LEN_MAX: usize = 8_192;

/// With so much unsent the process reads no more.
const UNSENT_LEN_MAX: usize = 64 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Buffers {
    inbox: Vec<u8>,
    held: Vec<u8>,
    outbox: Vec<u8>,
}

impl Buffers {
    /// Reads the bytes that have come. Returns whether there were any.
    pub(crate) fn read(&mut self, link: &mut Link) -> bool {
        let readable = link.down.readable();
        let count = readable.len();
        self.inbox.extend_from_slice(readable);
        link.down.consume(count);
        count > 0
    }

    /// Writes as much as possible. Returns whether there was anything to write.
    pub(crate) fn write(&mut self, link: &mut Link) -> bool {
        if self.outbox.is_empty() {
            return false;
        }
        let count = link.up.write(&self.outbox);
        self.outbox.drain(..count);
        link.peer.blocked = !self.outbox.is_empty();
        true
    }

    pub(crate) fn has_to_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// How many bytes of answers are not written.
    pub(crate) fn unsent(&self) -> usize {
        self.outbox.len() + self.held.len()
    }

    /// Whether most of the flushed bytes are sent.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.len() <= UNSENT_LEN_MAX
    }

    /// Whether all received bytes are handled.
    pub(crate) fn has_read_all(&self) -> bool {
        self.inbox.is_empty()
    }

    /// Whether answers are buffered.
    pub(super) fn holds(&self) -> bool {
        !self.held.is_empty()
    }

    /// The next message, if one is whole.
    ///
    /// # Errors
    /// Its length is bad.
    pub(crate) fn next_message(&mut self) -> Result<Option<(u8, Vec<u8>)>, wire::Error> {
        let header = match Header::parse(&self.inbox)? {
            Some(header) if self.inbox.len() >= header.total_len() => header,
            _ => return Ok(None),
        };
        let mut message: Vec<u8> = self.inbox.drain(..header.total_len()).collect();
        Ok(Some((header.tag, message.split_off(HEADER_LEN))))
    }

    /// All received bytes, for a login that has no whole messages yet; [`Buffers::put_back`] takes back the rest.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.inbox)
    }

    pub(super) fn put_back(&mut self, bytes: &[u8]) {
        self.inbox = bytes.to_vec();
    }

    /// The buffer for answers that may be held back.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.held
    }

    /// The buffer for bytes that are sent at once.
    pub(super) fn say(&mut self) -> &mut Vec<u8> {
        &mut self.outbox
    }

    /// Flushes all answers.
    pub(super) fn let_go(&mut self) {
        self.outbox.append(&mut self.held);
    }

    /// Flushes if this message requires it.
    pub(super) fn let_go_after(&mut self, message: u8) {
        let flushes = matches!(
            message,
            tag::QUERY | tag::SYNC | tag::FLUSH | tag::FUNCTION_CALL | tag::COPY_DONE | tag::COPY_FAIL
        );
        if flushes || self.held.len() > HELD_LEN_MAX {
            self.let_go();
        }
    }

    /// Flushes an answer that ends with ReadyForQuery.
    pub(super) fn let_go_if_ready(&mut self) {
        if self.held.len().checked_sub(6).is_some_and(|at| self.held[at] == b'Z') {
            self.let_go();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::backend::{self, Status};

    #[test]
    fn answers_are_held_until_a_message_wants_them() {
        let mut pipe = Buffers::default();
        backend::encode_parse_complete(pipe.buffer());
        pipe.let_go_after(tag::PARSE);
        assert!(pipe.holds() && !pipe.has_to_write());
        pipe.let_go_after(tag::FLUSH);
        assert!(!pipe.holds() && pipe.has_to_write());
        backend::encode_bind_complete(pipe.buffer());
        pipe.let_go_if_ready();
        assert!(pipe.holds());
        backend::encode_ready(pipe.buffer(), Status::Idle);
        pipe.let_go_if_ready();
        assert_eq!((pipe.holds(), pipe.unsent()), (false, 16));
        pipe.buffer().resize(HELD_LEN_MAX + 1, 0);
        pipe.let_go_after(tag::EXECUTE);
        assert!(!pipe.holds() && pipe.has_room());
    }

    #[test]
    fn a_message_is_read_when_it_is_whole() {
        let mut pipe = Buffers::default();
        pipe.put_back(b"S\0\0");
        assert_eq!(pipe.next_message(), Ok(None));
        pipe.put_back(b"S\0\0\0\x04Q");
        assert_eq!(pipe.next_message(), Ok(Some((b'S', Vec::new()))));
        assert_eq!((pipe.next_message(), pipe.has_read_all()), (Ok(None), false));
        pipe.put_back(b"S\0\0\0\x03");
        assert!(pipe.next_message().is_err());
    }
}
