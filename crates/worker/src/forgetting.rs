//! A pool that nobody uses any more is forgotten when the coordinator says so, as soon as nothing of it is left here: a
//! client that is still taking its last words, a cancel, a server whose arrival elsewhere was not acknowledged yet.

use machine::Turn;
use machine::mail::ToCoordinator;
use queueing::board::Cell;
use units::deadline::Owner;
use units::{PoolId, limits};

use crate::Worker;

impl Worker {
    pub(super) fn forget(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        if let Some(pool) = self.pool_mut(id) {
            pool.life.forgetting = true;
        }
        self.try_to_forget(turn, id);
    }

    /// Forgets a pool that is to be, now or at a later look.
    pub(super) fn try_to_forget(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        // Sessions that have departed and are not closed yet are of no pool's count.
        let lingers = self.counts.departing > 0 && self.sessions.iter().any(|(_, session)| session.pool == id);
        if let Some(pool) = self.pool_mut(id) {
            let over = pool.is_deserted() && pool.exchange.published == Cell::CALM && !lingers;
            if !over {
                let at = turn.now + limits::FORGET;
                if let Some(pool) = self.pools.get_mut(id) {
                    self.deadlines.arm(Owner::Pool(id), &mut pool.armed, at);
                }
                return;
            }
            self.pools.remove(id);
        }
        self.refusals.forget(id);
        let forgotten = ToCoordinator::Forgotten { pool: id };
        turn.actions.post_to_coordinator(forgotten);
    }
}
