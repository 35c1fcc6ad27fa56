//! When a host is asked next. Pure: the time is given.
//!
//! | | asked |
//! |---|---|
//! | hosts among which a database chooses | each `host_check_interval` |
//! | an only host | the same, while somebody has wanted it in the last [`URGED`], or it has failed |
//! | either, while somebody has urged in the last [`URGED`] | each [`OFTEN`] |

use std::time::{Duration, Instant};

/// The pause between two questions while clients wait for a host.
pub(crate) const OFTEN: Duration = Duration::from_millis(50);

/// How long a host is asked often after a machine has asked for it.
pub(crate) const URGED: Duration = Duration::from_secs(2);

/// How long an answer is waited for from a host that is silent.
pub(crate) const SILENT: Duration = Duration::from_secs(1);

/// A password that is wrong is not tried more often: PostgreSQL logs each try.
const REFUSED: Duration = Duration::from_secs(10);

/// Of one host.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The host is probed at rest.
    pub(crate) is_watched: bool,
    wanted_at: Option<Instant>,
    urged_at: Option<Instant>,
    last: Option<Asked>,
}

/// The last question.
#[derive(Copy, Clone, Debug)]
struct Asked {
    asked_at: Instant,
    how: Came,
}

/// How the last question ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// With the answer.
    Answered,
    /// With nothing that could be used.
    Failed,
    /// With a demand for a password that is not known, or since it has too many connections: it answers, and more is not to be had.
    Unknown,
    /// The login was refused for good.
    Refused,
}

impl Pace {
    pub(crate) fn new(is_watched: bool) -> Pace {
        Pace { is_watched, wanted_at: None, urged_at: None, last: None }
    }

    pub(crate) fn want(&mut self, now: Instant) {
        self.wanted_at = Some(now);
    }

    pub(crate) fn urge(&mut self, now: Instant) {
        self.urged_at = Some(now);
    }

    pub(crate) fn asked(&mut self, asked_at: Instant, how: Came) {
        self.last = Some(Asked { asked_at, how });
    }

    fn is_urged(&self, now: Instant) -> bool {
        self.urged_at.is_some_and(|at| now < at + URGED)
    }

    /// When to ask next; `None`: not before somebody urges.
    pub(crate) fn next(&self, now: Instant, interval: Duration) -> Option<Instant> {
        let is_urged = self.is_urged(now);
        let has_failed = self.last.is_some_and(|last| last.how == Came::Failed);
        let is_wanted = self.wanted_at.is_some_and(|at| now < at + URGED);
        // An only host that has failed is watched until it is back.
        if !self.is_watched && !is_urged && !is_wanted && !has_failed {
            return None;
        }
        let Some(last) = self.last else { return Some(now) };
        let pause = match last.how {
            Came::Refused => REFUSED.max(interval),
            // Each takes a connection.
            Came::Unknown => interval,
            _ if is_urged => OFTEN.min(interval),
            _ => interval,
        };
        Some(last.asked_at + pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Milliseconds after `at` until the next question.
    fn pause(pace: &Pace, at: Instant) -> Option<u128> {
        pace.next(at, SECOND).map(|next| next.duration_since(at).as_millis())
    }

    #[test]
    fn a_watched_host_is_asked_at_rest_and_often_while_somebody_urges_or_it_has_failed() {
        let begin = Instant::now();
        let mut pace = Pace::new(true);
        assert_eq!(pause(&pace, begin), Some(0));
        pace.asked(begin, Came::Answered);
        assert_eq!(pause(&pace, begin), Some(1000));
        pace.urge(begin);
        assert_eq!((pause(&pace, begin), pause(&pace, begin + 3 * SECOND)), (Some(50), Some(0)), "it is overdue then");
        pace.asked(begin + 3 * SECOND, Came::Answered);
        assert_eq!(pause(&pace, begin + 3 * SECOND), Some(1000), "nobody urges any more");
        pace.asked(begin + 3 * SECOND, Came::Failed);
        assert_eq!(pause(&pace, begin + 3 * SECOND), Some(1000), "nobody waits for it");
        pace.urge(begin + 3 * SECOND);
        pace.asked(begin + 3 * SECOND, Came::Unknown);
        assert_eq!(pause(&pace, begin + 3 * SECOND), Some(1000));
        pace.asked(begin + 3 * SECOND, Came::Refused);
        assert_eq!(pause(&pace, begin + 3 * SECOND), Some(10_000));
    }

    #[test]
    fn an_only_host_is_asked_while_somebody_urges_or_it_has_failed() {
        let begin = Instant::now();
        let mut pace = Pace::new(false);
        assert_eq!(pause(&pace, begin), None);
        pace.urge(begin);
        assert_eq!(pause(&pace, begin), Some(0));
        pace.asked(begin, Came::Answered);
        assert_eq!((pause(&pace, begin), pause(&pace, begin + 2 * SECOND)), (Some(50), None));
        pace.want(begin + 2 * SECOND);
        assert_eq!(pause(&pace, begin + 2 * SECOND), Some(0), "it is overdue");
        pace.asked(begin + 2 * SECOND, Came::Answered);
        assert_eq!(
            pause(&pace, begin + 2 * SECOND),
            Some(1000),
            "an answer is long in coming, and nobody waits for the host"
        );
        pace.asked(begin + 2 * SECOND, Came::Failed);
        assert_eq!(pause(&pace, begin + 5 * SECOND), Some(0), "until it is back");
    }
}
