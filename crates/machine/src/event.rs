//! Everything that can happen to a machine (a worker, a door, the coordinator).
//!
//! If something can happen to the pooler, it is a line here.

use units::{ConnId, Life};

use crate::asking::Verdict;
use crate::encryption::Secured;
use crate::mail::{Exchange, Lost, Mail};
use crate::observe::Ends;
use crate::work::Done;

/// One thing that happened. Byte slices are the engine's: they live for one step.
#[derive(Debug)]
pub enum Event<'a> {
    /// Bytes were read from a connection; never empty.
    Received { conn: ConnId, bytes: &'a [u8] },
    /// The peer closed the connection, or it broke.
    Hangup { conn: ConnId, why: Hangup },
    /// The socket took less than it was given; the rest was handed to `Machine::keep` meanwhile.
    Blocked { conn: ConnId },
    /// The socket took that many bytes of the connection's backlog.
    Drained { conn: ConnId, count: usize },
    /// A connection asked for by `Action::Open` stands; by TCP if it has `ends`.
    Opened { conn: ConnId, ends: Option<Box<Ends>> },
    /// It does not, and why, in the words of the log: `connect failed: …` or `server DNS lookup failed: …`.
    OpenFailed { conn: ConnId, why: String },
    /// A connection is encrypted, as `Action::Secure` asked for; or why not, in words for the log. Then it is of no more use.
    Secured { conn: ConnId, outcome: Result<Box<Secured>, String> },
    /// A door's connection has TLS that takes so many bytes of memory now.
    Weighed { conn: ConnId, bytes: usize },
    /// A slow computation asked for by `Action::Compute` is done.
    Computed { conn: ConnId, done: Done },
    /// What others have said to `Action::Ask`.
    Answered { conn: ConnId, verdict: Verdict },
    /// A message to this machine. If a connection travels with it, `Action::Adopt` names it.
    Mail(Mail),
    /// A worker's message that could not be delivered because the other mailbox was full, and its connection with it.
    Returned(Exchange),
    /// The machine replaces one that has panicked. It is the new machine's first event. Nothing is left of the old
    /// one's connections, and the actions of the step in which it panicked were not done. `lost`: a fact from that
    /// step's event that still has to be handled.
    Renewed { life: Life, lost: Option<Box<Lost>> },
    /// `Machine::next_deadline` has passed.
    DeadlineReached,
    /// The machine has been stepped with all events of this round of the loop. It is stepped with this again after its actions were
    /// carried out and the board was read anew, if there were any.
    RoundEnded,
}

// Passed by value through every step: what is rare and large is boxed.
const _: () = assert!(size_of::<Event<'_>>() <= 64);

/// How a connection ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Hangup {
    /// An orderly end of the stream.
    Closed,
    /// A reset, a broken pipe, a time-out of the transport.
    Broken,
}
