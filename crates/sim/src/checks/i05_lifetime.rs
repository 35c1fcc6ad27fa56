//! I5: an idle server is closed when its server_lifetime is over, whichever workers it was moved to meanwhile.

use machine::Snapshot;

use super::WorldView;
use crate::course::Finding;

/// A round may be so late.
const SLACK_US: u64 = 100_000;

pub(crate) fn check(view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
    if view.plan.is_spared(view.now.saturating_sub(SLACK_US)) {
        return Ok(());
    }
    // A reload does not change it.
    let lifetime = view.plan.settings.global.servers.server_lifetime;
    let limit = lifetime.as_micros() as u64 + SLACK_US;
    let Some(node) = view.machines.worker_node(worker) else { return Ok(()) };
    let idle = snapshot.servers.iter().filter(|server| matches!(server.state, "idle" | "used"));
    let old = idle.filter_map(|server| {
        let link = view.network.get(node.find(server.conn)?)?;
        let age = view.now - link.opened_at;
        (age > limit)
            .then(|| format!("{:?} is idle at the age of {age} us, server_lifetime is {lifetime:?}", server.conn))
    });
    old.min().map_or(Ok(()), |text| Err((5, text)))
}
