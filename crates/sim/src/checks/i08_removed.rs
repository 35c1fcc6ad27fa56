//! I8: a client whose database a reload has removed is told so, unless it is in the middle of something.

use pooling::Snapshot;
use pooling::settings::CONSOLE_DATABASE;

use crate::world::World;

/// So long after a reload a worker may not know of it, or has a round late.
const RELOAD_US: u64 = 200_000;

pub fn check(world: &mut World, snapshot: &Snapshot) {
    let Some(&at) = world.checks.reloaded_at.last() else { return };
    if world.now < at + RELOAD_US {
        return;
    }
    let settings = &world.plan.settings;
    let is_gone = |name: &str| name != CONSOLE_DATABASE && settings.database(name).is_none();
    // Who has just logged in is told with its next statement.
    let was_there = |since: u64| since + RELOAD_US < at;
    let idle = snapshot.clients.iter().filter(|client| client.state == "idle" && client.link.is_none());
    let mut idle = idle.filter(|client| was_there(client.connected_at.0));
    if let Some(client) = idle.find(|client| is_gone(&client.key.database)) {
        let conn = client.conn;
        world.fail(8, format!("{conn:?} of {:?} is not told that its database was removed at {at}", client.key));
    }
}
