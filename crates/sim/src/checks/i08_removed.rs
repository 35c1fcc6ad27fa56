//! I8: a client whose database a reload has removed is told so, unless it is in the middle of something.

use connections::databases::CONSOLE_DATABASE;
use machine::Snapshot;

use super::View;
use crate::course::Finding;

/// So long after a reload a worker may not know of it, or has a round late.
const RELOAD_US: u64 = 200_000;

pub(crate) fn check(view: &View<'_>, reloaded_at: Option<&u64>, snapshot: &Snapshot) -> Result<(), Finding> {
    let Some(&at) = reloaded_at else { return Ok(()) };
    if view.now < at + RELOAD_US {
        return Ok(());
    }
    let settings = &view.plan.settings;
    let is_gone = |name: &str| name != CONSOLE_DATABASE && settings.database(name).is_none();
    // Who has just logged in is told with its next statement.
    let was_there = |since: u64| since + RELOAD_US < at;
    let idle = snapshot.clients.iter().filter(|client| client.state == "idle" && client.link.is_none());
    let mut idle = idle.filter(|client| was_there(client.times.connected_at.0));
    if let Some(client) = idle.find(|client| is_gone(&client.key.database)) {
        let conn = client.conn;
        return Err((8, format!("{conn:?} of {:?} is not told that its database was removed at {at}", client.key)));
    }
    Ok(())
}
