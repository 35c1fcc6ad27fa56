//! Who is linked to whom, who waits: what changed since the last look, in words.

use std::collections::BTreeMap;

use machine::Look;
use units::ConnId;

use super::socket::Role;
use super::world::World;

/// What was last said of each connection.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    last: BTreeMap<usize, String>,
}

impl Watch {
    pub(crate) fn changes(&mut self, world: &World) -> Vec<String> {
        let now = states(world);
        let mut lines = Vec::new();
        for (&socket, state) in &now {
            let boring = if world.sockets[socket].role == Role::Server { "new" } else { "calm" };
            let before = self.last.get(&socket).map_or(boring, String::as_str);
            if before != state {
                let words = if state == "calm" { "waits no more" } else { state };
                lines.push((socket, before.to_owned(), format!("{} {words}", world.sockets[socket].name)));
            }
        }
        // A waiter that was linked is told of by its server.
        lines.retain(|(_, before, line)| {
            !(before == "waits" && line.ends_with("waits no more") && is_linked(&now, line))
        });
        self.last = now;
        lines.into_iter().map(|(_, _, line)| line).collect()
    }
}

fn is_linked(now: &BTreeMap<usize, String>, line: &str) -> bool {
    let name = line.trim_end_matches(" waits no more");
    let wanted = format!("is linked to {name}");
    now.values().any(|state| *state == wanted)
}

fn states(world: &World) -> BTreeMap<usize, String> {
    let names: BTreeMap<ConnId, usize> =
        world.sockets.iter().enumerate().filter_map(|(index, socket)| socket.id.map(|id| (id, index))).collect();
    let mut states = BTreeMap::new();
    for worker in &world.workers {
        let snapshot = worker.snapshot(world.now, Look::Connections);
        for client in &snapshot.clients {
            let state = match client.state {
                "waiting" => "waits",
                "leaving" => "is leaving",
                _ => "calm",
            };
            if let Some(&socket) = names.get(&client.conn) {
                states.insert(socket, state.to_owned());
            }
        }
        for server in &snapshot.servers {
            let link =
                server.link.and_then(|link| names.get(&link.conn)).map(|&socket| world.sockets[socket].name.clone());
            let state = match (server.state, link) {
                ("active", Some(name)) => format!("is linked to {name}"),
                ("active", None) => "is draining".to_owned(),
                ("being_canceled", Some(name)) => format!("is linked to {name}, a cancel is under way"),
                ("being_canceled", None) => "is held back".to_owned(),
                ("idle" | "used", _) => "is idle".to_owned(),
                ("listening", _) => "listens".to_owned(),
                ("tested", _) => "is busy with itself".to_owned(),
                (other, _) => other.to_owned(),
            };
            if let Some(&socket) = names.get(&server.conn) {
                states.insert(socket, state);
            }
        }
    }
    states
}
