//! I12: nothing is lost: when nobody is left and every idle time-out has passed, no connection and no token remains.

use pooling::Time;

use crate::rounds::Machinery;
use crate::world::World;

pub fn nothing_remains(world: &mut World) {
    let mut found = world.unfinished();
    let mut servers = 0;
    for node in &world.nodes {
        match &node.machinery {
            Machinery::Worker(worker) => {
                let snapshot = worker.snapshot(Time(world.now), true);
                servers += snapshot.servers.len() as u32;
                for client in &snapshot.clients {
                    found.push(format!("{:?}: session {:?} is {}", node.place, client.conn, client.state));
                }
                for server in &snapshot.servers {
                    found.push(format!("{:?}: server {:?} is {}", node.place, server.conn, server.state));
                }
            }
            Machinery::Coordinator(coordinator) => {
                for (pool, key) in coordinator.pools().filter(|(pool, _)| coordinator.held(*pool) > 0) {
                    found.push(format!("{} tokens of {key:?} are out", coordinator.held(pool)));
                }
                if coordinator.clients() > 0 {
                    found.push(format!("{} sessions are counted", coordinator.clients()));
                }
            }
            Machinery::Door(door) => {
                if door.logins() > 0 {
                    found.push(format!("{} logins are at the door", door.logins()));
                }
            }
        }
    }
    for (id, link) in world.network.iter() {
        found.push(format!("connection {} to {:?} remains", id.number(), link.peer));
    }
    if !found.is_empty() {
        found.truncate(8);
        world.fail(12, format!("{servers} servers are left at the end: {}", found.join("; ")));
    }
}
