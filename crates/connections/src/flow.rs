//! Flow control of one connection: its backlog, and whether it is read and written.
//!
//! ```text
//!   peer A ──read──► decide ──Send──► peer B's socket
//!                                      │ takes less than all
//!                                      ▼
//!                                    backlog ──► A is not read until it is empty
//! ```
//!
//! One rule gives back-pressure both ways and bounds memory: while a connection has a backlog, the connection that its
//! bytes come from is not read. A connection owns a buffer only while something is unsent.
//!
//! A connection that is held is not read, whatever the rule says: SUSPEND is in force.

use units::{heap, limits};

/// The flow state of one connection.
#[derive(Debug)]
pub struct Flow {
    unsent: Vec<u8>,
    /// Bytes of `unsent` that were written already.
    gone: u32,
    /// What back-pressure says; a connection that is held is not read all the same.
    reading: bool,
    writing: bool,
    held: bool,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { unsent: Vec::new(), gone: 0, reading: true, writing: false, held: false }
    }
}

impl Flow {
    /// What the socket did not take, oldest first.
    #[must_use]
    pub fn backlog(&self) -> &[u8] {
        &self.unsent[self.gone as usize..]
    }

    /// Bytes of memory that the backlog takes.
    pub fn weight(&self) -> usize {
        heap::taken(self.unsent.capacity())
    }

    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.unsent.is_empty()
    }

    /// Appends what the socket did not take. `spare` supplies a buffer if there is none yet.
    pub fn keep(&mut self, bytes: &[u8], spare: impl FnOnce() -> Vec<u8>) {
        if self.unsent.capacity() == 0 {
            self.unsent = spare();
        }
        // One answer of the console's may be longer.
        let bounded = self.is_clear() || self.backlog().len() + bytes.len() <= limits::SERVER_BACKLOG_LEN_MAX;
        debug_assert!(bounded, "I10: nobody paused the source");
        // Otherwise a peer that always leaves something unread would make the written part grow for ever.
        if self.gone as usize >= limits::CHUNK_LEN_MAX {
            self.unsent.drain(..self.gone as usize);
            self.gone = 0;
        }
        self.unsent.extend_from_slice(bytes);
    }

    /// The socket took `count` bytes. Returns the buffer once nothing is left.
    pub fn drained(&mut self, count: usize) -> Option<Vec<u8>> {
        debug_assert!(count <= self.backlog().len(), "more was taken than there was");
        self.gone += count as u32;
        if (self.gone as usize) < self.unsent.len() {
            return None;
        }
        self.gone = 0;
        Some(std::mem::take(&mut self.unsent))
    }

    /// Whether it is read, unless it is held.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.reading
    }

    /// Whether to watch for reading and writing from now on, if that has changed.
    #[inline]
    pub fn watch(&mut self, read: bool) -> Option<(bool, bool)> {
        self.set(read, self.held)
    }

    /// Holds it, or lets it be read again: the same for a change of that.
    pub fn hold(&mut self, held: bool) -> Option<(bool, bool)> {
        self.set(self.reading, held)
    }

    #[inline]
    fn set(&mut self, read: bool, held: bool) -> Option<(bool, bool)> {
        let before = (self.reading && !self.held, self.writing);
        (self.reading, self.writing, self.held) = (read, !self.is_clear(), held);
        let after = (read && !held, self.writing);
        (before != after).then_some(after)
    }

    /// After a move to another worker: a connection starts there with reading only.
    pub fn restart(&mut self) {
        debug_assert!(self.is_clear(), "only a connection without a backlog moves");
        (self.reading, self.writing, self.held) = (true, false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_shrinks_from_the_front_and_gives_its_buffer_back() {
        let mut flow = Flow::default();
        flow.keep(b"hello", Vec::new);
        assert!(flow.drained(2).is_none());
        assert_eq!(flow.backlog(), b"llo");
        flow.keep(b"!", Vec::new);
        assert!(flow.drained(4).is_some());
        assert!(flow.is_clear());
    }

    #[test]
    fn a_backlog_that_is_never_empty_takes_no_more_room_than_its_bound() {
        let mut flow = Flow::default();
        let piece: Vec<u8> = (0..=255).cycle().take(1000).collect();
        flow.keep(&piece, Vec::new);
        for _ in 0..10_000 {
            flow.keep(&piece, Vec::new);
            assert!(flow.drained(1000).is_none());
            assert_eq!(flow.backlog(), piece);
        }
        assert!(flow.unsent.capacity() <= limits::BACKLOG_LEN_MAX, "{}", flow.unsent.capacity());
    }

    #[test]
    fn watch_returns_something_only_when_it_changes() {
        let mut flow = Flow::default();
        assert_eq!(flow.watch(true), None);
        assert_eq!(flow.watch(false), Some((false, false)));
        assert_eq!(flow.watch(false), None);
        flow.keep(b"unsent", Vec::new);
        assert_eq!(flow.watch(false), Some((false, true)));
    }

    #[test]
    fn a_held_connection_is_written_and_not_read_until_it_is_let_go() {
        let mut flow = Flow::default();
        assert_eq!((flow.hold(true), flow.hold(true)), (Some((false, false)), None));
        assert_eq!(flow.watch(true), None);
        flow.keep(b"unsent", Vec::new);
        assert_eq!(flow.watch(true), Some((false, true)));
        assert!(flow.is_reading() && flow.held);
        assert!(flow.drained(6).is_some());
        assert_eq!(flow.hold(false), Some((true, false)));
        flow.watch(false);
        assert_eq!((flow.hold(true), flow.hold(false)), (None, None), "back-pressure holds it anyway");
    }
}
