//! The only clock: microseconds since the process's start for decisions, and the wall clock for people.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use units::Time;

/// Copied to every thread, so that all of them count from the same zero.
#[derive(Copy, Clone, Debug)]
pub struct Clock {
    zero: Instant,
}

impl Clock {
    /// Starts to count now.
    #[must_use]
    pub(crate) fn start() -> Clock {
        // One second ahead, so that no moment is `Time::ZERO`, which may stand for "not yet".
        let now = Instant::now();
        Clock { zero: now.checked_sub(Duration::from_secs(1)).unwrap_or(now) }
    }

    /// As another process counts, whose zero is this.
    #[must_use]
    pub(crate) fn with_zero(zero_nanos: i64) -> Clock {
        let ago = monotonic_nanos().saturating_sub(zero_nanos);
        let ago = Duration::from_nanos(u64::try_from(ago).unwrap_or(0));
        let now = Instant::now();
        Clock { zero: now.checked_sub(ago).unwrap_or(now) }
    }

    /// Its zero, in nanoseconds of the system's monotonic clock, which all processes share.
    #[must_use]
    pub(crate) fn zero_nanos(&self) -> i64 {
        let elapsed = i64::try_from(self.zero.elapsed().as_nanos()).unwrap_or(i64::MAX);
        monotonic_nanos().saturating_sub(elapsed)
    }

    /// Reads the clock.
    #[inline]
    #[must_use]
    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.zero.elapsed()
    }

    /// The wall clock's time at a moment, by the wall clock as it is set now.
    #[must_use]
    pub(crate) fn on_the_wall(&self, time: Time) -> Timestamp {
        let now = self.now();
        let (ago, ahead) = (now.since(time), time.since(now));
        let wall = Timestamp::now();
        wall.checked_sub(ago).and_then(|wall| wall.checked_add(ahead)).unwrap_or(wall)
    }
}

fn monotonic_nanos() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_clock_with_the_same_zero_shows_the_same_time() {
        // Two clocks are read to make one of the other: as far as that takes, it may go wrong.
        let clock = Clock::start();
        let begun = Instant::now();
        let other = Clock::with_zero(clock.zero_nanos());
        let (one, two, three) = (clock.now(), other.now(), clock.now());
        let slack = begun.elapsed() + Duration::from_millis(1);
        assert!(one <= two + slack && two <= three + slack, "{one:?} {two:?} {three:?}");
    }

    #[test]
    fn a_moment_an_hour_ago_was_an_hour_ago_on_the_wall() {
        let clock = Clock::start();
        let before = Timestamp::now().as_second();
        let shown = clock.on_the_wall(clock.now() + Duration::from_secs(3600)).as_second() - 3600;
        let after = Timestamp::now().as_second();
        assert!((before - 1..=after + 1).contains(&shown), "{before} {shown} {after}");
    }
}
