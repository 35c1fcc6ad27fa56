//! A worker's side of a concurrency limit: the permits that it holds.
//!
//! Promises: a permit is used by one transaction at a time. What is free and what nobody here waits for goes back when it is called
//! for; what a session here waits for that waits for another limit, too, goes back after its transaction: it would be requested
//! for again at once.

use std::time::Duration;

use units::Time;

use super::{Allowance, CallBack, FULL, KEPT};

/// When to try again, as long as none has been used to the end here.
const UNKNOWN: Duration = Duration::from_millis(100);

/// Permits of one limit on one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermitLease {
    free: u32,
    used: u32,
    requested: u32,
    /// So many go back once they are neither used nor waited for.
    owed: u32,
    kept_until: Time,
    full_until: Time,
    remaining: u32,
    /// For how long one is used, smoothed, in microseconds.
    used_us: u64,
}

impl PermitLease {
    /// So many are used by transactions that got them here, under a limit that was gone meanwhile.
    #[must_use]
    pub(crate) fn used_by(used: u32) -> PermitLease {
        PermitLease { used, ..PermitLease::default() }
    }

    /// One transaction may begin now.
    pub fn take(&mut self) -> bool {
        let has = self.free > 0;
        self.free -= u32::from(has);
        self.used += u32::from(has);
        has
    }

    /// One is over, after that time. Says how many go back now.
    pub fn release(&mut self, now: Time, lasted: Duration) -> u32 {
        debug_assert!(self.used > 0, "what is released was taken");
        self.used = self.used.saturating_sub(1);
        let micros = u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX / 8);
        self.used_us = if self.used_us == 0 { micros } else { (self.used_us / 8).saturating_mul(7) + micros / 8 };
        if self.owed > 0 {
            self.owed -= 1;
            return 1;
        }
        self.free += 1;
        self.kept_until = now + KEPT;
        0
    }

    #[must_use]
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Not used.
    #[must_use]
    pub(crate) fn free(&self) -> u32 {
        self.free
    }

    /// As far as is known here; 0 before the first request.
    #[must_use]
    pub(crate) fn remaining(&self) -> u32 {
        self.remaining.saturating_add(self.free)
    }

    /// Used, and not used: what the coordinator counts as held here.
    #[must_use]
    pub(crate) fn held(&self) -> u32 {
        self.used + self.free
    }

    #[must_use]
    pub(crate) fn is_unused(&self) -> bool {
        self.held() == 0 && self.requested == 0
    }

    pub fn request(&mut self, needed: u32) -> u32 {
        let more = needed.saturating_sub(self.free.saturating_add(self.requested));
        if more < self.requested {
            return 0;
        }
        self.requested = self.requested.saturating_add(more);
        more
    }

    pub fn allowed(&mut self, now: Time, allowance: &Allowance) {
        self.requested = self.requested.saturating_sub(allowance.answered);
        self.free += allowance.granted;
        self.remaining = allowance.remaining;
        self.kept_until = now + KEPT;
        if allowance.answered > allowance.granted {
            self.full_until = now + FULL;
        }
    }

    /// How many go back now, and how many will not, while so many wait.
    pub fn called(&mut self, call: &CallBack, waiting: u32) -> (u32, u32) {
        let now = self.spare(waiting).min(call.count);
        self.free -= now;
        let rest = call.count - now;
        let later = if call.used_too { rest.min(self.held().saturating_sub(self.owed)) } else { 0 };
        self.owed += later;
        (now, rest - later)
    }

    fn spare(&self, waiting: u32) -> u32 {
        self.free.saturating_sub(waiting)
    }

    /// Fewer may wait than did: how many of what was called for go back now.
    pub fn return_recalled(&mut self, waiting: u32) -> u32 {
        let back = self.spare(waiting).min(self.owed);
        (self.free, self.owed) = (self.free - back, self.owed - back);
        back
    }

    /// When to request again, while all are known to be used.
    #[must_use]
    pub(crate) fn full_until(&self, now: Time) -> Option<Time> {
        (self.free == 0 && now < self.full_until).then_some(self.full_until)
    }

    /// When one of so many may be free again, by how long they are used; a guess as long as none has been used to the end.
    #[must_use]
    pub(crate) fn free_in(&self, limit: u32) -> Duration {
        self.expected_in(limit).unwrap_or(UNKNOWN)
    }

    /// The same; `None` as long as nobody knows.
    #[must_use]
    pub(crate) fn expected_in(&self, limit: u32) -> Option<Duration> {
        (self.used_us > 0).then(|| Duration::from_micros(self.used_us / u64::from(limit.max(1))))
    }

    /// When to look for permits that are of no use to so many waiting sessions.
    #[must_use]
    pub fn next_at(&self, waiting: u32) -> Option<Time> {
        (self.spare(waiting) > 0).then_some(self.kept_until)
    }

    /// What goes back now.
    pub fn unspent(&mut self, now: Time, waiting: u32) -> u32 {
        if self.next_at(waiting).is_none_or(|until| until > now) {
            return 0;
        }
        let back = self.spare(waiting);
        self.free -= back;
        self.owed = self.owed.saturating_sub(back);
        back
    }

    /// All that is not used goes back: there is no such limit any more.
    pub fn empty(&mut self) -> u32 {
        std::mem::take(&mut self.free)
    }
}
