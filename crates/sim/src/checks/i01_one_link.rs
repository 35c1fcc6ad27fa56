//! I1: a server is linked to at most one session, and both say so.

use std::collections::BTreeMap;

use machine::Snapshot;
use units::ConnId;

use crate::course::Finding;

pub(crate) fn check(snapshot: &Snapshot) -> Result<(), Finding> {
    let mut links: BTreeMap<ConnId, ConnId> = BTreeMap::new();
    for client in &snapshot.clients {
        let Some(server) = client.link.map(|link| link.conn) else { continue };
        if let Some(other) = links.insert(server, client.conn) {
            return Err((1, format!("{server:?} is linked to {other:?} and to {:?}", client.conn)));
        }
    }
    for server in &snapshot.servers {
        let reported = links.remove(&server.conn);
        let linked = server.link.map(|link| link.conn);
        if reported != linked {
            return Err((1, format!("{:?} says {:?} is its session, sessions say {reported:?}", server.conn, linked)));
        }
    }
    if let Some((server, client)) = links.first_key_value() {
        return Err((1, format!("{client:?} is linked to {server:?}, which is not there")));
    }
    Ok(())
}
