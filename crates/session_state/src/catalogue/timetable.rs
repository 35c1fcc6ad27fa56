//! How old a pool's catalogue is, and when its database is asked again.
//!
//! Promises: a pool in use asks within [`PERIOD`], soon after something was defined, and ever more rarely while asking fails.
//! Which of the two questions is asked: [`super::schedule`].

use std::time::Duration;

use units::Time;

use super::schedule::{PERIOD, Question, SOON, Schedule, WINDOW};

pub(super) const RETRY_MAX: Duration = Duration::from_secs(300);

/// Of one pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Timetable {
    due: Time,
    /// When it was last certain that the catalogue is right.
    right_at: Time,
    /// When the poll was sent whose answer said so.
    right_since: Time,
    /// Nobody has asked for too long.
    is_old: bool,
    /// How often asking has failed since it went well.
    failures: u32,
    schedule: Schedule,
}

impl Timetable {
    pub(super) fn is_old(&self) -> bool {
        self.is_old
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    pub(super) fn right_since(&self) -> Time {
        self.right_since
    }

    pub(super) fn right_at(&self) -> Time {
        self.right_at
    }

    /// Time has passed. Whether the catalogue is too old from now on.
    #[inline]
    pub(super) fn ages(&mut self, now: Time) -> bool {
        let ages = !self.is_old && now > self.right_at + PERIOD + PERIOD;
        self.is_old |= ages;
        ages
    }

    /// It is time to ask, since something was defined. Where asking has failed, it is not.
    pub(super) fn query_soon(&mut self, now: Time) {
        if self.failures == 0 {
            self.due = self.due.min((self.right_at + self.schedule.pause_for_fresh()).max(now));
        }
    }

    /// Whether it is time to ask a server. `spare`: others are idle beside it.
    pub(super) fn is_due(&self, now: Time, spare: bool) -> bool {
        now >= if spare { self.due } else { self.due + SOON }
    }

    /// Whether it is high time.
    pub(super) fn is_overdue(&self, now: Time) -> bool {
        self.failures == 0 && now >= self.due + WINDOW
    }

    /// What to ask now. `counts`: the server counts changes. `has_fresh`: something was defined that can be read.
    pub(super) fn question(&self, now: Time, counts: bool, has_fresh: bool) -> Question {
        match self.is_old || has_fresh && self.schedule.may_poll_for_fresh(now) {
            true => Question::Poll,
            false => self.schedule.question(now, counts),
        }
    }

    /// A glance has been answered. Whether the poll is asked now.
    pub(super) fn glanced(&mut self, answer: Option<Box<[u8]>>, now: Time) -> bool {
        let polls = self.schedule.glanced(answer, now);
        if !polls {
            self.due = now + WINDOW;
        }
        polls
    }

    /// A poll has been answered. `changed`: it has found something new.
    pub(super) fn polled(&mut self, began: Time, now: Time, changed: bool) {
        self.schedule.polled(began, now, changed);
    }

    /// The catalogue is as it was when a poll began. `has_fresh`: and something was defined that can be read.
    pub(super) fn is_right(&mut self, began: Time, now: Time, counts: bool, has_fresh: bool) {
        (self.is_old, self.failures, self.right_at, self.right_since) = (false, 0, now, began);
        self.due = now + if has_fresh { self.schedule.pause_for_fresh() } else { self.schedule.next(counts) };
    }

    pub(super) fn failed(&mut self, now: Time) {
        let pause = SOON.saturating_mul(1 << self.failures.min(16)).min(RETRY_MAX);
        self.failures += 1;
        self.due = now + pause;
    }

    /// The questions and answers of another pool of the database are taken for this one's.
    pub(super) fn take_schedule(&mut self, other: &Timetable) {
        self.schedule = other.schedule.clone();
    }

    /// So is when it asks again.
    pub(super) fn take_due(&mut self, other: &Timetable, has_fresh: bool) {
        self.due = if has_fresh { self.due.min(other.due) } else { other.due };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn failures_make_it_ask_more_rarely_and_one_answer_ends_that() {
        let (mut timetable, mut now) = (Timetable::default(), at(1));
        for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300] {
            timetable.failed(now);
            let next = now + Duration::from_secs(pause);
            assert!(!timetable.is_due(Time(next.0 - 1), true) && timetable.is_due(next, true), "{pause}");
            timetable.query_soon(now);
            assert!(!timetable.is_due(now, true), "what is defined meanwhile is no reason");
            now = next;
        }
        timetable.is_right(now, now, true, false);
        assert!(!timetable.has_failed() && timetable.is_due(now + WINDOW, true));
    }

    #[test]
    fn the_only_idle_server_is_asked_later() {
        let mut timetable = Timetable::default();
        timetable.is_right(at(1), at(1), true, false);
        assert!(timetable.is_due(at(3), true) && !timetable.is_due(at(3), false));
        assert!(timetable.is_due(at(4), false) && !timetable.is_overdue(at(4)) && timetable.is_overdue(at(5)));
    }

    #[test]
    fn a_catalogue_grows_old_once() {
        let mut timetable = Timetable::default();
        timetable.is_right(at(1), at(1), true, false);
        assert!(!timetable.ages(at(61)) && timetable.ages(at(62)) && !timetable.ages(at(63)) && timetable.is_old());
        assert_eq!(timetable.question(at(63), true, false), Question::Poll);
    }
}
