//! The text of a `timestamptz`, as PostgreSQL writes it with `DateStyle = ISO`.
//!
//! Lookups compare two of them: until when a password is valid, and the server's own clock. So the pooler needs no clock
//! of its own for VALID UNTIL, and a wrong one does no harm.
//!
//! //= pg18 datatype-datetime#DATATYPE-DATETIME-OUTPUT

use std::time::Duration;

/// A moment on PostgreSQL's clock.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timestamp {
    /// `-infinity`.
    Past,
    /// Microseconds since 2000-01-01 00:00 UTC, as PostgreSQL counts.
    At(i64),
    /// `infinity`.
    Future,
}

impl Timestamp {
    /// `None`: the text is no timestamp.
    pub(super) fn parse(text: &[u8]) -> Option<Timestamp> {
        match text {
            b"infinity" => return Some(Timestamp::Future),
            b"-infinity" => return Some(Timestamp::Past),
            _ => {}
        }
        let text = std::str::from_utf8(text).ok()?;
        // A year before Christ is long ago, whichever it is.
        let (text, is_past) = text.strip_suffix(" BC").map_or((text, false), |text| (text, true));
        let (date, time) = text.split_once(' ')?;
        let zone = time.rfind(['+', '-'])?;
        let (time, zone) = time.split_at(zone);
        let [year, month, day] = numbers(date, '-')?;
        let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
        let [hour, minute, second] = numbers(time, ':')?;
        let is_real = (1..=12).contains(&month) && (1..=31).contains(&day) && hour <= 24 && minute < 60 && second <= 60;
        if !is_real || year > YEAR_MAX {
            return None;
        }
        let seconds = days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second - offset(zone)?;
        let micros = seconds * 1_000_000 + micros(fraction)?;
        Some(if is_past { Timestamp::Past } else { Timestamp::At(micros) })
    }

    /// How long after `now` it is; `None`: it is not after it. A moment that never comes is [`Duration::MAX`] away.
    pub(super) fn after(self, now: Timestamp) -> Option<Duration> {
        match (self, now) {
            (Timestamp::Future, _) => Some(Duration::MAX),
            (Timestamp::At(at), Timestamp::At(now)) => at.checked_sub(now)?.try_into().ok().map(Duration::from_micros),
            _ => None,
        }
    }
}

/// PostgreSQL's last year is 294276.
const YEAR_MAX: i64 = 300_000;

/// Exactly three numbers of digits alone.
fn numbers(text: &str, separator: char) -> Option<[i64; 3]> {
    let mut parts = text.split(separator).map(number);
    let numbers = [parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

fn number(text: &str) -> Option<i64> {
    let is_number = (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Up to six digits behind the point.
fn micros(fraction: &str) -> Option<i64> {
    if fraction.is_empty() {
        return Some(0);
    }
    Some(number(fraction)? * 10_i64.pow(6 - u32::try_from(fraction.len()).ok()?))
}

/// `+02`, `-03:30`, `+05:53:28`: seconds.
fn offset(zone: &str) -> Option<i64> {
    let (sign, rest) = zone.split_at(1);
    let mut seconds = 0;
    for (index, part) in rest.split(':').enumerate() {
        seconds += number(part)? * [3_600, 60, 1].get(index)?;
    }
    Some(if sign == "-" { -seconds } else { seconds })
}

/// Days since 2000-01-01 in the Gregorian calendar, for years from 0 on.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that the day that not every year has is its last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let before_month = (153 * month + 2) / 5;
    365 * year + leap_days + before_month + day - 1 - 730_425
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<Timestamp> {
        Timestamp::parse(text.as_bytes())
    }

    #[test]
    fn texts_are_read_as_postgresql_writes_them() {
        // select extract(epoch from t - '2000-01-01 00:00+00') * 1000000, t from … with DateStyle = ISO
        let table = [
            ("1970-01-01 00:00:00+00", -946_684_800_000_000),
            ("2026-11-23 22:39:59.5+00", 848_788_799_500_000),
            ("2000-02-29 12:00:00.000001+00", 5_140_800_000_001),
            ("1999-12-31 23:59:60+00", 0),
            ("2024-03-01 01:30:00+01:30", 762_566_400_000_000),
            ("1969-12-31 19:00:00-05", -946_684_800_000_000),
            ("294276-12-31 23:59:59.999999+00", 9_223_371_331_199_999_999),
            ("0001-01-01 00:00:00+00", -63_082_281_600_000_000),
        ];
        for (text, micros) in table {
            assert_eq!(at(text), Some(Timestamp::At(micros)), "{text}");
        }
        assert_eq!(at("infinity"), Some(Timestamp::Future));
        assert_eq!(at("-infinity"), Some(Timestamp::Past));
        assert_eq!(at("0044-03-15 12:00:00+00 BC"), Some(Timestamp::Past));
    }

    #[test]
    fn what_is_no_timestamp_is_none() {
        let table = [
            "",
            "tomorrow",
            "2026-11-23",
            "2026-11-23 22:39:59",
            "23.11.2026 22:39:59+00",
            "Mon 23 Nov 22:39:59 2026 UTC",
            "2026-13-01 00:00:00+00",
            "2026-01-00 00:00:00+00",
            "2026-01-01 00:61:00+00",
            "2026-01-01 00:00:00.1234567+00",
            "2026-01-01 00:00:00+1:2:3:4",
            "2026-01-01-01 00:00:00+00",
            "999999-01-01 00:00:00+00",
            "2026-01-01 00:00:00+",
            "2026-é1-01 00:00:00+00",
        ];
        for text in table {
            assert_eq!(at(text), None, "{text}");
        }
    }

    #[test]
    fn a_span_is_none_where_the_moment_has_passed() {
        let (earlier, later) = (Timestamp::At(1_000_000), Timestamp::At(3_500_000));
        assert_eq!(later.after(earlier), Some(Duration::from_millis(2_500)));
        assert_eq!((earlier.after(earlier), earlier.after(later)), (Some(Duration::ZERO), None));
        assert_eq!((Timestamp::Future.after(later), Timestamp::Past.after(later)), (Some(Duration::MAX), None));
    }
}
