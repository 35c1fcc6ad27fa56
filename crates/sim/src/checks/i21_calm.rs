//! I21: another primary is chosen only if one was promoted. Answers that are late or lost, frozen hosts, and restarts in place are no reason.

use machine::primaries::Decision;

use crate::course::Finding;
use crate::history::History;
use crate::plan::Plan;

/// The coordinator has decided. Without a prober that is let in nothing proves who was promoted.
pub(crate) fn check(plan: &Plan, database: usize, history: &History, decision: &Decision) -> Result<(), Finding> {
    let (epoch, promotions) = (decision.primary.epoch, history.promotions);
    let is_proved = plan.probing.is_some_and(|probing| probing.is_let_in);
    if is_proved && epoch > promotions + 1 {
        let text = format!("database {database} is in epoch {epoch} after {promotions} promotions: {decision}");
        return Err((21, text));
    }
    Ok(())
}
