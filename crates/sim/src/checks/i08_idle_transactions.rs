//! I8: no session stays idle in a transaction for longer than idle_transaction_timeout, as PostgreSQL sees it.

use super::WorldView;
use crate::course::{Finding, Stage};

/// A round may be so late, and the time in which a client reads its answer is not idle time.
const SLACK_US: u64 = 200_000;

pub(crate) fn check(view: &WorldView<'_>) -> Result<(), Finding> {
    let plan = view.plan;
    let Some(timeout) = plan.settings.global.waiting.idle_transaction_timeout else { return Ok(()) };
    // A client is not idle before it has read its whole answer: it may read slowly, or its answer may come in small
    // pieces, even after the weather has become fair at the end.
    if plan.manners.slow > 0 || plan.weather.pieces > 0 || plan.is_changed() || view.stage != Stage::Working {
        return Ok(());
    }
    // Messages may be on their way, in both directions and in pieces.
    let slowest = plan.weather.delay_max * if plan.weather.late > 0 { 100 } else { 1 };
    let limit = timeout.as_micros() as u64 + SLACK_US + 8 * slowest;
    let rests = view.postgres.iter().find(|process| {
        let link = view.network.get(process.link);
        let is_quiet = link.is_some_and(|link| !link.pooler.closed && !link.broken && link.down.is_empty());
        is_quiet && process.rests_in_transaction() && view.now.saturating_sub(process.active_at()) > limit
    });
    if let Some(process) = rests {
        let (number, since) = (process.number(), process.active_at());
        return Err((8, format!("server {number} is idle in a transaction since {since}, {timeout:?} are allowed")));
    }
    Ok(())
}
