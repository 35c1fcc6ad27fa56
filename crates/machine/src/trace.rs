//! A statement that is traced: what the spans of a trace are made of.
//!
//! ```text
//!   client's span ─┬─ queue ─── connect         how long it waited for a server, and for one to be opened
//!                  └─ execute                   how long PostgreSQL worked
//! ```
//!
//! Does not know wall clocks and random ids: whoever sends the spans adds these.

use std::sync::Arc;

use connections::databases::Address;
use queueing::classes::ClassId;
use sql::{Rules, TraceParent};
use units::{ConnId, PoolKey, Time};

use crate::observe::About;

/// Which trace a statement belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceOrigin {
    /// The client's span, and its `tracestate`; `None`: the client has none, and the trace begins here.
    pub parent: Option<(TraceParent, Box<str>)>,
    /// When the transaction began, where the trace begins here: its statements have one trace.
    pub begun_at: Time,
}

/// A statement that has been answered, and is to be traced.
#[derive(Clone, Debug)]
pub struct TracedStatement {
    pub origin: TraceOrigin,
    /// Who has sent it.
    pub client: About,
    pub pool: PoolKey,
    pub class: ClassId,
    /// How long it waited for a server; 0 for all but the first statement of a transaction.
    pub queued_us: u64,
    /// How long the opening of its server took, if it waited for that.
    pub opened_us: Option<u64>,
    /// From when it was sent, or the answer before it came, until its answer was complete.
    pub ran_us: u64,
    /// When its answer was complete.
    pub ended_at: Time,
    pub server: ConnId,
    pub address: Arc<Address>,
    /// The process id of PostgreSQL's backend.
    pub backend_pid: i32,
    /// Its beginning, with whatever constants it has; empty if it is not known.
    pub text: Box<[u8]>,
    /// How its session reads it; `None`: not for certain, so that nobody knows where its constants begin and end.
    pub rules: Option<Rules>,
    /// It was answered by an error.
    pub has_failed: bool,
}
