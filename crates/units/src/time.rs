//! Time as the decisions see it: microseconds since an arbitrary zero, always an argument.
//!
//! `std::time::Instant` has no zero and can only be had by reading the clock, which nothing in this crate may do.

use std::ops::Add;
use std::time::Duration;

/// A moment, in microseconds since the caller's zero (the process's start, or a simulation's).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

impl Time {
    pub const ZERO: Time = Time(0);
    /// Later than every moment that is ever reached.
    pub const NEVER: Time = Time(u64::MAX);

    /// The span since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_micros(self.micros_since(earlier))
    }

    /// Microseconds since `earlier`, zero if `earlier` is later.
    #[must_use]
    pub fn micros_since(self, earlier: Time) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at [`Time::NEVER`].
    fn add(self, span: Duration) -> Time {
        let micros = span.as_secs().saturating_mul(1_000_000).saturating_add(u64::from(span.subsec_micros()));
        Time(self.0.saturating_add(micros))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_reached_by_no_sum() {
        assert_eq!(Time(5) + Duration::MAX, Time::NEVER);
        assert_eq!(Time(5) + Duration::from_millis(1), Time(1005));
    }

    #[test]
    fn a_span_is_never_negative() {
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
        assert_eq!(Time(9).micros_since(Time(5)), 4);
    }
}
