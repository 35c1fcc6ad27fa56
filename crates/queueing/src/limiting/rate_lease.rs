//! A worker's side of a rate: what it was given and has not used.
//!
//! Promises: requests no more than is needed, not again before it is answered, unless as many again are needed, and not while
//! it is known that there are none; what nobody needs for [`KEPT`] goes back.

use std::time::Duration;

use units::Time;

use super::{Allowance, KEPT};
use crate::classes::Rate;

/// Tokens of one rate on one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateLease {
    tokens: u32,
    /// Used before they were given.
    debt: u32,
    requested: u32,
    kept_until: Option<Time>,
    /// There are none before this.
    dry_until: Time,
    /// With the coordinator, and when it said so.
    left: Option<(u32, Time)>,
}

impl RateLease {
    /// One event may happen now; it is counted.
    pub(crate) fn take(&mut self) -> bool {
        let has = self.tokens > 0;
        self.tokens -= u32::from(has);
        has
    }

    /// One event happens, whatever there is.
    pub fn owe(&mut self) {
        if !self.take() {
            self.debt = self.debt.saturating_add(1);
        }
    }

    #[must_use]
    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// How many more to request, if so many wait. They count as requested from then on.
    pub(crate) fn request(&mut self, now: Time, needed: u32) -> u32 {
        if self.dry_until(now).is_some() {
            return 0;
        }
        let more = needed.saturating_add(self.debt).saturating_sub(self.tokens.saturating_add(self.requested));
        if more < self.requested {
            return 0;
        }
        self.requested = self.requested.saturating_add(more);
        more
    }

    pub fn allowed(&mut self, now: Time, allowance: &Allowance) {
        self.requested = self.requested.saturating_sub(allowance.answered);
        self.tokens = self.tokens.saturating_add(allowance.granted);
        let paid = self.tokens.min(self.debt);
        (self.tokens, self.debt) = (self.tokens - paid, self.debt - paid);
        self.left = Some((allowance.remaining, now));
        if let Some(next) = allowance.next_at {
            self.dry_until = next;
        }
        self.kept_until = Some(now + KEPT);
    }

    /// When there is a token for a session that comes after so many others, as far as is known: what was used ahead is paid first.
    #[must_use]
    pub(crate) fn free_at(&self, now: Time, rate: Rate, others: u32) -> Time {
        let one = u64::from(rate.per_second.max(1));
        let micros = |tokens: u64| Duration::from_micros((tokens * 1_000_000).div_ceil(one));
        let first = self.dry_until(now).unwrap_or_else(|| now + micros(1));
        first + micros(u64::from(self.debt) + u64::from(others))
    }

    /// It is known that there is none: when there may be.
    #[must_use]
    pub(crate) fn dry_until(&self, now: Time) -> Option<Time> {
        (self.tokens == 0 && now < self.dry_until).then_some(self.dry_until)
    }

    /// Somebody was refused because the class waits for nothing.
    #[cfg(test)]
    pub(super) fn has_requested(&self) -> bool {
        self.requested > 0
    }

    /// What was left of the rate when the coordinator reported last, and when that was.
    #[must_use]
    pub(crate) fn left(&self) -> Option<(u32, Time)> {
        self.left
    }

    /// As far as is known here.
    #[must_use]
    pub(crate) fn remaining(&self) -> u32 {
        self.left.map_or(0, |(left, _)| left).saturating_add(self.tokens)
    }

    /// When to look for tokens that are of no use to so many waiting sessions, or to request what was used ahead.
    #[must_use]
    pub(crate) fn next_at(&self, now: Time, needed: u32) -> Option<Time> {
        let needs = needed > 0 || self.debt > 0;
        let ask = self.dry_until(now).filter(|_| needs);
        ask.or(self.kept_until.filter(|_| self.tokens > needed))
    }

    /// What goes back now.
    pub(crate) fn unspent(&mut self, now: Time, needed: u32) -> u32 {
        if self.tokens <= needed || self.kept_until.is_none_or(|until| until > now) {
            return 0;
        }
        let back = self.tokens - needed;
        self.tokens = needed;
        back
    }
}
