//! Clients that say how long they can wait (I8): such a client is refused in time, or when its time is over.

use settings::{Fidelity, PoolMode};
use wire::backend::{Fields, tag};

use crate::plan::Plan;
use crate::random::Random;

const REFUSED: &[u8] = b"canceling statement due to deadline";

/// How much later than its time is over it may be told so, in milliseconds: a round may be that late.
const SLACK_MS: u64 = 100;

/// How long this client can wait; 0: for as long as it takes. From a stream of its own.
pub(super) fn draw(number: u32, plan: &Plan, mode: PoolMode) -> u32 {
    if plan.settings.global.pools.pool_fidelity == Fidelity::Classic || mode == PoolMode::Session {
        return 0;
    }
    let seed = plan.settings.global.tests.chaos_seed ^ 0x6875_7272_7900;
    let mut random = Random::new(seed ^ u64::from(number));
    let is_hurried = Random::new(seed).chance(250) && random.chance(500);
    if is_hurried { random.skewed(1, 100) as u32 } else { 0 }
}

/// Whether a message refuses what a client waited with that can wait for so long; with the detail, if so.
pub(super) fn refusal(message: u8, body: &[u8]) -> Option<String> {
    let fields = Fields::decode(body);
    let is_refused = message == tag::ERROR && fields.message() == Some(REFUSED);
    is_refused.then(|| String::from_utf8_lossy(fields.detail().unwrap_or_default()).into_owned())
}

/// When it was refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// When its time was over.
    Late,
    /// Before that, by what was expected.
    Hasty,
}

/// When a client was refused that can wait for so long; `None`: without reason.
pub(super) fn judge(detail: &str, deadline_ms: u32) -> Option<Refused> {
    let number = |name: &str| {
        let word = detail.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.and_then(|word| word.parse::<u64>().ok())
    };
    let (waited, deadline) = (number("waited_ms").unwrap_or(u64::MAX), number("deadline_ms").unwrap_or(0));
    if deadline != u64::from(deadline_ms) || deadline == 0 {
        return None;
    }
    if waited >= deadline && waited <= deadline + SLACK_MS {
        return Some(Refused::Late);
    }
    // It may have waited at a limit before. Each of the two is told without its fraction of a millisecond.
    let is_hasty = waited < deadline
        && number("expected_wait_ms").is_some_and(|expected| waited.saturating_add(expected) + 1 >= deadline);
    is_hasty.then_some(Refused::Hasty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_comes_in_time_or_when_the_time_is_over() {
        assert_eq!(judge("waited_ms=50 deadline_ms=50", 50), Some(Refused::Late));
        assert_eq!(judge("waited_ms=151 deadline_ms=50", 50), None);
        assert_eq!(judge("waited_ms=10 expected_wait_ms=39 deadline_ms=50", 50), Some(Refused::Hasty));
        assert_eq!(judge("waited_ms=10 expected_wait_ms=38 deadline_ms=50", 50), None);
        assert_eq!(judge("waited_ms=50 deadline_ms=50", 40), None);
    }
}
