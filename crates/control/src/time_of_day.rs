//! Moments of workers' clocks as times of day, to the second.
//!
//! Promises that one of thousands costs little: what a zone says now holds for all moments since it last changed, and only those
//! before that are looked up one by one.

use std::fmt;

use jiff::tz::Offset;
use jiff::{Timestamp, Zoned, civil};
use machine::Snapshot;
use units::Time;

/// A zone, as seen from now.
pub(crate) struct TimesOfDay<'a> {
    now: &'a Zoned,
    offset: Offset,
    abbreviation: String,
    /// Since when both hold; `None`: always.
    since: Option<Timestamp>,
}

impl TimesOfDay<'_> {
    pub(crate) fn seen_from(now: &Zoned) -> TimesOfDay<'_> {
        let since = now.time_zone().preceding(now.timestamp()).next().map(|change| change.timestamp());
        TimesOfDay { now, offset: now.offset(), abbreviation: now.strftime("%Z").to_string(), since }
    }

    /// When it was this moment on the clock of a worker that was looked at now.
    pub(crate) fn of(&self, snapshot: &Snapshot, moment: Time) -> TimeOfDay<'_> {
        let now = self.now.timestamp();
        let then = now.checked_sub(snapshot.now.since(moment)).unwrap_or(now);
        if self.since.is_none_or(|since| then > since) {
            return TimeOfDay::InZone(self.offset.to_datetime(then), &self.abbreviation);
        }
        TimeOfDay::Before(Box::new(then.to_zoned(self.now.time_zone().clone())))
    }
}

/// One of them.
pub(crate) enum TimeOfDay<'a> {
    InZone(civil::DateTime, &'a str),
    Before(Box<Zoned>),
}

impl fmt::Display for TimeOfDay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimeOfDay::InZone(at, abbreviation) => {
                let (year, month, day) = (at.year(), at.month(), at.day());
                let (hour, minute, second) = (at.hour(), at.minute(), at.second());
                write!(f, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} {abbreviation}")
            }
            TimeOfDay::Before(at) => at.strftime("%Y-%m-%d %H:%M:%S %Z").fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_moment_is_shown_as_its_zone_had_it() {
        // Summer time began at 01:00 UTC on 2026-03-29.
        let now: Zoned = "2026-03-29T03:00:10+02:00[Europe/Berlin]".parse().expect("a time of day");
        let snapshot = Snapshot { now: Time::ZERO + Duration::from_secs(1_000_000), ..Snapshot::default() };
        let times = TimesOfDay::seen_from(&now);
        for (ago, expected) in [
            (0, "2026-03-29 03:00:10 CEST"),
            (10, "2026-03-29 03:00:00 CEST"),
            (11, "2026-03-29 01:59:59 CET"),
            (100_000, "2026-03-27 22:13:30 CET"),
        ] {
            let moment = Time::ZERO + Duration::from_secs(1_000_000 - ago);
            assert_eq!(times.of(&snapshot, moment).to_string(), expected, "{ago} s ago");
        }
        let utc: Zoned = "2026-03-29T00:00:00+00:00[UTC]".parse().expect("a time of day");
        let moment = Time::ZERO + Duration::from_secs(10);
        assert_eq!(TimesOfDay::seen_from(&utc).of(&snapshot, moment).to_string(), "2026-03-17 10:13:30 UTC");
    }
}
