//! What all machines share: the contract of a step, what can happen, what may be asked for, and what they tell each other.
//!
//! Nothing here decides. Start with [`event`] (everything that can happen) and [`action`] (everything that may be asked for).

pub mod action;
pub mod addresses;
pub mod arrival;
pub mod asking;
pub mod cancel_secret;
pub mod encryption;
pub mod event;
pub mod fault;
pub mod hint;
pub mod histogram;
mod host_state;
mod lent;
pub mod mail;
pub mod moved_server;
pub mod observe;
pub mod orders;
pub mod peering;
pub mod pids;
pub mod primaries;
pub mod processes;
mod proved;
mod refusal;
pub mod refused_logins;
mod replication;
pub mod sabotage;
pub mod settings;
pub mod snapshot;
pub mod startup_parameters;
mod stop;
pub mod trace;
pub mod upgrade;
pub mod upstreams;
mod violation;
pub mod work;

use queueing::board::Board;
use units::{ConnId, Time};

pub use action::{Action, Actions, Manner, Piece, Question, Source};
pub use addresses::Addresses;
pub use asking::{Evidence, Inquiry, Outside, Verdict};
pub use cancel_secret::{CancelSecret, Protocol};
pub use encryption::{CertificateNames, Secure, Secured};
pub use event::{Event, Hangup};
pub use hint::{Hint, HintSource};
pub use mail::{Exchange, Lost, Mail, Place, Refusal, Stop, ToCoordinator, ToDoor, ToWorker};
pub use observe::{About, Ends, Fact, Level, LogFilter, Peer, SlowStatement, Topic};
pub use orders::{DatabaseOrders, Orders, Suspension};
pub use primaries::{Decision, Origin, Primaries, Primary};
pub use proved::{Marks, Proved};
pub use replication::{NoReplicationKind, Replication, ReplicationKind};
pub use settings::Settings;
pub use snapshot::{Look, Snapshot};
pub use upstreams::{HostRole, HostState, Observed, Upstream, Upstreams};
pub use violation::Violation;
pub use work::{Done, Job};

/// What a step works with besides the machine itself.
#[derive(Debug)]
pub struct Step<'a> {
    pub now: Time,
    pub board: &'a Board,
    pub actions: &'a mut Actions,
}

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

    /// Both of these.
    fn awaits(&self) -> (Option<Time>, bool) {
        (self.next_deadline(), self.awaits_round_end())
    }

    /// A buffer whose bytes were carried out, for use again.
    fn recycle(&mut self, buffer: Vec<u8>);
}
