//! I8: no session waits past its deadline.

use machine::Snapshot;

use super::WorldView;
use crate::course::Finding;

/// A round may be so late.
const SLACK_US: u64 = 100_000;

pub(crate) fn check(view: &WorldView<'_>, snapshot: &Snapshot) -> Result<(), Finding> {
    let Some(timeout) = view.plan.settings.global.waiting.query_wait_timeout else { return Ok(()) };
    if view.plan.is_spared(view.now.saturating_sub(SLACK_US)) {
        return Ok(());
    }
    let limit = timeout.as_micros() as u64 + SLACK_US;
    let late = snapshot.pools.iter().find(|pool| pool.maxwait_us > limit);
    if let Some(pool) = late {
        let text =
            format!("{:?}: somebody waits for {} µs, query_wait_timeout is {timeout:?}", pool.key, pool.maxwait_us);
        return Err((8, text));
    }
    Ok(())
}
