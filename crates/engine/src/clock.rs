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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_an_hour_ago_was_an_hour_ago_on_the_wall() {
        let clock = Clock::start();
        let later = clock.now() + Duration::from_secs(3600);
        let shown = clock.on_the_wall(later).as_second() - Timestamp::now().as_second();
        assert!((3599..=3600).contains(&shown), "{shown}");
    }
}
