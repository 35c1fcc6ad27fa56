//! Looking for events for a short time before a thread sleeps (`busy_poll`), where that pays.
//!
//! To sleep and be woken costs the thread some microseconds, and as many the process whose message wakes it; in virtual
//! machines more. A thread that looks on instead costs the time until the next message. It pays where the next message
//! comes soon. So a look that has found nothing is followed by waits that sleep at once: one, then two, four, up to
//! [`SLEEPS_MAX`]. A look that has found something ends that.

use std::time::Duration;

/// At most so many waits in a row sleep without a look before. A thread to which nothing comes soon spends no more
/// than the time of one look on so many waits.
const SLEEPS_MAX: u32 = 1024;

#[derive(Debug, Default)]
pub(crate) struct BusyPoll {
    /// How long a look takes if nothing comes. Zero: there are none.
    span: Duration,
    /// So many of the next waits sleep at once.
    sleeps_left: u32,
    /// So many did after the last look that has found nothing; 0: the last one has found something.
    sleeps: u32,
}

impl BusyPoll {
    pub(crate) fn set_span(&mut self, span: Duration) {
        *self = BusyPoll { span, ..BusyPoll::default() };
    }

    /// How long to look before this wait; `None`: not at all.
    #[inline]
    pub(crate) fn next_look(&mut self) -> Option<Duration> {
        if self.span.is_zero() {
            return None;
        }
        if self.sleeps_left > 0 {
            self.sleeps_left -= 1;
            return None;
        }
        Some(self.span)
    }

    /// The outcome of a look.
    pub(crate) fn looked(&mut self, found: bool) {
        self.sleeps = if found { 0 } else { (self.sleeps * 2).clamp(1, SLEEPS_MAX) };
        self.sleeps_left = self.sleeps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_micros(50);

    /// Waits without a look until the next look.
    fn sleeps(poll: &mut BusyPoll) -> u32 {
        (0..).find(|_| poll.next_look() == Some(SPAN)).expect("there is a look")
    }

    #[test]
    fn without_a_span_there_is_no_look() {
        let mut poll = BusyPoll::default();
        assert!((0..3 * SLEEPS_MAX).all(|_| poll.next_look().is_none()));
    }

    #[test]
    fn looks_that_find_nothing_become_rare_and_one_that_finds_something_makes_them_frequent() {
        let mut poll = BusyPoll::default();
        poll.set_span(SPAN);
        assert_eq!(sleeps(&mut poll), 0);
        for expected in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1024] {
            poll.looked(false);
            assert_eq!(sleeps(&mut poll), expected);
        }
        poll.looked(true);
        assert_eq!(sleeps(&mut poll), 0);
        poll.looked(false);
        assert_eq!(sleeps(&mut poll), 1);
    }

    #[test]
    fn another_span_counts_at_once() {
        let mut poll = BusyPoll::default();
        poll.set_span(Duration::from_micros(7));
        poll.looked(false);
        poll.set_span(SPAN);
        assert_eq!(poll.next_look(), Some(SPAN));
        poll.set_span(Duration::ZERO);
        assert_eq!(poll.next_look(), None);
    }
}
