//! A token bucket in whole numbers: so many events a second, and a burst.
//!
//! Promises: over any time, no more tokens are taken than the burst and what the rate brings in that time; and where somebody
//! has waited all the time, as many as the rate brings, whenever they are requested. Does not do: knowing which worker requests them.

use std::time::Duration;

use units::Time;

use crate::classes::Rate;

/// A token, in the units that a bucket counts: what a rate of one a second brings in a microsecond is one.
const TOKEN: u64 = 1_000_000;

/// A bucket is looked at this late at most: tokens that came meanwhile are not lost, though they may be more than the burst.
const LATE: Duration = Duration::from_millis(100);

/// Tokens of one rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    rate: Rate,
    level: u64,
    at: Time,
}

impl Bucket {
    /// A full one.
    #[must_use]
    pub fn new(rate: Rate, now: Time) -> Bucket {
        let rate = at_least_one(rate);
        Bucket { rate, level: u64::from(rate.burst) * TOKEN, at: now }
    }

    /// What flows in from now on, and how much is kept.
    pub fn configure(&mut self, rate: Rate, now: Time) {
        self.refill(now, false);
        let (before, rate) = (self.rate, at_least_one(rate));
        if rate != before {
            self.rate = rate;
            // At most as full as it was: what has been taken stays taken.
            let most = u64::from(rate.burst) * TOKEN;
            let share = u128::from(self.level) * u128::from(rate.burst) / u128::from(before.burst);
            self.level = u64::try_from(share).unwrap_or(most).min(most);
        }
    }

    #[must_use]
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Lets in what has come until now. `awaited`: somebody has waited for it since the last time.
    pub fn refill(&mut self, now: Time, awaited: bool) {
        let per_second = u64::from(self.rate.per_second);
        let come = now.micros_since(self.at).saturating_mul(per_second);
        self.at = self.at.max(now);
        let mut most = u64::from(self.rate.burst) * TOKEN;
        if awaited {
            most = most.max(per_second * LATE.as_micros() as u64);
        }
        self.level = self.level.saturating_add(come).min(most);
    }

    /// Whole tokens in it.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        u32::try_from(self.level / TOKEN).unwrap_or(u32::MAX)
    }

    /// Takes as many as there are, and no more than that.
    pub fn take(&mut self, most: u32) -> u32 {
        let taken = self.tokens().min(most);
        self.level -= u64::from(taken) * TOKEN;
        taken
    }

    /// Some that were taken were not used. What is more than the burst flows over.
    pub(crate) fn put_back(&mut self, count: u32) {
        let most = self.level.max(u64::from(self.rate.burst) * TOKEN);
        self.level = self.level.saturating_add(u64::from(count) * TOKEN).min(most);
    }

    /// When there will be a token: the moment of the last refill, if there is one.
    #[must_use]
    pub fn next_at(&self) -> Time {
        let missing = TOKEN.saturating_sub(self.level);
        self.at + Duration::from_micros(missing.div_ceil(u64::from(self.rate.per_second)))
    }

    /// What comes in that time, in whole tokens.
    #[must_use]
    pub(crate) fn worth(&self, span: Duration) -> u32 {
        let come = u128::from(self.rate.per_second) * span.as_micros() / u128::from(TOKEN);
        u32::try_from(come).unwrap_or(u32::MAX)
    }
}

fn at_least_one(rate: Rate) -> Rate {
    Rate { per_second: rate.per_second.max(1), burst: rate.burst.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second, burst }
    }

    #[test]
    fn a_bucket_is_full_at_first_and_never_fuller() {
        let mut bucket = Bucket::new(rate(10, 5), Time::ZERO);
        bucket.refill(Time::ZERO + SECOND, false);
        assert_eq!((bucket.take(7), bucket.tokens()), (5, 0));
        bucket.refill(Time::ZERO + SECOND * 3600, false);
        assert_eq!(bucket.tokens(), 5);
        bucket.put_back(3);
        assert_eq!(bucket.tokens(), 5);
    }

    #[test]
    fn it_says_to_the_microsecond_when_there_is_one() {
        let mut bucket = Bucket::new(rate(3, 1), Time::ZERO);
        assert_eq!(bucket.take(1), 1);
        let at = bucket.next_at();
        assert_eq!(at, Time(333_334));
        bucket.refill(Time(at.0 - 1), true);
        assert_eq!(bucket.take(1), 0);
        bucket.refill(at, true);
        assert_eq!(bucket.take(1), 1);
    }

    #[test]
    fn who_is_looked_at_late_loses_nothing_and_who_did_not_wait_gains_nothing() {
        let mut bucket = Bucket::new(rate(10_000, 1), Time::ZERO);
        let mut taken = bucket.take(1);
        for step in 1..=1000 {
            bucket.refill(Time(step * 10_000), true);
            taken += bucket.take(u32::MAX);
        }
        assert_eq!(taken, 100_001);
        bucket.refill(Time(20_000_000), false);
        assert_eq!(bucket.take(u32::MAX), 1);
    }

    #[test]
    fn a_bucket_is_as_full_after_it_is_configured_as_before() {
        let mut bucket = Bucket::new(rate(10, 10), Time::ZERO);
        assert_eq!(bucket.take(5), 5);
        bucket.configure(rate(1000, 1000), Time::ZERO);
        assert_eq!(bucket.tokens(), 500);
        bucket.configure(rate(10, 4), Time::ZERO);
        assert_eq!(bucket.tokens(), 2);
        assert_eq!(bucket.take(2), 2);
        bucket.configure(rate(u32::MAX, u32::MAX), Time::ZERO);
        assert_eq!(bucket.tokens(), 0);
        bucket.refill(Time(1), true);
        bucket.configure(rate(1, u32::MAX), Time(1));
        assert!(bucket.tokens() <= 4295, "what a microsecond brings");
    }

    #[test]
    fn what_it_is_configured_to_holds_at_once() {
        let mut bucket = Bucket::new(rate(1, 100), Time::ZERO);
        bucket.configure(rate(1000, 10), Time::ZERO);
        assert_eq!(bucket.take(u32::MAX), 10);
        bucket.refill(Time(5000), true);
        assert_eq!(bucket.take(u32::MAX), 5);
    }

    #[test]
    fn the_largest_figures_do_not_overflow() {
        let mut bucket = Bucket::new(rate(u32::MAX, u32::MAX), Time::ZERO);
        bucket.refill(Time::NEVER, true);
        assert_eq!(bucket.take(u32::MAX), u32::MAX);
        bucket.refill(Time::NEVER, true);
        bucket.put_back(u32::MAX);
        assert_eq!(bucket.worth(SECOND), u32::MAX);
        assert!(bucket.next_at() <= Time::NEVER);
    }
}
