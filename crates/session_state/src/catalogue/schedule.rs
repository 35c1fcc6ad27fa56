//! When a database is asked whether its catalogue has changed, and by which of two questions.
//!
//! ```text
//!   every 2 s: the poll takes at most 40 ms ──► the poll
//!              it takes longer              ──► the glance: unchanged ──► in 2 s
//!                                                           changed   ──► the poll
//!              and the poll at the latest when 50 times its duration have passed, but no later than in 30 s
//!   a client has defined something, and its transaction is over:
//!              the poll, when 50 times its duration have passed, but no sooner than after 1 s
//! ```
//!
//! The glance ([`super::GLANCE`]) sums PostgreSQL's own counts of rows changed in its catalogues. It takes 0.1 ms whatever
//! their size, and may be late: a server reports what it has counted a second after its last report, and when it is idle, within
//! ten. Before PostgreSQL 15 the report went to a process of its own, which may lose it: then only the poll is sent.

use std::time::Duration;

use units::Time;

/// How long after a poll the next is asked at the latest while the pool is used; what has not been polled for twice as long is in
/// doubt.
pub(super) const PERIOD: Duration = Duration::from_secs(30);
/// How soon after the last time at the earliest, if a client has defined something; and for how long a server is looked for that
/// is not the only idle one.
pub(super) const SOON: Duration = Duration::from_secs(1);
/// How soon after one question the next is asked, on a pool in use.
pub(super) const WINDOW: Duration = Duration::from_secs(2);

/// The poll takes one part in so many of a server's time at most.
const SHARE: u32 = 50;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Question {
    Glance,
    Poll,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    /// What the last glance answered that a poll has followed.
    glanced: Option<Box<[u8]>>,
    /// When the last poll was answered, and how long it took.
    polled_at: Time,
    took: Duration,
    /// Polls in a row that a glance has led to, and that had found nothing.
    false_alarms: u32,
    /// The poll under way is such a one.
    alarmed: bool,
}

impl Schedule {
    /// How long after a poll the next must be asked.
    fn pause(&self) -> Duration {
        (self.took * SHARE).clamp(WINDOW, PERIOD)
    }

    /// How long after a poll the next may be asked because of what clients have defined.
    pub(super) fn pause_for_fresh(&self) -> Duration {
        (self.took * SHARE).clamp(SOON, PERIOD)
    }

    /// Whether that is over.
    pub(super) fn may_poll_for_fresh(&self, now: Time) -> bool {
        now >= self.polled_at + self.pause_for_fresh()
    }

    /// What to ask now. `counts`: the server counts changes in a way that can be relied on.
    pub(super) fn question(&self, now: Time, counts: bool) -> Question {
        if counts && now < self.polled_at + self.pause() { Question::Glance } else { Question::Poll }
    }

    /// A glance has been answered. Whether the poll is asked now.
    pub(super) fn glanced(&mut self, answer: Option<Box<[u8]>>, now: Time) -> bool {
        if answer.is_some() && answer == self.glanced {
            return false;
        }
        // A session with temporary tables with defaults changes the catalogues all the time, and nothing of this matters.
        let least = self.took * (SHARE / 10) * (1 << self.false_alarms.min(4));
        if now < self.polled_at + least.min(PERIOD) {
            return false;
        }
        self.glanced = answer;
        self.alarmed = true;
        true
    }

    /// A poll has been answered. `changed`: it has found something new.
    pub(super) fn polled(&mut self, began: Time, now: Time, changed: bool) {
        (self.polled_at, self.took) = (now, now.since(began));
        let was_alarmed = std::mem::take(&mut self.alarmed);
        self.false_alarms = if was_alarmed && !changed { self.false_alarms + 1 } else { 0 };
    }

    /// How long until the next question.
    pub(super) fn next(&self, counts: bool) -> Duration {
        if counts { WINDOW } else { self.pause() }
    }
}

/// Whether a server of this version can be asked by a glance: `15.4`, `16devel`.
pub fn counts_changes(version: &[u8]) -> bool {
    let len = version.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(version.len());
    let major = std::str::from_utf8(&version[..len]).ok().and_then(|digits| digits.parse::<u32>().ok());
    major.is_some_and(|major| major >= 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn answer(text: &[u8]) -> Option<Box<[u8]>> {
        Some(text.into())
    }

    #[test]
    fn a_small_catalogue_is_polled_and_a_large_one_glanced_at() {
        let mut schedule = Schedule::default();
        schedule.polled(at(1000), at(1030), true);
        assert_eq!(schedule.question(at(3030), true), Question::Poll);
        assert_eq!(schedule.next(false), WINDOW);
        schedule.polled(at(4000), at(4200), false);
        assert_eq!(schedule.question(at(6200), true), Question::Glance);
        assert_eq!(schedule.question(at(6200), false), Question::Poll);
        assert_eq!((schedule.next(true), schedule.next(false)), (WINDOW, Duration::from_secs(10)));
        assert_eq!(schedule.question(at(14_200), true), Question::Poll);
        schedule.polled(at(4000), at(6000), false);
        assert_eq!(schedule.next(false), PERIOD);
    }

    #[test]
    fn a_glance_that_differs_leads_to_a_poll_and_more_rarely_if_that_finds_nothing() {
        let mut schedule = Schedule::default();
        schedule.polled(at(1000), at(1200), true);
        assert!(schedule.glanced(answer(b"1"), at(3200)), "the first has nothing to be held against");
        schedule.polled(at(3200), at(3400), false);
        assert!(!schedule.glanced(answer(b"1"), at(5400)));
        assert!(schedule.glanced(answer(b"2"), at(7400)));
        schedule.polled(at(7400), at(7600), false);
        assert!(!schedule.glanced(answer(b"3"), at(9600)), "two false alarms: four seconds");
        assert!(schedule.glanced(answer(b"3"), at(11_600)));
        schedule.polled(at(11_600), at(11_800), true);
        assert!(schedule.glanced(None, at(13_800)));
    }

    #[test]
    fn versions() {
        for (version, counts) in
            [("15.4", true), ("18devel", true), ("14.11 (Debian 14)", false), ("9.6", false), ("", false)]
        {
            assert_eq!(counts_changes(version.as_bytes()), counts, "{version}");
        }
    }
}
