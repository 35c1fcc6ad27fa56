//! How servers are closed, and their tokens given back to the coordinator.

use std::sync::Arc;

use connections::databases::Host;
use link::relaying::has_said_goodbye;
use link::server::{CloseReason, Group, Server, ServerState};
use machine::action::Action;
use machine::mail::ToCoordinator;
use machine::observe::{Level, Topic};
use settings::PoolMode;
use units::{ConnId, PoolId, Time, limits};
use wire::{frontend, sqlstate};

use crate::tables::followups::{Followup, SessionEnd};
use crate::tables::lines;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// Closes a server and gives its token back. If it has a session, the caller ends that.
pub(crate) fn close_server(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
) {
    let words = lines::words_of_end(servers, step, conn, &why);
    lines::log_server(servers, pools, step, conn, Level::Log, Topic::Disconnections, words);
    remove_server(servers, pools, step, conn, why);
}

/// The same of one that may have been closed in this step.
pub(crate) fn close_if_there(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
) {
    if servers.get(conn).is_some() {
        close_server(servers, pools, step, conn, why);
    }
}

/// Like [`close_server`], without a line in the log.
pub(crate) fn remove_server(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: CloseReason,
) {
    let mut server = servers.remove(conn).expect("a server is closed once");
    let (id, group) = (server.pool(), server.state().group());
    if let Some(chaos) = &mut servers.chaos {
        chaos.gone(conn);
    }
    let listened = matches!(server.state(), ServerState::Listening);
    let is_at_work = is_at_work(&server);
    let greeted = !matches!(server.state(), ServerState::Connecting | ServerState::LoggingIn(_));
    if greeted && !server.end().is_gone() && server.flow().is_clear() && server.is_clean() {
        step.actions.send_new(conn, frontend::encode_terminate);
    }
    step.actions.push(Action::Close { conn, last_words: false });
    if is_suspect(&server, group, &why) {
        step.actions.push(Action::DoubtName { host: Arc::clone(server.identity().host()) });
    }
    let pool = &mut pools[id];
    pool.servers_mut().remove(conn, group, server.identity().opened_for_session().is_some(), &why);
    pool.end_charge(step.now, &mut server);
    // PostgreSQL may have been restarted with another configuration.
    if server.end().is_gone() && pool.has_no_server() {
        pool.welcome_mut().become_stale();
    }
    pool.server_lost(conn, step.now);
    step.agenda.publish_shared(pool);
    if is_at_work {
        let at = step.now + limits::ENDING;
        pool.servers_mut().ends_at(at);
        step.agenda.arm_by(id, at);
    } else {
        let freed = ToCoordinator::Freed { pool: id, holder: step.plan.id.into(), fresh: group == Group::Opening };
        step.actions.post_to_coordinator(freed);
    }
    if server.traces().is_unsettled() {
        step.agenda.follow(Followup::Settle { pool: id, server: conn, lost: true });
    }
    step.agenda.feed(id);
    forget_database(pools, step.now, id);
    step.agenda.release(server.work_mut().take_permits());
    if let Some(session) = server.identity().opened_for_session().filter(|_| server.end().ends_session()) {
        end_its_own_session(step, session, &server, &why);
    }
    if listened {
        step.agenda.follow(Followup::ListenerLost(id, Box::new(why)));
    }
}

/// Whether the name of the server's host may lead elsewhere soon: to the primary, if this was it.
fn is_suspect(server: &Server, group: Group, why: &CloseReason) -> bool {
    let has_failed = server.end().is_gone() || group == Group::Opening || matches!(why, CloseReason::WrongRole { .. });
    has_failed && matches!(server.identity().host().host, Host::Name(_))
}

/// Whether PostgreSQL may still be at work for a server when its connection is closed.
fn is_at_work(server: &Server) -> bool {
    let has_begun = !matches!(server.state(), ServerState::Connecting | ServerState::LoggingIn(_));
    has_begun && !server.end().is_gone() && !server.ledger().is_clear()
}

/// Servers of a pool that were closed at work are taken to have ended: they do not count any more.
pub(crate) fn ended(pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    // The pool may have been forgotten meanwhile.
    let Some(pool) = pools.get_mut(id) else { return };
    let holder = step.plan.id.into();
    while pool.servers_mut().take_ended(step.now) {
        step.actions.post_to_coordinator(ToCoordinator::Freed { pool: id, holder, fresh: false });
    }
    if let Some(at) = pool.servers().next_end() {
        step.agenda.arm_by(id, at);
    }
    forget_database(pools, step.now, id);
}

/// A server was closed that was one session's own. If the session has not ended already, or for a better reason, it ends.
fn end_its_own_session(step: &mut Step<'_>, session: ConnId, server: &Server, why: &CloseReason) {
    let is_within = server.incoming().is_within_answer();
    if is_within || has_said_goodbye(server) {
        // Its client knows already, or is within a message that cannot be completed.
        return step.agenda.end(session, SessionEnd::Dismissed(why.clone().into()));
    }
    let code = if server.end().is_gone() { sqlstate::CONNECTION_FAILURE } else { sqlstate::ADMIN_SHUTDOWN };
    step.agenda.refuse_with(session, code, why.clone());
}

