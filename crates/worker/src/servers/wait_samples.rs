//! Asks a server between two transactions which wait events its pool's servers have in PostgreSQL. The coordinator uses
//! the answer to find the pool's best size.
//!
//! This is done only for pools whose size is being found, only when the coordinator asks, and with one server of a
//! worker at a time. The session that could have had that server waits for one short query more.
//!
//! A server that has a session's settings is not asked: with another role it might not see the others' wait events.

use std::sync::Arc;

use link::server::{Chore, Group, ServerState};
use machine::mail::{Counted, ToCoordinator};
use queueing::sizing::SizingSnapshot;
use queueing::wait_events::{WaitCounts, WaitSampling};
use units::{ConnId, PoolId};

use crate::servers::{chores, free_servers};
use crate::tables::owners::{Pools, Servers};
use crate::tables::step::Step;

/// The coordinator asks for wait events. An idle server is queried at once, otherwise the next that is released.
fn sample_waits(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    let now = step.now;
    // The pool may have been forgotten meanwhile.
    let Some(pool) = pools.get_mut(id) else { return };
    pool.measured_mut().request_wait_sample(now);
    if let Some(&server_id) = pool.servers().idle().back() {
        query_wait_events(servers, pools, step, server_id);
    }
}

/// Queries an idle server if a sample was requested. Whether it was queried.
pub(crate) fn query_wait_events(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
) -> bool {
    let server = &servers[server_id];
    let id = server.pool();
    let pool = &mut pools[id];
    let fits = !step.plan.stopping.has_begun()
        && server.kept().session_state().is_none()
        && pool.servers().count(Group::Linked) > pool.servers().own().open();
    // No sample was requested, or this server does not fit.
    let Some(waits) = pool.measured_mut().wait_sampling_mut().filter(|waits| fits && waits.is_requested()) else {
        return false;
    };
    waits.begin(server_id);
    let linked =
        servers.iter().filter(|(_, other)| other.pool() == id && matches!(other.state(), ServerState::Linked(_)));
    let question = WaitCounts::question(linked.map(|(_, other)| other.backend().pid));
    chores::start_chore(servers, pools, step, server_id, Chore::WaitEvents, &question);
    true
}

/// The answer is complete.
pub(crate) fn wait_events_answered(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    if let Some(asked) = sampling_of(servers, pools, server_id) {
        asked.answered(step.now);
    }
    free_servers::free(servers, pools, step, server_id);
}

/// The answer is an error.
pub(crate) fn wait_events_refused(servers: &Servers, pools: &mut Pools, server_id: ConnId) {
    if let Some(asked) = sampling_of(servers, pools, server_id) {
        asked.refused();
    }
}

fn sampling_of<'p>(servers: &Servers, pools: &'p mut Pools, server_id: ConnId) -> Option<&'p mut WaitSampling> {
    let id = servers.get(server_id)?.pool();
    pools.get_mut(id)?.measured_mut().wait_sampling_mut()
}

/// The coordinator asks for the counts of a pool whose size it is finding.
pub(crate) fn count(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId, waits: bool) {
    let mut counted = Counted {
        pool: id,
        worker: step.plan.id,
        at: step.now,
        transactions: 0,
        transaction_us: 0,
        wait_us: 0,
        waiting: 0,
        open: 0,
        wait_events: None,
    };
    if let Some(pool) = pools.get_mut(id) {
        counted.transactions = pool.counts().totals().transactions;
        counted.transaction_us = pool.counts().totals().transaction_us;
        counted.wait_us = pool.counts().totals().wait_us;
        counted.waiting = pool.queue().len();
        counted.open = pool.servers().shared();
        counted.wait_events = pool.measured_mut().wait_sampling_mut().and_then(WaitSampling::take);
    }
    let mail = ToCoordinator::Counted(Box::new(counted));
    step.actions.post_to_coordinator(mail);
    if waits {
        sample_waits(servers, pools, step, id);
    }
}

pub(crate) fn sized(pools: &mut Pools, id: PoolId, account: Arc<SizingSnapshot>) {
    if let Some(pool) = pools.get_mut(id) {
        pool.measured_mut().sized(account);
    }
}
