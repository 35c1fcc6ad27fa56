//! Which session gets a free server, and when the worker asks for another server.
//!
//! Waiters are served first in, first out. A released server goes to exactly one of them, or to a session of another
//! worker that has waited clearly longer, or becomes idle. A server is opened only with a token from the coordinator
//! (I5).

use link::server::{CloseReason, Group};
use link::session::{SessionState, WaitFor};
use machine::mail::ToCoordinator;
use queueing::queue::Waiter;
use queueing::wait_events::WaitSampling;
use units::deadline::Owner;
use units::{ConnId, PoolId, Time, limits};

use crate::limits::deadlines;
use crate::servers::idle_servers::expired;
use crate::servers::{
    closed_servers, disturbances, empty_databases, idle_servers, listener, loans, name_polls, wait_samples,
};
use crate::sessions::{links, welcome};
use crate::tables::lookups;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// Hands out idle servers to waiters. Servers that must be checked first are checked, as many as there are waiters.
fn place_idle(sessions: &mut Sessions, servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    loop {
        let pool = &pools[id];
        let returning = pool.servers().count(Group::Returning);
        if pool.servers().idle().is_empty()
            || pool.queue().servable() <= returning
            || step.plan.stopping.refuses_new_work()
        {
            return;
        }
        if let Some(&idle) = pool.servers().idle().back()
            && name_polls::must_learn(servers, pools, step, id, idle)
        {
            return;
        }
        match idle_servers::take_idle(sessions, servers, pools, step, id, None) {
            Some(server) => {
                if let Some(conn) = place(sessions, servers, pools, step, server) {
                    step.agenda.go_on(conn);
                }
            }
            None if pools[id].servers().count(Group::Returning) > returning => {}
            None => return,
        }
    }
}

/// Gives an idle server to the oldest waiter here, or to another worker whose waiter has waited clearly longer. Returns
/// the session that was linked: its caller goes on with its messages.
pub(crate) fn place(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
) -> Option<ConnId> {
    let server = servers.get(server_id)?;
    if server.state().group() != Group::Idle {
        return None;
    }
    let pool = pools.get(server.pool())?;
    let id = pool.id();
    if let Some(why) = expired(step.now, server, pool, &step.plan.settings) {
        closed_servers::close_server(servers, pools, step, server_id, why);
        return None;
    }
    let is_next = |own: Waiter| pool.queue().peek(step.now).is_none_or(|waiter| own.since < waiter.since);
    if pool.servers().own().wants_room(step.now) && pool.servers().own().queue().front().is_some_and(is_next) {
        pools[id].servers_mut().own_mut().evict();
        closed_servers::close_server(servers, pools, step, server_id, CloseReason::Evicted);
        return None;
    }
    let is_asked =
        pool.known().is_awaited() || pool.known().is_overdue(step.now) || pool.measured().wait_sampling().is_some();
    if (is_asked || pool.exchange().is_shared() || pool.listener().is_some() || step.plan.stopping.has_begun())
        && is_taken(servers, pools, step, id, server_id)
    {
        return None;
    }
    let (waiter, wait_for) = loop {
        let pool = pools.get_mut(id)?;
        let fault = machine::sabotage::misserves(&step.plan.settings);
        let Some(Waiter { session: waiter, .. }) = machine::sabotage::pop(pool.queue_mut(), step.now, fault) else {
            let asks = pool.known().is_due(step.now, pool.servers().idle().len() > 1);
            if (asks || pool.is_vacating(step.now))
                && !empty_databases::leaves_vacant(servers, pools, step, id, server_id)
            {
                name_polls::poll_names(servers, pools, step, server_id);
            }
            return None;
        };
        if pool.rules().reserve_pool_size() > 0 && pool.queue().has_waiters() {
            step.agenda.feed(id);
        }
        step.agenda.publish_shared(pool);
        let SessionState::Waiting { wait_for, deadline_ms, .. } = sessions[waiter].state() else {
            unreachable!("a pool's queue is of sessions that wait");
        };
        if deadline_ms == 0 || !deadlines::is_too_late(sessions, servers, pools, step, waiter) {
            break (waiter, wait_for);
        }
        // The late session may have been the oldest of all workers; the next one here may be younger than another worker's.
        if pools.get(id)?.exchange().is_shared() && is_taken(servers, pools, step, id, server_id) {
            return None;
        }
    };
    let server_id = disturbances::rotate(servers, pools, step, id, waiter, server_id);
    let pool = &pools[id];
    if pool.queue().has_waiters() && !pool.servers().idle().is_empty() {
        // Other idle servers must be checked first, and more sessions wait than checks are under way.
        step.agenda.feed(id);
    }
    if wait_for == WaitFor::Login {
        welcome::welcome_linked(sessions, servers, pools, step, waiter, server_id);
        return None;
    }
    links::link(sessions, servers, pools, step, waiter, server_id).then_some(waiter)
}

