//! A client that says how long it can wait (I8): it is refused in time, or when its time is over; never in a transaction.

use pooling::settings::{Fidelity, PoolMode};
use wire::backend::{Fields, Status, tag};

use super::Client;
use crate::census::Census;
use crate::course::Finding;
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

impl Client {
    /// A text, with how long its client can wait for it.
    pub(super) fn hurried(&self, text: &str) -> String {
        let waits = self.deadline_ms > 0 && !text.is_empty() && self.twin.status() == Status::Idle;
        if waits { format!("{text} /*deadline_ms={}*/", self.deadline_ms) } else { text.to_owned() }
    }

    /// Whether a message refuses what it waited with.
    ///
    /// # Errors
    /// It was refused too early, too late, or for no reason.
    pub(super) fn is_turned_away(&self, message: u8, body: &[u8], census: &mut Census) -> Result<bool, Finding> {
        let fields = Fields::decode(body);
        if message != tag::ERROR || fields.message() != Some(REFUSED) {
            return Ok(false);
        }
        let detail = String::from_utf8_lossy(fields.detail().unwrap_or_default()).into_owned();
        let number = |name: &str| {
            let word = detail.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
            word.and_then(|word| word.parse::<u64>().ok())
        };
        let (waited, deadline) = (number("waited_ms").unwrap_or(u64::MAX), number("deadline_ms").unwrap_or(0));
        let is_late = waited >= deadline && waited <= deadline + SLACK_MS;
        // It may have waited at a limit before. Each of the two is told without its fraction of a millisecond.
        let is_hasty = waited < deadline
            && number("expected_wait_ms").is_some_and(|expected| waited.saturating_add(expected) + 1 >= deadline);
        let may_be = deadline == u64::from(self.deadline_ms) && deadline > 0 && self.twin.status() == Status::Idle;
        if !may_be || self.at_work || !(is_late || is_hasty) {
            return Err((
                8,
                format!("client {} was refused without reason: {detail}: {}", self.number, self.describe()),
            ));
        }
        census.late += u64::from(is_late);
        census.hasty += u64::from(!is_late);
        Ok(true)
    }
}
