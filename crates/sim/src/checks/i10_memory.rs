//! I10: what is kept for a connection is bounded, and whoever feeds one that does not take its bytes is not read meanwhile.

use machine::Snapshot;
use units::{ConnId, limits};

use super::View;
use crate::course::Finding;

/// The longest answer of the console in this world: 200 clients, and as many servers as they could have.
const CONSOLE_LEN_MAX: usize = 200_000;

/// So much is kept for a connection. One answer of the console's may be as long as what it shows.
pub(crate) fn check_backlog(on_console: bool, conn: ConnId, len: usize) -> Result<(), Finding> {
    let limit = if on_console { CONSOLE_LEN_MAX } else { limits::BACKLOG_LEN_MAX };
    if len > limit {
        return Err((10, format!("{len} bytes are kept for {conn:?}")));
    }
    Ok(())
}

/// After a round: of a client and its server, whoever has not taken all stops the other.
pub(crate) fn check(view: &View<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
    let Some(node) = view.machines.worker_node(worker) else { return Ok(()) };
    for client in &snapshot.clients {
        let Some(server) = client.link else { continue };
        for (full, feeder) in [(client.conn, server), (server, client.conn)] {
            let unsent = node.backlog(full).len();
            let link = node.find(feeder).and_then(|id| view.network.get(id));
            if unsent > 0 && link.is_some_and(|link| link.pooler.read) {
                return Err((10, format!("{full:?} has not taken {unsent} bytes, and {feeder:?} is read")));
            }
        }
    }
    Ok(())
}
