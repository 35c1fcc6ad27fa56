//! Clients that send a deadline (I8): such a client is refused before its deadline or at it.

use settings::{Fidelity, PoolMode};
use wire::backend::{Fields, tag};

use crate::plan::Plan;
use crate::random::Random;

const REFUSED: &[u8] = b"canceling statement due to deadline";

/// How long after the deadline the refusal may come, in milliseconds: a round may be so late.
const SLACK_MS: u64 = 100;

/// The deadline of this client; 0: none. Drawn from a stream of its own.
pub(super) fn draw(number: u32, plan: &Plan, mode: PoolMode) -> u32 {
    if plan.settings.global.pools.pool_fidelity == Fidelity::Classic || mode == PoolMode::Session {
        return 0;
    }
    let seed = plan.settings.global.tests.chaos_seed ^ 0x6875_7272_7900;
    let mut random = Random::new(seed ^ u64::from(number));
    let is_hurried = Random::new(seed).chance(250) && random.chance(500);
    if is_hurried { random.skewed(1, 100) as u32 } else { 0 }
}

/// If a message refuses a waiting request because of its deadline: its detail.
pub(super) fn refusal(message: u8, body: &[u8]) -> Option<String> {
    let fields = Fields::decode(body);
    let is_refused = message == tag::ERROR && fields.message() == Some(REFUSED);
    is_refused.then(|| String::from_utf8_lossy(fields.detail().unwrap_or_default()).into_owned())
}

/// When it was refused.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// At its deadline.
    Late,
    /// Before it, by the expected wait.
    Hasty,
}

/// When a client with this deadline was refused; `None`: without a reason. `spared`: the deadline passed when timeouts ended nothing,
/// because of SUSPEND: it is refused for it afterwards.
pub(super) fn judge(detail: &str, deadline_ms: u32, spared: bool) -> Option<Refused> {
    let number = |name: &str| {
        let word = detail.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        word.and_then(|word| word.parse::<u64>().ok())
    };
    let (waited, deadline) = (number("waited_ms").unwrap_or(u64::MAX), number("deadline_ms").unwrap_or(0));
    if deadline != u64::from(deadline_ms) || deadline == 0 {
        return None;
    }
    if waited >= deadline && (spared || waited <= deadline + SLACK_MS) {
        return Some(Refused::Late);
    }
    // It may have waited at a limit before. Both times are rounded down to milliseconds.
    let is_hasty = waited < deadline
        && number("expected_wait_ms").is_some_and(|expected| waited.saturating_add(expected) + 1 >= deadline);
    is_hasty.then_some(Refused::Hasty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_comes_in_time_or_when_the_time_is_over() {
        assert_eq!(judge("waited_ms=151 deadline_ms=50", 50, true), Some(Refused::Late));
        assert_eq!(judge("waited_ms=49 deadline_ms=50", 50, true), None);
        assert_eq!(judge("waited_ms=50 deadline_ms=50", 50, false), Some(Refused::Late));
        assert_eq!(judge("waited_ms=151 deadline_ms=50", 50, false), None);
        assert_eq!(judge("waited_ms=10 expected_wait_ms=39 deadline_ms=50", 50, false), Some(Refused::Hasty));
        assert_eq!(judge("waited_ms=10 expected_wait_ms=38 deadline_ms=50", 50, false), None);
        assert_eq!(judge("waited_ms=50 deadline_ms=50", 40, false), None);
    }
}
