//! A server arrives from another worker, or comes back because that worker's mailbox was full.

use std::sync::Arc;

use link::server::{Chore, CloseReason, Group, Server};
use machine::action::Action;
use machine::mail::{Exchange, Lent, ToCoordinator, ToWorker};
use machine::sabotage::{Fault, does};
use units::deadline::Owner;
use units::{ConnId, Time, limits};

use crate::servers::name_answers::taint;
use crate::servers::{free_servers, new_pools, own_queries};
use crate::sessions::{hosts, reports, welcome};
use crate::tables::owners::{Plan, Pools, Servers, Sessions};
use crate::tables::stale::is_stale_since;
use crate::tables::step::Step;

/// The other worker's mailbox was full: the server stays.
fn lend_returned(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, lent: Lent) {
    let pool = &mut pools[lent.pool()];
    // Not again in this round: otherwise a full mailbox would keep the worker busy with this alone.
    pool.lend_returned(lent.to, step.now + limits::STRANGER);
    let id = pool.id();
    step.agenda.arm(Owner::Pool(id));
    pools.lends -= 1;
    adopt(servers, pools, step, Server::of_lent(lent.server), lent.idle_since);
}

pub(crate) fn lent_to_us(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    lent: Lent,
) {
    let (pool, from) = (lent.pool(), lent.from);
    let mut server = Server::of_lent(lent.server);
    if new_pools::ensure_pool(pools, step.plan, pool, lent.key.clone(), lent.homes).is_none() {
        // A reload has removed its database, which the lender did not know yet: the server is closed below.
        let database = Arc::clone(server.identity().opened_for());
        pools.add(pool, lent.key, lent.homes, database, &step.plan.settings);
        pools[pool].remove();
    }
    let entry = &mut pools[pool];
    let (reconnects, opened_for) = (server.identity().reconnects(), server.identity().opened_for());
    let is_current =
        reconnects == entry.rules().orders().reconnects && !entry.database().needs_other_servers(opened_for);
    if let Some(report) = lent.report {
        reports::take_along(entry, step.caches, &report, is_current);
    }
    entry.exchange_mut().received_from(from);
    let known = entry.welcome().is_known(false);
    // The receiver reports the move to the coordinator before anything else about this server.
    let moved = ToCoordinator::Moved { pool, from, to: step.plan.id };
    step.actions.post_to_coordinator(moved);
    step.actions.post_to_worker(from, ToWorker::Received { pool, life: lent.life });
    server.work_mut().travels(step.now);
    if does(&step.plan.settings, Fault::RejuvenateLent) {
        server.identity_mut().rejuvenate(step.now);
    }
    adopt(servers, pools, step, server, lent.idle_since);
    if known {
        welcome::welcome_all(sessions, servers, pools, step, pool);
    }
}

/// Takes in a server with its connection. It has been idle since `idle_since`.
fn adopt(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, mut server: Server, idle_since: Time) {
    debug_assert!(server.is_clean() && server.cancel().under_way() == 0, "I3: a server is lent only clean");
    server.arrived_here(&mut step.caches.interned);
    pools[server.pool()].servers_mut().enter(Group::Recovering);
    let conn = servers.insert_with(|_| server);
    judge(servers, pools, step.plan, conn);
    step.actions.push(Action::Adopt { conn });
    begin(servers, pools, step, conn, idle_since);
}

/// Whether a server that has arrived can be used here, as the settings and its pool's catalogue are now.
pub(crate) fn judge(servers: &mut Servers, pools: &Pools, plan: &Plan, conn: ConnId) {
    let server = &mut servers[conn];
    let pool = &pools[server.pool()];
    if pool.is_removed() {
        server.end_mut().close_when_released(CloseReason::DatabaseRemoved);
    } else if pool.database().needs_another_server(server.identity().opened_for(), server.identity().host())
        || server.identity().reconnects() != pool.rules().orders().reconnects
    {
        server.end_mut().close_when_released(CloseReason::DatabaseChanged);
    } else if plan.settings.orders.addresses.have_left(server.identity().host(), server.identity().address()) {
        server.end_mut().close_when_released(CloseReason::AddressLeft);
    } else if hosts::is_left(pools, server) && !does(&plan.settings, Fault::LinkLentAnywhere) {
        server.end_mut().close_when_released(CloseReason::PrimaryElsewhere);
    } else if pools.upstreams.get(server.identity().host()).is_silent() {
        server.end_mut().close_when_released(CloseReason::HostSilent);
    }
    if let Some(news) = pool.known().news_since(server.work().worked_at()) {
        taint(server, news);
    }
}

/// A server that has arrived is free, or is checked first if it has been idle for long.
pub(crate) fn begin(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId, idle_since: Time) {
    // One that is closed below is not asked whether it lives: its host may not be the primary any more.
    let is_kept = servers[conn].end().close_needed().is_none();
    match step.plan.settings.global.servers.server_check_query.0.clone() {
        Some(check) if is_kept && is_stale_since(step.now, &servers[conn], idle_since, &step.plan.settings) => {
            own_queries::send(servers, pools, step, conn, Chore::Check, &check);
        }
        Some(_) | None => {
            free_servers::free(servers, pools, step, conn);
            let server = &mut servers[conn];
            if server.state().group() == Group::Idle {
                // The transfer was no work: it has been idle all the time.
                server.work_mut().idle_since(idle_since);
            }
        }
    }
}

pub(crate) fn returned(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, mail: Exchange) {
    match mail {
        Exchange::Lend(lent) => lend_returned(servers, pools, step, *lent),
        // The other worker sees on the board at its next release that a session waits here.
        Exchange::Beg { pool, from: _ } => step.agenda.publish(pool),
    }
}
