//! I8: a client whose database a reload has removed gets an error, unless it is in a transaction or batch.

use connections::databases::CONSOLE_DATABASE;
use machine::Snapshot;

use super::WorldView;
use crate::course::Finding;

/// For so long after a reload a worker may not know of it, or be late.
const RELOAD_US: u64 = 200_000;

pub(crate) fn check(view: &WorldView<'_>, reloaded_at: Option<u64>, snapshot: &Snapshot) -> Result<(), Finding> {
    let Some(at) = reloaded_at else { return Ok(()) };
    if view.now < at + RELOAD_US {
        return Ok(());
    }
    let settings = &view.plan.settings;
    let is_gone = |name: &str| name != CONSOLE_DATABASE && settings.database(name).is_none();
    // A client that has just logged in gets the error with its next statement.
    let was_there = |since: u64| since + RELOAD_US < at;
    let idle = snapshot.clients.iter().filter(|client| client.state == "idle" && client.link.is_none());
    let mut idle = idle.filter(|client| was_there(client.times.connected_at.0));
    if let Some(client) = idle.find(|client| is_gone(&client.key.database)) {
        let conn = client.conn;
        return Err((8, format!("{conn:?} of {:?} is not told that its database was removed at {at}", client.key)));
    }
    Ok(())
}
