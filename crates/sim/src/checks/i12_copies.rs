//! I12: a server in COPY FROM STDIN whose client is gone is brought to an end at once: nobody will send the rest.

use machine::Snapshot;
use wire::frontend::tag;

use super::View;
use crate::course::Finding;
use crate::link::Peer;

pub(crate) fn check(view: &View<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
    let Some(node) = view.machines.worker_node(worker) else { return Ok(()) };
    let left = snapshot.servers.iter().filter(|server| server.link.is_none() && server.state == "active");
    let open = left.filter(|server| {
        let Some(link) = node.find(server.conn).and_then(|id| view.network.get(id)) else { return false };
        let Peer::Postgres { process: Some(name), .. } = link.peer.who else { return false };
        let Some(process) = view.postgres.get(name.index) else { return false };
        // What it has said the pooler has read, so it knows of the COPY.
        let has_delivered =
            link.up.is_empty() && process.pipe.unsent() == 0 && !link.pooler.end_delivered && !link.broken;
        // And it has read all that the pooler has sent: there is no CopyDone of the client's on its way.
        let has_read = link.down.is_empty() && process.pipe.has_read_all();
        let waits = matches!(link.asked.last, tag::QUERY | tag::EXECUTE | tag::FLUSH | tag::COPY_DATA);
        process.serves() && process.backend.is_in_copy() && has_delivered && has_read && waits
    });
    if let Some(conn) = open.map(|server| server.conn).min() {
        return Err((12, format!("{conn:?} has no client any more, and its COPY is not ended")));
    }
    Ok(())
}
