//! I10: the backlog of a connection is bounded, and its source is not read while it has one.

use machine::Snapshot;
use units::{ConnId, limits};

use super::WorldView;
use crate::course::Finding;

/// The longest answer of the console in these worlds: 200 clients, and as many servers as they could have.
const CONSOLE_LEN_MAX: usize = 200_000;

/// Checks the length of a backlog. One answer of the console may be as long as its table.
pub(crate) fn check_backlog(on_console: bool, conn: ConnId, len: usize) -> Result<(), Finding> {
    let limit = if on_console { CONSOLE_LEN_MAX } else { limits::BACKLOG_LEN_MAX };
    if len > limit {
        return Err((10, format!("{len} bytes are kept for {conn:?}")));
    }
    Ok(())
}

/// After a round: if a client or its server has a backlog, the other one is not read.
pub(crate) fn check(view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
    let Some(node) = view.machines.worker_node(worker) else { return Ok(()) };
    for client in &snapshot.clients {
        let Some(server) = client.link.map(|link| link.conn) else { continue };
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
