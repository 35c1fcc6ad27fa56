//! What two processes tell each other in an online upgrade: the running one, and the one that takes its place.
//!
//! ```text
//!   running process                                             new process
//!     Begun: clients, tokens, permits that are here ───────────►  counts them as those of one more worker
//!     Moved: a session, a server, or both, between two ────────►  places them; a server's token comes along
//!            transactions, with their sockets
//!     RequestServer, Freed, Departed, … for whoever stays ─────►  answers as it answers its workers: Granted, Recall, …
//! ```
//!
//! So both processes together keep every limit (I5): from `Begun` on the new process has all tokens, and the other one asks it for each.
//! What cannot move (a connection over TLS, whose keys only its process has) stays where it is until it ends.
//!
//! Values only: how they are written, and who carries them, is not known here. Pools have no ids here, since those are each process's own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use session_state::parameters::Reported;
use session_state::prepared::{MovedNames, MovedUnnamed};
use session_state::tracker::MovedTracker;
use units::{DoorId, Life, PoolId, PoolKey, ProcessId, Serial, Time, WorkerId};

use crate::arrival::ConsoleRights;
use crate::cancel_secret::CancelSecret;
use crate::moved_server::MovedServer;
use crate::observe::Peer;
use crate::proved::Proved;

/// What moves together: a session, a server, or a session and the server that it keeps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Luggage {
    pub key: PoolKey,
    /// How often KILL had been ordered for its database when it left.
    pub kills: u32,
    pub session: Option<MovedSession>,
    pub server: Option<MovedServer>,
    /// What the pool's servers report at login.
    pub report: Option<MovedReport>,
    /// What a client of the pool has proved last.
    pub proved: Proved,
}

/// The login report of a pool's servers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedReport {
    pub reported: Reported,
    /// The tracked parameters before `connect_query`: RESET brings them back.
    pub at_login: Vec<(String, Box<[u8]>)>,
}

impl Luggage {
    /// How many sockets come along: the session's first.
    #[must_use]
    pub fn sockets(&self) -> usize {
        usize::from(self.session.is_some()) + usize::from(self.server.is_some())
    }
}

/// Who a client is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedIdentity {
    pub serial: Serial,
    pub database: Arc<str>,
    /// The user that logged in.
    pub user: Arc<str>,
    pub peer: Peer,
    pub connected_at: Time,
    /// The key that it was sent to cancel with.
    pub cancel_pid: i32,
    pub cancel_secret: CancelSecret,
}

/// A session between two transactions.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedSession {
    pub identity: MovedIdentity,
    pub request_at: Time,
    pub console: Option<ConsoleRights>,
    pub parameters: Vec<(String, Box<[u8]>)>,
    pub reset_to: Option<Vec<(String, Box<[u8]>)>>,
    /// Names of the parameters that it has set itself: now, and in its startup packet.
    pub own: [Vec<String>; 2],
    /// A server has accepted these parameters once.
    pub confirmed: bool,
    pub tracker: Option<MovedTracker>,
    pub names: Option<MovedNames>,
    pub unnamed: Option<MovedUnnamed>,
    pub incoming: MovedIncoming,
    /// Since when it waits for a server, and whether it got the notice about that.
    pub waiting: Option<(Time, bool)>,
    pub reports_limits: bool,
    pub deadline_ms: u32,
}

/// What the client has sent and nobody has dealt with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MovedIncoming {
    pub inbox: Vec<u8>,
    /// Bytes of a message to come that are thrown away.
    pub skip: u32,
    pub is_skipping: bool,
    /// How often its first request was sent again after a server was lost.
    #[serde(default)]
    pub retries: u8,
}

/// The servers of one database that a process has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServersLeft {
    pub database: Arc<str>,
    pub open: u32,
    /// Of these, those that are closed when they are free.
    pub closing: u32,
}

/// What a door is sent in an upgrade.
#[derive(Debug)]
pub enum DoorTurn {
    /// A cancel of a client of the process that takes this one's place, which is to be told when it has been carried out.
    Cancel { pid: i32, secret: Box<[u8]>, door: DoorId, number: u32 },
    /// The process whose place this one takes has carried a cancel out, or has nothing to do.
    CancelOver { number: u32 },
    /// That process has ended. What it has said has come before this.
    PredecessorGone,
}

/// What the coordinator is sent in an upgrade, beside the mail of the other process.
#[derive(Debug)]
pub enum Turn {
    /// Another process takes our place.
    HandOver,
    /// It has taken too long: what has not moved by now ends between two transactions.
    EndWhatStays,
    /// Something was handed over: `Action::Placed` says where it lives.
    Place(ToPlace),
    /// A worker has handed over a session of this user, or a server.
    MovedAway { pool: PoolId, worker: WorkerId, life: Life, session: Option<Arc<str>>, server: bool },
}

/// Where luggage is to be taken to.
#[derive(Clone, Debug)]
pub struct ToPlace {
    /// Which luggage.
    pub ticket: u64,
    pub key: PoolKey,
    /// The user that logged in, if a session is in it.
    pub session: Option<Arc<str>>,
    pub console: bool,
    /// A server is in it.
    pub server: bool,
    /// The process that has handed it over; `None`: it was ours, and could not be handed over.
    pub from: Option<ProcessId>,
}
