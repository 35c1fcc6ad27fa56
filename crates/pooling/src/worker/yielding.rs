//! What is given back to the coordinator because another pool's turn has come at a cap that both share, and what is not
//! asked for any more.

use units::PoolId;

use super::pool::Pool;
use super::{Turn, Worker};
use crate::mail::ToCoordinator;
use crate::server::Group;

/// Why a server of a pool that has become smaller is closed.
pub(super) const SURPLUS: &str = "too many servers in the pool";

/// Why a server is closed that was in use when another pool's turn came.
pub(super) const YIELDED: &str = "another pool's turn";

impl Pool {
    /// Why a server that is released now is closed, if it is one that has to go.
    #[inline]
    pub(super) fn takes_back(&mut self) -> Option<&'static str> {
        if self.yields + self.surplus == 0 {
            return None;
        }
        if self.yields > 0 {
            self.yields -= 1;
            return Some(YIELDED);
        }
        self.surplus -= 1;
        Some(SURPLUS)
    }

    /// A server has closed, for whatever reason: one less that has to go.
    pub(super) fn closed(&mut self, why: &str) {
        if why == SURPLUS || why == YIELDED {
            return;
        }
        if self.yields > 0 {
            self.yields -= 1;
        } else {
            self.surplus = self.surplus.saturating_sub(1);
        }
    }

    /// Servers here that are not promised to anybody.
    fn unpromised(&self) -> u32 {
        let groups = [Group::Opening, Group::Returning, Group::Recovering, Group::Linked];
        let here: u32 = groups.into_iter().map(|group| self.count(group)).sum();
        here.saturating_sub(self.lent + self.yields + self.surplus)
    }
}

impl Worker {
    /// The coordinator wants a server back, an idle one if there is one: another pool waits at a cap that both share.
    pub(super) fn recalled(&mut self, turn: &mut Turn<'_>, id: PoolId, busy: bool) {
        let idle = self.pool(id).and_then(|pool| pool.idle.front().copied());
        if let Some(conn) = idle {
            return self.close_server(turn, conn, "evicted");
        }
        if busy && let Some(pool) = self.pool_mut(id).filter(|pool| pool.unpromised() > 0) {
            pool.yields += 1;
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
        pool.asked = pool.asked.saturating_sub(count);
        pool.asked_reserve &= !reserve;
        self.touched.push(id);
    }
}
