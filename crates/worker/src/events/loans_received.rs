//! A server arrives from another worker, or comes back because that worker's mailbox was full.

use std::sync::Arc;

use link::server::{Chore, CloseReason, Group, Server};
use machine::Step;
use machine::action::Action;
use machine::mail::{Exchange, Lent, ToCoordinator, ToWorker};
use machine::sabotage::{Fault, does};
use units::deadline::Owner;
use units::{ConnId, Time, limits};

use crate::servers::name_answers::taint;
use crate::servers::{free_servers, new_pools, own_queries};
use crate::sessions::{reports, welcome};
use crate::tables::Tables;
use crate::tables::open_definitions::OpenDefinitions;
use crate::tables::stale::is_stale_since;

/// The other worker's mailbox was full: the server stays.
fn lend_returned(tables: &mut Tables, step: &mut Step<'_>, lent: Lent) {
    let pool = &mut tables.pools[lent.pool()];
    // Not again in this round: otherwise a full mailbox would keep the worker busy with this alone.
    pool.lend_returned(lent.to, step.now + limits::STRANGER);
    let id = pool.id();
    tables.agenda.arm(Owner::Pool(id));
    tables.pools.lends -= 1;
    adopt(tables, step, Server::of_lent(lent.server), lent.idle_since);
}

pub(crate) fn lent_to_us(tables: &mut Tables, definitions: &mut OpenDefinitions, step: &mut Step<'_>, lent: Lent) {
    let (pool, from) = (lent.pool(), lent.from);
    let mut server = Server::of_lent(lent.server);
    if new_pools::ensure_pool(tables, definitions, pool, lent.key.clone(), lent.homes).is_none() {
        // A reload has removed its database, which the lender did not know yet: the server is closed below.
        let database = Arc::clone(server.identity().opened_for());
        tables.pools.add(pool, lent.key, lent.homes, database, &tables.plan.settings);
        tables.pools[pool].remove();
    }
    let entry = &mut tables.pools[pool];
    let (reconnects, opened_for) = (server.identity().reconnects(), server.identity().opened_for());
    let is_current =
        reconnects == entry.rules().orders().reconnects && !entry.database().needs_other_servers(opened_for);
    if let Some(report) = lent.report {
        reports::take_along(entry, &mut tables.caches, &report, is_current);
    }
    entry.exchange_mut().received_from(from);
    let known = entry.welcome().is_known(false);
    // The receiver reports the move to the coordinator before anything else about this server.
    let moved = ToCoordinator::Moved { pool, from, to: tables.plan.id };
    step.actions.post_to_coordinator(moved);
    step.actions.post_to_worker(from, ToWorker::Received { pool, life: lent.life });
    server.work_mut().travels(step.now);
    if does(&tables.plan.settings, Fault::RejuvenateLent) {
        server.identity_mut().rejuvenate(step.now);
    }
    adopt(tables, step, server, lent.idle_since);
    if known {
        welcome::welcome_all(tables, step, pool);
    }
}

/// Takes in a server with its connection. It has been idle since `idle_since`.
fn adopt(tables: &mut Tables, step: &mut Step<'_>, mut server: Server, idle_since: Time) {
    server.arrived_here(&mut tables.caches.interned);
    tables.pools[server.pool()].servers_mut().enter(Group::Recovering);
    let conn = tables.servers.insert_with(|_| server);
    judge(tables, conn);
    step.actions.push(Action::Adopt { conn });
    begin(tables, step, conn, idle_since);
}

/// Whether a server that has arrived can be used here, as the settings and its pool's catalogue are now.
pub(crate) fn judge(tables: &mut Tables, conn: ConnId) {
    let server = &mut tables.servers[conn];
    let pool = &tables.pools[server.pool()];
    if pool.is_removed() {
        server.end_mut().close_when_released(CloseReason::DatabaseRemoved);
    } else if pool.database().needs_other_servers(server.identity().opened_for())
        || server.identity().reconnects() != pool.rules().orders().reconnects
    {
        server.end_mut().close_when_released(CloseReason::DatabaseChanged);
    } else if tables.plan.settings.orders.addresses.have_left(server.identity().host(), server.identity().address()) {
        server.end_mut().close_when_released(CloseReason::AddressLeft);
    }
    if let Some(news) = pool.known().news_since(server.work().worked_at()) {
        taint(server, news);
    }
}

/// A server that has arrived is free, or is checked first if it has been idle for long.
pub(crate) fn begin(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, idle_since: Time) {
    match tables.plan.settings.global.servers.server_check_query.0.clone() {
        Some(check) if is_stale_since(step.now, &tables.servers[conn], idle_since, &tables.plan.settings) => {
            own_queries::send(tables, step, conn, Chore::Check, &check);
        }
        Some(_) | None => {
            free_servers::free(tables, step, conn);
            let server = &mut tables.servers[conn];
            if server.state().group() == Group::Idle {
                // The transfer was no work: it has been idle all the time.
                server.work_mut().idle_since(idle_since);
            }
        }
    }
}

pub(crate) fn returned(tables: &mut Tables, step: &mut Step<'_>, mail: Exchange) {
    match mail {
        Exchange::Lend(lent) => lend_returned(tables, step, *lent),
        // The other worker sees on the board at its next release that a session waits here.
        Exchange::Beg { pool, from: _ } => tables.agenda.publish(pool),
    }
}
