//! SUSPEND: nobody is accepted, and no client or server is read, until RESUME. Consoles go on working.
//!
//! ```text
//!   SUSPEND ─► Flushing ─ nobody logs in, and all is sent ─► answered
//!                  └ suspend_timeout ─► Overdue: whoever was waited for is closed ─► answered
//!   RESUME, SIGUSR2, a shutdown, the last administrator is gone ─► reading and accepting go on
//! ```
//!
//! The last administrator, since nobody could log in to take it back.
//!
//! //= pgbouncer usage.md#process-controlling-commands

use std::time::{Duration, Instant};

use machine::Snapshot;

use super::orders::LOOKS;

/// What SUSPEND has come to, since it was ordered.
#[derive(Debug, Default)]
pub(super) struct Suspending {
    /// When it was first looked at.
    since: Option<Instant>,
    /// So many looks in a row have found no administrator at the console.
    deserted: u32,
}

impl Suspending {
    /// Whether it has lasted so long.
    pub(super) fn lasts(&mut self, now: Instant, timeout: Option<Duration>) -> bool {
        let since = *self.since.get_or_insert(now);
        timeout.is_some_and(|timeout| now.duration_since(since) >= timeout)
    }

    /// Whether all administrators are gone, as these looks at the workers show. One may be on its way between workers.
    pub(super) fn is_deserted(&mut self, snapshots: &[Snapshot]) -> bool {
        // A worker that does not know of SUSPEND yet may have some.
        let has_console = |snapshot: &Snapshot| snapshot.suspension.is_none_or(|counts| counts.consoles > 0);
        self.deserted = if snapshots.iter().any(has_console) { 0 } else { self.deserted + 1 };
        self.deserted >= LOOKS
    }
}

/// How many connections have not taken what was sent to them.
pub(super) fn unsent(snapshots: &[Snapshot]) -> u64 {
    // A worker that does not know of SUSPEND yet counts as one.
    snapshots.iter().map(|snapshot| snapshot.suspension.map_or(1, |counts| u64::from(counts.unsent))).sum()
}
