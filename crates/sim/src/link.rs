//! Connections: two byte streams each, with small buffers, that arrive late and in pieces and may break.
//!
//! ```text
//!   peer ──write──► │ in flight ░░░░│ arrived ████│ ──read──► pooler        "up"
//!   peer ◄──read─── │ arrived ████│ in flight ░░░░│ ◄──write── pooler       "down"
//! ```
//!
//! A stream holds no more than its buffer: a write may be short, as with a socket.

use machine::observe::Ends;
use units::ConnId;

use crate::asked::Asked;

/// One direction of a connection.
#[derive(Debug, Default)]
pub struct Pipe {
    data: Vec<u8>,
    head: usize,
    /// How many of the bytes from `head` have arrived.
    arrived: usize,
    room: usize,
    /// The writer has closed; the reader learns of it once everything has arrived.
    ended: bool,
    pub end_arrived: bool,
    /// A piece or the end is on its way.
    pub moving: bool,
    /// In all.
    written: u64,
    consumed: u64,
}

impl Pipe {
    #[must_use]
    pub fn len(&self) -> usize {
        self.data.len() - self.head
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[must_use]
    pub fn space(&self) -> usize {
        self.room.saturating_sub(self.len())
    }

    /// Takes as many bytes as there is room for; returns how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.space());
        self.force(&bytes[..count]);
        count
    }

    /// Takes everything, even if the buffer is full.
    pub fn force(&mut self, bytes: &[u8]) {
        if self.head > 0 && self.head == self.data.len() {
            self.data.clear();
            self.head = 0;
        } else if self.head > 64 * 1024 {
            self.data.drain(..self.head);
            self.head = 0;
        }
        self.data.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
    }

    /// How much has been written in all.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// How much of that has been read.
    #[must_use]
    pub fn consumed(&self) -> u64 {
        self.consumed
    }

    /// Nothing more will be written.
    pub fn end(&mut self) {
        self.ended = true;
    }

    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.len() - self.arrived
    }

    /// Something is on its way: bytes or the end.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.in_flight() > 0 || (self.ended && !self.end_arrived)
    }

    /// So many more bytes have arrived; with the last of them the end, if there is one.
    pub fn arrive(&mut self, count: usize) {
        self.arrived += count.min(self.in_flight());
        self.end_arrived = self.ended && self.in_flight() == 0;
    }

    #[must_use]
    pub fn readable(&self) -> &[u8] {
        &self.data[self.head..self.head + self.arrived]
    }

    pub fn consume(&mut self, count: usize) {
        self.head += count;
        self.arrived -= count;
        self.consumed += count as u64;
    }

    /// Cuts the stream after `count` of the bytes that are in it.
    pub fn cut(&mut self, count: usize) {
        self.data.truncate(self.head + count.min(self.len()));
        self.arrived = self.arrived.min(self.len());
    }
}

/// The place of a process of PostgreSQL in its table, and its number, which is never reused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ProcessName {
    pub index: u32,
    pub number: u32,
}

/// The other end of one of the pooler's connections.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A model client, by its index and its number.
    Client(u32, u32),
    /// A connection that carries a CancelRequest; the client that waits for its end, by index and number.
    Canceller(Option<(u32, u32)>),
    /// Another process of the pooler, by its number.
    Sibling(u16),
    /// A connection to PostgreSQL for this database; the first packet shows its purpose.
    Postgres { database: u16, process: Option<ProcessName> },
}

/// How a peer closes its connection.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Leaving {
    Orderly,
    Cut,
}

/// The id of a connection; that of a closed one finds nothing.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl LinkId {
    /// For the trace.
    #[must_use]
    pub fn number(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }
}

/// The pooler's end of a connection.
#[derive(Debug)]
pub struct PoolerEnd {
    /// The machine that has it, and its id there; `None` while it is on its way between machines.
    pub home: Option<(u16, ConnId)>,
    pub read: bool,
    pub write: bool,
    /// Since when the machine reads from it.
    pub read_from: u64,
    /// It is on its machine's list of connections with events.
    pub listed: bool,
    /// The pooler has got the event of its end.
    pub end_delivered: bool,
    pub closed: bool,
    /// Final bytes to a peer that the socket has not taken before the close.
    pub lingering: Vec<u8>,
    /// The database and user it counts for, once its startup packet has come.
    pub counted: Option<(String, String)>,
}

/// The other end.
#[derive(Debug)]
pub struct PeerEnd {
    pub who: Peer,
    pub closed: bool,
    /// It has more to write than there was room for.
    pub blocked: bool,
    /// An idle server is about to send its final error.
    pub dying: bool,
    /// Since when the server's final error lies unread: it must be read before a session is linked to the server (I8).
    pub last_words_at: Option<u64>,
}

/// One connection.
#[derive(Debug)]
pub struct Link {
    pub up: Pipe,
    pub down: Pipe,
    pub pooler: PoolerEnd,
    pub peer: PeerEnd,
    /// The pooler's requests to PostgreSQL.
    pub asked: Asked,
    /// The result of connecting, until the pooler gets the event.
    pub opened: Option<bool>,
    /// Both ends of it, where addresses matter.
    pub ends: Option<Box<Ends>>,
    /// When the pooler began to open it.
    pub opened_at: u64,
    /// Which of a database's hosts it is opened to.
    pub host: usize,
    /// Connected, so that it may be read and written.
    pub stands: bool,
    pub broken: bool,
    /// It is a server's, and no cancel's.
    pub serves: bool,
}

impl Link {
    /// `up_room`, `down_room`: how much the buffers of its two streams hold.
    #[must_use]
    pub fn new(who: Peer, up_room: usize, down_room: usize) -> Link {
        Link {
            up: Pipe { room: up_room, ..Pipe::default() },
            down: Pipe { room: down_room, ..Pipe::default() },
            pooler: PoolerEnd {
                home: None,
                read: true,
                write: false,
                read_from: 0,
                listed: false,
                end_delivered: false,
                closed: false,
                lingering: Vec::new(),
                counted: None,
            },
            peer: PeerEnd { who, closed: false, blocked: false, dying: false, last_words_at: None },
            asked: Asked::default(),
            opened: None,
            ends: None,
            opened_at: 0,
            host: 0,
            stands: false,
            broken: false,
            serves: false,
        }
    }

    /// Neither end has closed it.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.pooler.closed && !self.peer.closed
    }

    /// Notes the time if the peer's latest bytes are a final error.
    pub(crate) fn note_last_words(&mut self, now: u64) {
        let all_there = self.up.in_flight() == 0 && self.up.is_ended();
        if self.peer.dying && all_there && self.peer.last_words_at.is_none() {
            self.peer.last_words_at = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_the_end_comes_last() {
        let mut pipe = Pipe { room: 4, ..Pipe::default() };
        assert_eq!(pipe.write(b"hello"), 4);
        pipe.end();
        pipe.arrive(3);
        assert_eq!((pipe.readable(), pipe.end_arrived), (&b"hel"[..], false));
        pipe.consume(3);
        pipe.arrive(1);
        assert_eq!((pipe.readable(), pipe.end_arrived, pipe.space()), (&b"l"[..], true, 3));
    }
}
