//! What is given back to the coordinator because another pool's turn has come at a cap that both share, and what is not
//! asked for any more.

use connections::server::Group;
use machine::Turn;
use machine::mail::ToCoordinator;
use units::PoolId;

use crate::Worker;

impl Worker {
    /// The coordinator wants a server back, an idle one if there is one: another pool waits at a cap that both share.
    pub(super) fn recalled(&mut self, turn: &mut Turn<'_>, id: PoolId, busy: bool) {
        let idle = self.pool(id).and_then(|pool| pool.servers.idle.front().copied());
        if let Some(conn) = idle {
            return self.close_server(turn, conn, "evicted");
        }
        if busy && let Some(pool) = self.pool_mut(id).filter(|pool| pool.unpromised() > 0) {
            pool.servers.yields += 1;
            return;
        }
        let nothing = ToCoordinator::NothingIdle { pool: id, worker: self.id, busy };
        turn.actions.post_to_coordinator(nothing);
    }

    /// Whether what was asked for is still wanted.
    pub(super) fn inquired(&self, turn: &mut Turn<'_>, id: PoolId) {
        let count = self.pool(id).map_or(0, |pool| {
            let coming = pool.count(Group::Idle) + pool.count(Group::Returning) + pool.count(Group::Opening);
            pool.wanted().saturating_sub(coming)
        });
        let classes = self.pool(id).map(|pool| pool.queue.at_work()).unwrap_or_default();
        let wants = ToCoordinator::Wants { pool: id, worker: self.id, count, classes };
        turn.actions.post_to_coordinator(wants);
    }

    /// So many asks are dropped. Whoever has come to wait since then asks anew.
    pub(super) fn dropped(&mut self, id: PoolId, count: u32, reserve: bool) {
        let Some(pool) = self.pool_mut(id) else { return };
        pool.opening.asked = pool.opening.asked.saturating_sub(count);
        pool.opening.asked_reserve &= !reserve;
        self.agenda.feed(id);
    }
}
