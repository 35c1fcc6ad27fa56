//! Requests to the coordinator for servers, and whether they are still needed.

use machine::Step;
use machine::mail::ToCoordinator;
use machine::observe::{Level, Topic};
use machine::sabotage::{Fault, does};
use units::PoolId;

use crate::tables::Tables;

/// The oldest waiter has waited for reserve_pool_timeout: the reserve may be opened.
pub(crate) fn request_reserve(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    let worker = tables.id;
    // It is not set: the reserve is never opened.
    let Some(timeout) = tables.settings.global.pools.reserve_pool_timeout else { return };
    let leaves = does(&tables.settings, Fault::LeaveReserve);
    let pool = &mut tables.pools[id];
    let waited = pool.queue.oldest().map(|waiter| step.now.since(waiter.since));
    let due = pool.lacks_reserve() && waited.is_some_and(|waited| waited >= timeout) && !leaves;
    if due && !pool.opening.is_paused(step.now) {
        pool.opening.requested_reserve = true;
        pool.opening.requested += 1;
        let ask = ToCoordinator::RequestServer { pool: id, worker, reserve: true, classes: pool.queue.at_work() };
        step.actions.post_to_coordinator(ask);
    }
}

pub(crate) fn log_reserve(tables: &Tables, step: &mut Step<'_>, id: PoolId) {
    let waiter = tables.pools.get(id).and_then(|pool| pool.queue.oldest());
    if let Some(waiter) = waiter {
        let words = "taking connection from reserve_pool".to_owned();
        tables.view().log_session(step, waiter.session, Level::Warning, Topic::General, words);
    }
}

/// The coordinator asks whether requested servers are still needed.
pub(crate) fn inquired(tables: &Tables, step: &mut Step<'_>, id: PoolId) {
    let count = tables.pools.get(id).map_or(0, |pool| {
        let coming = pool.servers.coming();
        pool.servers_needed().saturating_sub(coming)
    });
    let classes = tables.pools.get(id).map(|pool| pool.queue.at_work()).unwrap_or_default();
    let wants = ToCoordinator::StillNeeded { pool: id, worker: tables.id, count, classes };
    step.actions.post_to_coordinator(wants);
}

/// The coordinator has dropped so many requests. Sessions that wait since then request servers again.
pub(crate) fn dropped(tables: &mut Tables, id: PoolId, count: u32, reserve: bool) {
    // It may have been forgotten meanwhile.
    let Some(pool) = tables.pools.get_mut(id) else { return };
    pool.opening.requested = pool.opening.requested.saturating_sub(count);
    pool.opening.requested_reserve &= !reserve;
    tables.agenda.feed(id);
}
