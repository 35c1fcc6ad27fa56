//! I5: a server is given to sessions `server_max_uses` times at most, on all workers together. The check
//! looks after each round, so it counts two uses within one round as one.

use std::collections::BTreeMap;

use machine::Snapshot;
use units::ConnId;

use super::WorldView;
use crate::course::Finding;
use crate::link::LinkId;

/// The sessions that each server has been seen with.
#[derive(Debug, Default)]
pub(crate) struct Uses {
    by_server: BTreeMap<LinkId, Use>,
}

#[derive(Copy, Clone, Debug, Default)]
struct Use {
    session: Option<ConnId>,
    times: u32,
}

impl Uses {
    pub(super) fn check(&mut self, view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
        // A reload does not change it.
        let limit = view.plan.settings.global.servers.server_max_uses;
        let Some(node) = view.machines.worker_node(worker).filter(|_| limit > 0) else { return Ok(()) };
        for server in &snapshot.servers {
            let Some(id) = node.find(server.conn) else { continue };
            let seen = self.by_server.entry(id).or_default();
            let session = server.link.map(|link| link.conn);
            if session.is_some() && session != seen.session {
                seen.times += 1;
            }
            seen.session = session;
            if seen.times > limit {
                let (server, times) = (server.conn, seen.times);
                return Err((5, format!("{server:?} has been given to {times} sessions, server_max_uses is {limit}")));
            }
        }
        Ok(())
    }
}
