//! Requests that were refused, and clients that a deadline disconnected: how many, of which pool and class, and why.
//!
//! Promises: counts for `SHOW EVENTS` since the start; and of each pool, class and reason the first refusal after a
//! `stats_period` without any is to be logged at once. How many follow, the control plane logs once a period. A client that is disconnected has
//! a log line of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use units::{PoolId, PoolKey, Time};
use wire::{SqlState, sqlstate};

use crate::classes::LimitKind;

/// Why a request was refused, or a client disconnected.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// A limit of its class.
    Limit(LimitKind),
    /// `fingerprint_max_active`, or the statement's own limit.
    Statement,
    /// As many of its class wait as may.
    MaxWaiting,
    /// It has waited for as long as it can, or would.
    Deadline,
    /// It has waited for as long as it may run.
    QueryTimeout,
    /// It has run for as long as it may.
    RunTimeout,
    /// As [`Reason::QueryTimeout`], where the client is disconnected.
    QueuedTooLong,
    /// As [`Reason::RunTimeout`], where the client is disconnected.
    RanTooLong,
    /// The client has waited for a server for as long as it may.
    QueryWaitTimeout,
    /// The same, while as many clients of its pool kept a server as may.
    MaxPinned,
    /// The same, for a limit of its class.
    LimitWaitTimeout,
    /// PostgreSQL does not let the pool's user log in, and a retry would not cure it.
    ServerLogin,
    /// No host could be used for as long as the client may be held.
    FailoverWait,
    ClientIdleTimeout,
    IdleTransactionTimeout,
    TransactionTimeout,
    /// The client has a server, and has neither read nor sent anything for as long as that may last.
    ClientStalled,
}

impl Reason {
    /// The setting or limit, as users write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Reason::Limit(kind) => kind.name(),
            Reason::Statement => "fingerprint_max_active",
            Reason::MaxWaiting => "max_waiting",
            Reason::Deadline => "deadline",
            Reason::QueryTimeout | Reason::RunTimeout | Reason::QueuedTooLong | Reason::RanTooLong => "query_timeout",
            Reason::QueryWaitTimeout | Reason::LimitWaitTimeout => "query_wait_timeout",
            Reason::MaxPinned => "max_pinned",
            Reason::ServerLogin => "server_login",
            Reason::FailoverWait => "failover_wait",
            Reason::ClientIdleTimeout => "client_idle_timeout",
            Reason::IdleTransactionTimeout => "idle_transaction_timeout",
            Reason::TransactionTimeout => "transaction_timeout",
            Reason::ClientStalled => "client_stalled",
        }
    }

    /// The error that the client gets. `None`: that of PostgreSQL.
    #[must_use]
    pub fn code(self) -> Option<SqlState> {
        match self {
            Reason::Limit(_) | Reason::Statement | Reason::MaxWaiting => Some(sqlstate::CONFIGURATION_LIMIT_EXCEEDED),
            Reason::Deadline | Reason::QueryTimeout | Reason::RunTimeout => Some(sqlstate::QUERY_CANCELED),
            Reason::ServerLogin => None,
            Reason::FailoverWait => Some(sqlstate::CANNOT_CONNECT_NOW),
            Reason::QueuedTooLong
            | Reason::RanTooLong
            | Reason::QueryWaitTimeout
            | Reason::MaxPinned
            | Reason::LimitWaitTimeout
            | Reason::ClientIdleTimeout
            | Reason::IdleTransactionTimeout
            | Reason::TransactionTimeout
            | Reason::ClientStalled => Some(sqlstate::PROTOCOL_VIOLATION),
        }
    }

    /// Whether the client got no server: it waited too long, or might not even begin to wait.
    #[must_use]
    pub fn is_of_queue(self) -> bool {
        match self {
            Reason::MaxWaiting
            | Reason::Deadline
            | Reason::QueryTimeout
            | Reason::QueuedTooLong
            | Reason::QueryWaitTimeout
            | Reason::MaxPinned
            | Reason::ServerLogin
            | Reason::FailoverWait => true,
            Reason::Limit(_)
            | Reason::Statement
            | Reason::LimitWaitTimeout
            | Reason::RunTimeout
            | Reason::RanTooLong
            | Reason::ClientIdleTimeout
            | Reason::IdleTransactionTimeout
            | Reason::TransactionTimeout
            | Reason::ClientStalled => false,
        }
    }

    /// Whether the client's session ends, and not only its request.
    #[must_use]
    pub fn ends_session(self) -> bool {
        match self {
            Reason::Limit(_)
            | Reason::Statement
            | Reason::MaxWaiting
            | Reason::Deadline
            | Reason::QueryTimeout
            | Reason::RunTimeout
            | Reason::FailoverWait => false,
            Reason::QueuedTooLong
            | Reason::RanTooLong
            | Reason::QueryWaitTimeout
            | Reason::MaxPinned
            | Reason::LimitWaitTimeout
            | Reason::ServerLogin
            | Reason::ClientIdleTimeout
            | Reason::IdleTransactionTimeout
            | Reason::TransactionTimeout
            | Reason::ClientStalled => true,
        }
    }
}

/// Refusals of one pool, class and reason on one worker, since the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalCounts {
    pub key: PoolKey,
    pub class: Arc<str>,
    pub reason: Reason,
    pub count: u64,
}

/// The first refusal after a while without any, on one worker.
#[derive(Clone, Debug)]
pub struct News {
    pub pool: PoolId,
    pub class: Arc<str>,
    pub reason: Reason,
    /// The text of its client's error.
    pub message: String,
}

#[derive(Copy, Clone, Debug)]
struct Tally {
    count: u64,
    last_at: Time,
}

/// A worker's refusals.
#[derive(Debug, Default)]
pub struct Refusals(BTreeMap<(PoolId, Arc<str>, Reason), Tally>);

impl Refusals {
    /// Counts one. True: it is to be logged.
    pub fn count(&mut self, now: Time, quiet: Duration, pool: PoolId, class: Arc<str>, reason: Reason) -> bool {
        let tally = self.0.entry((pool, class, reason)).or_insert(Tally { count: 0, last_at: Time::ZERO });
        let is_news = tally.count == 0 || now >= tally.last_at + quiet;
        (tally.count, tally.last_at) = (tally.count + 1, now);
        is_news
    }

    /// The pool is forgotten: its id may soon be another one's.
    pub fn forget(&mut self, pool: PoolId) {
        self.0.retain(|(id, ..), _| *id != pool);
    }

    pub fn counts<'a>(
        &'a self,
        key: impl Fn(PoolId) -> Option<PoolKey> + 'a,
    ) -> impl Iterator<Item = RefusalCounts> + 'a {
        self.0.iter().filter_map(move |((pool, class, reason), tally)| {
            let (class, reason, count) = (Arc::clone(class), *reason, tally.count);
            Some(RefusalCounts { key: key(*pool)?, class, reason, count })
        })
    }
}
