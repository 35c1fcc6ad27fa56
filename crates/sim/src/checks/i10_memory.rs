//! I10: what is kept for a connection is bounded, and whoever feeds one that does not take its bytes is not read meanwhile.

use pooling::Snapshot;
use units::{ConnId, limits};

use crate::network::{LinkId, Peer};
use crate::world::World;

/// The longest answer of the console in this world: 200 clients, and as many servers as they could have.
const CONSOLE_LEN_MAX: usize = 200_000;

impl World {
    pub(crate) fn check_backlog(&mut self, link: LinkId, conn: ConnId, len: usize) {
        let on_console = match self.network.get(link).map(|link| link.peer) {
            Some(Peer::Client(index, _)) => {
                self.clients[index as usize].as_ref().is_some_and(|client| client.console.is_some())
            }
            _ => false,
        };
        // One answer of the console's may be as long as what it shows.
        let limit = if on_console { CONSOLE_LEN_MAX } else { limits::BACKLOG_LEN_MAX };
        if len > limit {
            self.fail(10, format!("{len} bytes are kept for {conn:?}"));
        }
    }
}

/// After a round: of a client and its server, whoever has not taken all stops the other.
pub fn check(world: &mut World, worker: u16, snapshot: &Snapshot) {
    let node = usize::from(worker) + 2;
    for client in &snapshot.clients {
        let Some(server) = client.link else { continue };
        for (full, feeder) in [(client.conn, server), (server, client.conn)] {
            let unsent = world.nodes[node].machinery.machine().backlog(full).len();
            let link = world.nodes[node].find(feeder).and_then(|id| world.network.get(id));
            if unsent > 0 && link.is_some_and(|link| link.read) {
                return world.fail(10, format!("{full:?} has not taken {unsent} bytes, and {feeder:?} is read"));
            }
        }
    }
}
