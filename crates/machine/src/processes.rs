//! Mail between processes that share tokens: the one that has them (the granter), and those that ask it for each (its members).
//!
//! Values only: how they are written, and who carries them, is not known here. Pools have no ids here, since those are each process's own.

use std::sync::Arc;

use connections::databases::Address;
use queueing::limiting::Limit;
use serde::{Deserialize, Serialize};
pub use units::ProcessId;
use units::{ConnId, PoolKey, Serial, Time};

use crate::observe::Peer;
use crate::orders::Orders;
use crate::primaries::Primary;
use crate::refusal::Refusal;
use crate::upgrade::Luggage;

/// The sessions and tokens of one pool in a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolUse {
    pub key: PoolKey,
    /// Sessions, by the users that logged in.
    pub sessions: Vec<(Arc<str>, u32)>,
    pub tokens: u32,
    /// The size that was found, where it is found.
    pub size: Option<u32>,
}

/// What there is, at the beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inventory {
    /// The console's sessions among them.
    pub pools: Vec<PoolUse>,
    /// Permits that are out.
    pub permits: Vec<(Limit, u32)>,
    /// The last number that was given to a client or a server.
    pub serial: Serial,
    /// What is ordered: from now on the new process takes orders, and tells this one.
    pub orders: Orders,
    /// Which host of each list is written to. Earlier builds do not send it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub primaries: Vec<(Vec<Address>, Primary)>,
}

/// From the process that leaves to the one that takes its place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToGranter {
    Begun(Inventory),
    /// A client that was logging in is in. May it stay?
    Apply {
        ticket: u64,
        key: PoolKey,
        user: Arc<str>,
        console: bool,
        exempt: bool,
        class: Arc<str>,
        peer: Peer,
    },
    /// That client has left before there was an answer, which may be on its way.
    Withdrawn {
        ticket: u64,
    },
    Departed {
        key: PoolKey,
        user: Arc<str>,
    },
    RequestServer {
        key: PoolKey,
        reserve: bool,
    },
    StillNeeded {
        key: PoolKey,
        count: u32,
    },
    NothingIdle {
        key: PoolKey,
        busy: bool,
    },
    Opened {
        key: PoolKey,
    },
    Freed {
        key: PoolKey,
        fresh: bool,
    },
    RequestAllowance {
        limit: Limit,
        count: u32,
    },
    Unspent {
        limit: Limit,
        count: u32,
        missing: u32,
    },
    /// A `Cancel` has been carried out, or there was nothing to do.
    CancelOver {
        door: u8,
        number: u32,
    },
}

/// From the process that takes the place of the one that leaves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum ToMember {
    /// The answer to `Apply`: it may stay, and counts as a session of this pool and user from now on.
    Admitted {
        ticket: u64,
        key: PoolKey,
        user: Arc<str>,
    },
    NotAdmitted {
        ticket: u64,
        why: Refusal,
    },
    Granted {
        key: PoolKey,
    },
    Dropped {
        key: PoolKey,
        count: u32,
        reserve: bool,
    },
    Inquire {
        key: PoolKey,
    },
    Recall {
        key: PoolKey,
        busy: bool,
    },
    Shrink {
        key: PoolKey,
        count: u32,
    },
    Allow {
        limit: Limit,
        granted: u32,
        answered: u32,
        remaining: u32,
        next_at: Option<Time>,
    },
    /// A cancel whose key may be of a session there. `door` and `number`: its ticket, for `CancelOver`.
    Cancel {
        pid: i32,
        secret: Box<[u8]>,
        door: u8,
        number: u32,
    },
}

/// Mail of another process, for the coordinator.
#[derive(Debug)]
pub enum FromProcess {
    ToGranter(ToGranter),
    ToMember(ToMember),
    /// It has left, or died, and its mail has come before this. A process that did not take what it was sent has left, too.
    Left,
}

/// Mail to another process.
#[derive(Debug)]
pub enum ToProcess {
    /// It grants what this one is given.
    ToGranter(ToGranter),
    /// This one grants what it is given.
    ToMember(ToMember),
    /// Luggage, and its sockets, by their names here: the session's first.
    Moved(Box<Luggage>, Vec<ConnId>),
}
