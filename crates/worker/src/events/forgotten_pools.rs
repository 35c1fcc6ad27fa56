//! A pool without clients is forgotten when the coordinator says so, as soon as nothing of it is left here. What may be
//! left: a client that is still receiving its last error, a cancel, a lent server whose arrival was not acknowledged
//! yet.

use machine::Step;
use machine::mail::ToCoordinator;
use queueing::board::Cell;
use units::deadline::Owner;
use units::{PoolId, limits};

use crate::tables::Tables;

pub(crate) fn forget(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    if let Some(pool) = tables.pools.get_mut(id) {
        pool.retire();
    }
    try_to_forget(tables, step, id);
}

/// Forgets a retired pool now, or tries again later.
pub(crate) fn try_to_forget(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    // No pool counts sessions that have ended and whose sockets are not closed yet.
    let lingers = tables.counts.departing > 0 && tables.sessions.iter().any(|(_, session)| session.pool == id);
    if let Some(pool) = tables.pools.get_mut(id) {
        let over = pool.is_deserted() && pool.exchange.published == Cell::CALM && !lingers;
        if !over {
            let at = step.now + limits::FORGET;
            tables.deadlines.arm(Owner::Pool(id), &mut pool.armed, at);
            return;
        }
        tables.pools.remove(id);
    }
    tables.refusals.forget(id);
    let forgotten = ToCoordinator::Forgotten { pool: id, worker: tables.id };
    step.actions.post_to_coordinator(forgotten);
}