/// In statement mode a transaction of several statements is refused, as in PgBouncer.
pub(crate) fn refuse_transaction_block(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let session = servers[conn].session();
    close_server(servers, pools, step, conn, CloseReason::TransactionBlock);
    if let Some(session) = session {
        step.agenda.refuse(session, CloseReason::TransactionBlock);
    }
}

/// The pool has become smaller: `count` servers here are too many.
pub(crate) fn shrink(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, pool: PoolId, count: u32) {
    // The pool does not exist here yet, or any more.
    let Some(entry) = pools.get_mut(pool) else { return };
    entry.servers_mut().shrink(count);
    // The others are closed when they become free.
    while let Some(idle) = pools[pool].servers_mut().take_idle_surplus() {
        close_server(servers, pools, step, idle, CloseReason::Surplus);
    }
}

/// With server_fast_close, a server that is to be closed in session mode waits only for the end of the transaction, not
/// of the client. The client is closed too, since it would lose its session state. Returns whether this was done.
//= pgbouncer config.md#server_fast_close
pub(crate) fn close_fast(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) -> bool {
    if !step.plan.settings.global.servers.server_fast_close {
        return false;
    }
    // A reload that closed another server may have closed this one too.
    let Some(server) = servers.get(conn).filter(|server| server.is_clean() && !server.hold().is_on()) else {
        return false;
    };
    // It need not be closed, or it has no session and is closed like any other.
    let (Some(why), Some(session)) = (server.end().close_needed().cloned(), server.session()) else { return false };
    let is_own = matches!(server.state(), ServerState::Own(_));
    let holder = &sessions[session];
    let in_session_mode = pools[holder.pool()].rules().mode() == PoolMode::Session || is_own;
    if !in_session_mode || holder.is_torn() {
        return false;
    }
    close_server(servers, pools, step, conn, why.clone());
    step.agenda.refuse_with(session, wire::sqlstate::ADMIN_SHUTDOWN, why);
    true
}

/// A database that a client wants to drop, and that has no servers left here, may be gone: the next login asks
/// PostgreSQL.
pub(crate) fn forget_database(pools: &mut Pools, now: Time, id: PoolId) {
    let pool = &mut pools[id];
    if !pool.is_vacating(now) {
        return;
    }
    // A server that was closed at work is still counted, and reports nothing.
    if pool.has_no_server() {
        pool.welcome_mut().forget_report();
    }
}

/// The coordinator wants a server back, preferably an idle one: another pool waits at a cap that both share.
pub(crate) fn recalled(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId, busy: bool) {
    let idle = pools.get(id).and_then(|pool| pool.servers().idle().front().copied());
    if let Some(conn) = idle {
        return close_server(servers, pools, step, conn, CloseReason::Evicted);
    }
    if busy && let Some(pool) = pools.get_mut(id).filter(|pool| pool.servers().unpromised() > 0) {
        pool.servers_mut().yield_one();
        return;
    }
    let nothing = ToCoordinator::NothingIdle { pool: id, holder: step.plan.id.into(), busy };
    step.actions.post_to_coordinator(nothing);
}

/// Closes these servers: the idle ones at once, the others when their transaction ends.
pub(crate) fn retire_servers(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    among: impl IntoIterator<Item = ConnId>,
    which: impl Fn(&Server) -> bool,
    why: &CloseReason,
) {
    for conn in among {
        // It may have been closed meanwhile.
        let Some(server) = servers.get_mut(conn).filter(|server| which(server)) else { continue };
        server.end_mut().close_when_released(why.clone());
        if matches!(server.state().group(), Group::Idle) || matches!(server.state(), ServerState::Listening) {
            close_server(servers, pools, step, conn, why.clone());
        } else {
            close_fast(sessions, servers, pools, step, conn);
        }
    }
}

/// Once a session of the pool sets `temp_buffers`, idle servers are closed that do not take it any more.
pub(crate) fn retire_local_buffers(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    pool: PoolId,
) {
    let entry = &mut pools[pool];
    if let Some(idle) = entry.servers_mut().idle_to_retire() {
        retire_servers(
            sessions,
            servers,
            pools,
            step,
            idle,
            |server| server.traces().has_local_buffers(),
            &CloseReason::LocalBuffers,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use session_state::login_report::LoginReport;

    use super::*;
    use crate::tables::scene::{POOL, Scene};

    #[test]
    fn a_database_is_forgotten_while_a_server_closed_at_work_still_counts() {
        let mut scene = Scene::new(|_| ());
        let (tables, now) = (&mut scene.tables, scene.now);
        let nothing = Arc::new(scene.caches.tracked.empty());
        let report = LoginReport::new(Vec::new(), Arc::clone(&nothing), nothing, &scene.caches.tracked);
        let pool = &mut tables.pools[POOL];
        pool.welcome_mut().take(report, false);
        pool.servers_mut().ends_at(now + limits::ENDING);
        forget_database(&mut tables.pools, now, POOL);
        assert!(tables.pools[POOL].welcome().report().is_some(), "nobody wants it empty");
        tables.pools[POOL].vacate(Time(now.0 + 1));
        forget_database(&mut tables.pools, now, POOL);
        assert!(tables.pools[POOL].welcome().report().is_none());
    }
}
