//! When a server may be asked again.
//!
//! ```text
//!   asked ── took ──► rests for 20 × took ──► may be asked
//!                     │ └ cut short by whoever wants to see locks, or backends if it is SHORT
//!                     └ failed: at least RETRY, in which nobody asks; then whoever wants to see locks
//! ```

use std::time::{Duration, Instant};

use control::Sight;

/// A question that took so long is asked again after so many times as long at the soonest, whether it was answered or not.
const REST: u32 = 20;

/// How long a server may take to let us in, and for each answer. A question counts as this long at most: what takes longer is several waits in
/// one question, or a machine that was stopped, and the rest after it would make minutes out of seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// After a failure it is tried again so much later at the soonest.
const RETRY: Duration = Duration::from_secs(5);

/// PostgreSQL waits for five seconds until a database is left. A connection that asks again within this sees in time that it is to leave.
const IDLE_MAX: Duration = Duration::from_secs(2);

/// A rest that whoever wants to see backends cuts short: of a question that took a quarter of a second.
const SHORT: Duration = Duration::from_secs(5);

/// The pause after a question.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Pace {
    until: Option<Instant>,
    /// For whoever wants to see backends, and locks.
    backends: Option<Instant>,
    locks: Option<Instant>,
}

impl Pace {
    /// A question was answered, or has failed, which took so long.
    pub(super) fn after(now: Instant, took: Duration, has_failed: bool) -> Pace {
        let rest = took.min(PATIENCE) * REST;
        if has_failed {
            let until = Some(now + rest.max(RETRY));
            return Pace { until, backends: until, locks: Some(now + RETRY) };
        }
        let until = Some(now + rest);
        Pace { until, backends: until.filter(|_| rest > SHORT), locks: None }
    }

    /// Whether it may be asked. `sight`: for somebody who wants to see that.
    pub(super) fn allows(&self, now: Instant, sight: Option<Sight>) -> bool {
        let until = match sight {
            None => self.until,
            Some(Sight::Backends) => self.backends,
            Some(Sight::Locks) => self.locks,
        };
        until.is_none_or(|until| now >= until)
    }
}

/// Whether a connection may stay open until the next question: after one that took so long, in so much time.
pub(super) fn stays(took: Duration, interval: Duration) -> bool {
    interval.max(took * REST) <= IDLE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_failure_rests_as_long_as_an_answer_and_five_seconds_at_least() {
        let now = Instant::now();
        let table = [
            // took, failed, who, seconds until it may be asked
            (1, false, None, 20),
            (1, false, Some(Sight::Backends), 20),
            (0, false, Some(Sight::Backends), 0),
            (1, false, Some(Sight::Locks), 0),
            (60, false, Some(Sight::Backends), 100),
            (60, true, None, 100),
            (4, true, None, 80),
            (4, true, Some(Sight::Backends), 80),
            (4, true, Some(Sight::Locks), 5),
            (0, true, None, 5),
            (0, false, None, 0),
        ];
        for (took, has_failed, sight, seconds) in table {
            let pace = Pace::after(now, took * SECOND, has_failed);
            let first = (0..=100).find(|at| pace.allows(now + *at * SECOND, sight));
            assert_eq!(first, Some(seconds), "{took} s, {has_failed}, {sight:?}");
        }
        assert!(Pace::default().allows(now, None));
    }

    #[test]
    fn whoever_wants_to_see_backends_cuts_a_short_rest_short() {
        let now = Instant::now();
        let short = Pace::after(now, SECOND / 4, false);
        assert!(!short.allows(now, None) && short.allows(now, Some(Sight::Backends)));
        let long = Pace::after(now, SECOND / 3, false);
        assert!(!long.allows(now, Some(Sight::Backends)) && long.allows(now, Some(Sight::Locks)));
    }

    #[test]
    fn a_connection_that_asks_too_seldom_to_leave_a_database_in_time_is_closed() {
        assert!(stays(SECOND / 100, SECOND) && stays(SECOND / 10, 2 * SECOND));
        assert!(!stays(SECOND / 100, 3 * SECOND) && !stays(SECOND / 5, SECOND));
    }
}
