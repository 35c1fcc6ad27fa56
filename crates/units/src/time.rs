//! Time as the decisions see it: microseconds since an arbitrary zero, always an argument.
//!
//! `std::time::Instant` has no zero and can only be had by reading the clock, which nothing in this crate may do.

use std::ops::Add;
use std::time::Duration;

/// A moment, in microseconds since the caller's zero (the process's start, or a simulation's).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
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

/// A length of time in microseconds. To add it to a [`Time`] takes one step, where a `Duration` has to be converted first: for settings that
/// each transaction is compared with.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    #[must_use]
    pub fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<Duration> for Span {
    /// Saturates.
    fn from(duration: Duration) -> Span {
        Span((Time::ZERO + duration).0)
    }
}

impl Add<Span> for Time {
    type Output = Time;

    /// Saturates at [`Time::NEVER`].
    #[inline]
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

/// As PostgreSQL reads a setting of time that has no unit, or `ms`, `s`, `min`. `None`: it is none, or longer than 24 days.
//= pg18 config-setting#CONFIG-SETTING-NAMES-VALUES
#[must_use]
pub fn milliseconds(text: &[u8]) -> Option<u32> {
    let text = text.trim_ascii();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number: u32 = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    let factor = match text[digits..].trim_ascii_start() {
        b"" | b"ms" => 1,
        b"s" => 1_000,
        b"min" => 60_000,
        b"h" => 3_600_000,
        b"d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(factor).filter(|product| *product <= i32::MAX as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_reached_by_no_sum() {
        assert_eq!(Time(5) + Duration::MAX, Time::NEVER);
        assert_eq!(Time(5) + Duration::from_millis(1), Time(1005));
        assert_eq!(Time(5) + Span::from(Duration::MAX), Time::NEVER);
        assert_eq!(Time(5) + Span::from(Duration::from_millis(1)), Time(1005));
    }

    #[test]
    fn a_span_is_never_negative() {
        assert_eq!(Time(5).since(Time(9)), Duration::ZERO);
        assert_eq!(Time(9).micros_since(Time(5)), 4);
    }

    #[test]
    fn times_are_read_as_postgresql_reads_them() {
        let table = [
            ("200", Some(200)),
            ("0", Some(0)),
            (" 200ms ", Some(200)),
            ("2 s", Some(2_000)),
            ("3min", Some(180_000)),
            ("", None),
            ("ms", None),
            ("-1", None),
            ("1h", Some(3_600_000)),
            ("2 d", Some(172_800_000)),
            ("1w", None),
            ("99999999999", None),
            ("4000000s", None),
        ];
        for (text, wanted) in table {
            assert_eq!(milliseconds(text.as_bytes()), wanted, "{text}");
        }
    }
}
