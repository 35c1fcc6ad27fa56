//! Limits that hold over all workers: so many events a second, and so many transactions at a time.
//!
//! ```text
//!   worker: RateLease, PermitLease ──RequestAllowance──► coordinator: RateSource (a bucket), PermitSource    one of each a class and kind, and a statement
//!             ▲   ▲   └───Unspent──────►  │  │
//!             │   └──────Allow────────────┘  │
//!             └──────────CallBack────────────┘  permits only: another worker has fewer
//! ```
//!
//! Promises: what a worker has not been given it does not use, whatever the order and lateness of mail. So there are never more
//! transactions at a time than may be; and over any time T, at most the burst, and what the rate brings in T, and what was with
//! workers or on its way when T began: [`AHEAD`] worth a worker at most, 4 × [`AHEAD`] over all, and none where that is no
//! whole token.
//! Where nothing is limited nothing is done. Does not do: queues of sessions that wait for a limit (`worker/src/tables/limiters.rs`).

pub mod bucket;
pub mod failures;
pub mod limiter;
pub(crate) mod permit_lease;
pub mod permit_source;
pub(crate) mod rate_lease;
pub mod rate_source;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use units::{Holder, Time, WorkerId};

use crate::classes::LimitKind;

/// How much more than it has requested a worker is given, if there is so much: what the rate brings in that time.
pub const AHEAD: Duration = Duration::from_millis(10);

/// For how long a worker keeps what it does not need at the moment.
pub const KEPT: Duration = Duration::from_millis(10);

/// How often a bucket that workers wait for is looked at.
pub const TICK: Duration = Duration::from_millis(2);

/// For how long a worker does not request again after all permits were taken.
pub const FULL: Duration = Duration::from_millis(1);

/// Which limit. Classes by name: a reload may move them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub enum Limit {
    Class(Arc<str>, LimitKind),
    /// How many may run a statement at a time: by the fingerprint of its text, `StatementLimits` in the settings.
    Statement(u64),
}

/// What the coordinator answers to the request of a worker, or of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowance {
    pub holder: Holder,
    /// So many more may be used.
    pub granted: u32,
    /// Of those requested, so many are answered: they are granted or refused.
    pub answered: u32,
    /// How many there are left for everybody.
    pub remaining: u32,
    /// When to request again, if some were refused.
    pub next_at: Option<Time>,
}

/// The coordinator calls permits back from a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallBack {
    pub worker: WorkerId,
    pub count: u32,
    /// Those that are used too, once they are not. Otherwise: how many are not used?
    pub used_too: bool,
}

/// How a limit was exceeded, in figures that a program can read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Exceeded {
    pub limit: u32,
    pub remaining: u32,
    pub retry_ms: u64,
}

impl Exceeded {
    /// For the DETAIL of an error.
    #[must_use]
    pub fn detail(&self) -> String {
        format!("limit={} remaining={} retry_after_ms={}", self.limit, self.remaining, self.retry_ms)
    }

    #[must_use]
    pub fn hint(&self) -> String {
        format!("Try again in {} ms.", self.retry_ms)
    }
}