/// Closes idle servers in whose place sessions that replicate may open their own, if these were not granted room otherwise.
fn make_room(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    loop {
        let pool = &mut pools[id];
        let Some(&oldest) = pool.servers().idle().front().filter(|_| pool.servers().own().wants_room(step.now)) else {
            return;
        };
        pool.servers_mut().own_mut().evict();
        closed_servers::close_server(servers, pools, step, oldest, CloseReason::Evicted);
    }
}

/// Uses an idle server for something other than this worker's waiters, if there is need. True: it is in use.
#[inline(never)]
fn is_taken(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId, server_id: ConnId) -> bool {
    if step.plan.stopping.refuses_new_work() {
        return true;
    }
    let (server, pool) = (&servers[server_id], &pools[id]);
    let (is_awaited, is_sampled) =
        (pool.known().is_awaited(), pool.measured().wait_sampling().is_some_and(WaitSampling::is_requested));
    if pool.needs_listener() {
        // The client for whom it was checked takes another idle server (I6).
        step.agenda.feed(id);
        listener::become_listener(servers, pools, step, server_id);
        return true;
    }
    // It was lent for the sessions that waited here when it came. Workers see each other's state a moment late: each
    // could believe that the other's waiter comes first, and the server would go to and fro for ever.
    let came_for = |at: Time| pool.queue().oldest().is_some_and(|waiter| waiter.since <= at);
    let stays = server.work().travelled_at().is_some_and(came_for) && !machine::sabotage::lends_on(&step.plan.settings);
    if pool.exchange().is_shared()
        && !stays
        && let Some((to, since)) = lookups::stranger(step, pool)
    {
        loans::lend(servers, pools, step, server_id, to, since);
        return true;
    }
    if is_awaited && name_polls::must_learn(servers, pools, step, id, server_id)
        || is_sampled && wait_samples::query_wait_events(servers, pools, step, server_id)
    {
        return true;
    }
    let asks = name_polls::poll_names_if_overdue(servers, pools, step, id, server_id);
    if asks {
        step.agenda.feed(id);
    }
    asks
}

/// Requests servers if sessions wait and too few servers are on their way.
#[inline(never)]
pub(crate) fn feed(sessions: &mut Sessions, servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    let worker = step.plan.id;
    // It may have been forgotten in this very step.
    let Some(pool) = pools.get_mut(id) else { return };
    if !pool.needs_servers() || pool.asks_no_more(step.now) {
        return;
    }
    place_idle(sessions, servers, pools, step, id);
    make_room(servers, pools, step, id);
    if step.plan.stopping.refuses_new_work() || pools[id].rules().orders().paused {
        // A granted server would be given back at once, and requested again.
        return;
    }
    let pool = &mut pools[id];
    if pool.opening().is_paused(step.now) {
        step.agenda.arm(Owner::Pool(id));
        return;
    }
    let lent =
        if pool.exchange().is_shared() && pool.missing(u32::MAX, 0) > 0 { loans::borrow(pools, step, id) } else { 0 };
    let pool = &mut pools[id];
    for _ in 0..pool.missing(limits::OPENING_MAX, lent) {
        pool.opening_mut().request(step.now);
        let ask = ToCoordinator::RequestServer {
            pool: id,
            holder: worker.into(),
            reserve: false,
            classes: pool.queue().at_work(),
        };
        step.actions.post_to_coordinator(ask);
    }
    step.agenda.arm(Owner::Pool(id));
}
