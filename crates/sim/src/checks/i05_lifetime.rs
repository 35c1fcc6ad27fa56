//! I5: an idle server is closed when its server_lifetime is over, wherever it has travelled meanwhile.

use pooling::Snapshot;

use crate::world::World;

/// A round may be that late.
const SLACK_US: u64 = 100_000;

pub fn check(world: &mut World, worker: u16, snapshot: &Snapshot) {
    // A reload does not change it.
    let lifetime = world.plan.settings.global.servers.server_lifetime;
    let limit = lifetime.as_micros() as u64 + SLACK_US;
    let node = &world.nodes[usize::from(worker) + 2];
    let idle = snapshot.servers.iter().filter(|server| matches!(server.state, "idle" | "used"));
    let old = idle.filter_map(|server| {
        let link = world.network.get(node.find(server.conn)?)?;
        let age = world.now - link.opened_at;
        (age > limit)
            .then(|| format!("{:?} is idle at the age of {age} us, server_lifetime is {lifetime:?}", server.conn))
    });
    if let Some(text) = old.min() {
        world.fail(5, text);
    }
}
