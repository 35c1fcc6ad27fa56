//! I12: a server in COPY FROM STDIN whose client is gone is closed at once, since no more data will come.

use machine::Snapshot;
use wire::frontend::tag;

use super::WorldView;
use crate::course::Finding;
use crate::link::Peer;

pub(crate) fn check(view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
    let Some(node) = view.machines.worker_node(worker) else { return Ok(()) };
    let left = snapshot.servers.iter().filter(|server| server.link.is_none() && server.state == "active");
    let open = left.filter(|server| {
        let Some(link) = node.find(server.conn).and_then(|id| view.network.get(id)) else { return false };
        let Peer::Postgres { process: Some(name), .. } = link.peer.who else { return false };
        let Some(process) = view.postgres.get(name.index) else { return false };
        // The pooler has read all that it has sent, so it knows of the COPY.
        let has_delivered =
            link.up.is_empty() && process.pipe.unsent() == 0 && !link.pooler.end_delivered && !link.broken;
        // It has read all that the pooler has sent: no CopyDone of the client is on its way.
        let has_read = link.down.is_empty() && process.pipe.has_read_all();
        let waits = matches!(link.asked.last, tag::QUERY | tag::EXECUTE | tag::FLUSH | tag::COPY_DATA);
        process.serves() && process.backend.is_in_copy() && has_delivered && has_read && waits
    });
    if let Some(conn) = open.map(|server| server.conn).min() {
        return Err((12, format!("{conn:?} has no client any more, and its COPY is not ended")));
    }
    Ok(())
}
