//! All decisions: who is linked to which server, who waits, who is told what.
//!
//! Nothing here knows a socket, a clock, a thread or a global. Three machines decide, each stepped the same way:
//!
//! ```text
//!   clients ──► Door ──(logged in)──► Worker ◄──lend──► Worker        sessions, servers, pools, queues
//!                 │  ▲                  │ ▲
//!           apply │  │ placed       ask │ │ granted, recall
//!                 ▼  │                  ▼ │
//!                Coordinator: who lives where; capacity as tokens
//! ```
//!
//! The one contract: **after every [`Machine::step`], carry out all actions in order before the next step.**
//!
//! Start with [`event`] (everything that can happen) and [`action`] (everything we may ask for), then one transcript in
//! `tests/transcripts/`, then [`worker`].

pub mod action;
pub mod arrival;
pub mod coordinator;
pub mod door;
pub mod event;
pub mod flow;
pub mod invariants;
pub mod mail;
pub mod observe;
pub mod sabotage;
pub mod server;
pub mod session;
pub mod settings;
pub mod snapshot;
pub mod startup_parameters;
pub mod work;
pub mod worker;

mod experience;
mod listener;

use queueing::board::Board;
use units::{ConnId, Time};

pub use crate::settings::Settings;
pub use action::{Action, Actions, Piece, Question, Source};
pub use coordinator::Coordinator;
pub use door::Door;
pub use event::{Event, Hangup};
pub use invariants::Violation;
pub use mail::{Exchange, Mail, Place, Refusal, Stop, ToCoordinator, ToDoor, ToWorker};
pub use observe::{About, Ends, Fact, Hearing, Level, Peer, Topic};
pub use snapshot::Snapshot;
pub use work::{Done, Job};
pub use worker::Worker;

/// A thing that decides: a worker, a door, the coordinator.
///
/// One round of the caller's loop: wait; read the clock once; read the board anew; deliver mail; tell what happened on
/// **servers, then on clients**; tell `DeadlineReached` if it has passed; tell `RoundEnded`, and once more after its
/// actions if there were any. After each telling carry out all actions, in order.
pub trait Machine {
    /// Decides what to do about one event. `now` never goes back.
    fn step(&mut self, now: Time, board: &Board, event: Event<'_>, actions: &mut Actions);

    /// As [`Machine::step`] with [`Event::Received`]: most of what happens, without what other events need.
    fn receive(&mut self, now: Time, board: &Board, conn: ConnId, bytes: &[u8], actions: &mut Actions) {
        self.step(now, board, Event::Received { conn, bytes }, actions);
    }

    /// Bytes that a connection's socket did not take yet, oldest first.
    fn backlog(&self, conn: ConnId) -> &[u8];

    /// Appends to the backlog what the socket did not take of an `Action::Send`.
    fn keep(&mut self, conn: ConnId, bytes: &[u8]);

    /// When to tell `DeadlineReached`.
    fn next_deadline(&self) -> Option<Time>;

    /// Whether `Event::RoundEnded` means anything to it now. Telling it all the same does no harm.
    fn awaits_round_end(&self) -> bool;

    /// A buffer whose bytes were carried out, for use again.
    fn recycle(&mut self, buffer: Vec<u8>);
}
