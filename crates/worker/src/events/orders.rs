//! What orders given at the console change for existing sessions and servers: PAUSE, KILL, KILL_CLIENT, SUSPEND when it is overdue.
//!
//! RECONNECT is carried out as a reload is that changes the database. What a free server is closed for is in `idle_servers`, what is not
//! opened in `server_logins`.

use link::end_reason::EndReason;
use link::server::{CloseReason, Group, ServerState};
use link::session::SessionState;
use machine::{DatabaseOrders, Suspension};
use units::{ConnId, PoolId, Serial};

use crate::servers::closed_servers;
use crate::tables::followups::SessionEnd;
use crate::tables::owners::{Clock, Plan, Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::suspension;

/// Whether KILL was ordered for a pool's database since orders were `before`.
pub(crate) fn is_killed(pools: &Pools, plan: &Plan, id: PoolId, before: DatabaseOrders) -> bool {
    let orders = pools.get(id).map(|pool| plan.settings.orders.of(&pool.key().database));
    orders.is_some_and(|orders| orders.kills != before.kills)
}

/// Ends all sessions of a pool. They have to be gone before their servers are: whether a client can be told depends on what its server
/// has sent.
pub(crate) fn kill_sessions(sessions: &Sessions, step: &mut Step<'_>, id: PoolId) {
    for conn in sessions.ids() {
        if sessions.get(conn).is_some_and(|session| session.pool() == id) {
            step.agenda.refuse(conn, CloseReason::DatabaseRemoved);
        }
    }
}

/// Closes all servers of a pool, whatever they are doing.
pub(crate) fn kill_servers(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    for conn in servers.ids() {
        if servers.get(conn).is_some_and(|server| server.pool() == id) {
            closed_servers::close_server(servers, pools, step, conn, CloseReason::DatabaseRemoved);
        }
    }
}

/// While a pool is paused: closes its servers that nobody uses, and the one that listens for all.
pub(crate) fn close_free(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    if !pools[id].rules().orders().paused {
        return;
    }
    for conn in servers.ids() {
        let server = &servers[conn];
        let is_free = server.state().group() == Group::Idle || matches!(server.state(), ServerState::Listening);
        if server.pool() == id && is_free {
            closed_servers::close_server(servers, pools, step, conn, CloseReason::Paused);
        }
    }
}

/// Ends one session. It may have ended meanwhile.
pub(crate) fn kill_client(sessions: &Sessions, step: &mut Step<'_>, conn: ConnId, serial: Serial) {
    if sessions.get(conn).is_some_and(|session| session.identity().serial == serial) {
        step.agenda.refuse(conn, EndReason::Killed);
    }
}

/// Carries out SUSPEND and RESUME since suspension was `before`. Sessions that end because `suspend_timeout` is over have to be gone before
/// [`close_servers_unsent`].
pub(crate) fn suspend_or_resume(
    sessions: &mut Sessions,
    servers: &mut Servers,
    clock: &mut Clock,
    step: &mut Step<'_>,
    before: Option<Suspension>,
) {
    let now = step.plan.settings.orders.suspension;
    if now == before {
        return;
    }
    match now {
        None => suspension::end(sessions, servers, clock, step),
        Some(_) if before.is_none() => suspension::begin(sessions, servers, step),
        Some(_) => {}
    }
    if now == Some(Suspension::Overdue) {
        end_sessions_unsent(sessions, servers, step);
    }
}

/// Sessions end whose clients have not taken what was sent to them, or whose servers have not.
fn end_sessions_unsent(sessions: &Sessions, servers: &Servers, step: &mut Step<'_>) {
    for conn in sessions.ids() {
        let session = &sessions[conn];
        let server = session.server().and_then(|server| servers.get(server));
        if matches!(session.state(), SessionState::Console { .. }) {
            continue;
        }
        if !session.flow().is_clear() {
            // It would not take an error either.
            step.agenda.end(conn, SessionEnd::Left(CloseReason::SuspendTimeout.into()));
        } else if server.is_some_and(|server| !server.flow().is_clear()) {
            step.agenda.refuse(conn, CloseReason::SuspendTimeout);
        }
    }
}

/// Once `suspend_timeout` is over, closes servers that have not taken what was sent to them. Their sessions have ended.
pub(crate) fn close_servers_unsent(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    before: Option<Suspension>,
) {
    let now = step.plan.settings.orders.suspension;
    if now == before || now != Some(Suspension::Overdue) {
        return;
    }
    for conn in servers.ids() {
        if servers.get(conn).is_some_and(|server| !server.flow().is_clear()) {
            closed_servers::close_server(servers, pools, step, conn, CloseReason::SuspendTimeout);
        }
    }
}
