//! What orders given at the console change for existing sessions and servers: PAUSE, KILL, KILL_CLIENT, SUSPEND when it is overdue.
//!
//! RECONNECT is carried out as a reload is that changes the database. What a free server is closed for is in `idle_servers`, what is not
//! opened in `server_logins`.

use link::end_reason::EndReason;
use link::server::{CloseReason, Group, ServerState};
use link::session::SessionState;
use machine::{DatabaseOrders, Step, Suspension};
use units::{ConnId, PoolId, Serial};

use crate::servers::closed_servers;
use crate::tables::followups::SessionEnd;
use crate::tables::{Tables, suspension};

/// Whether KILL was ordered for a pool's database since orders were `before`.
pub(crate) fn is_killed(tables: &Tables, id: PoolId, before: DatabaseOrders) -> bool {
    let orders = tables.pools.get(id).map(|pool| tables.plan.settings.orders.of(&pool.key().database));
    orders.is_some_and(|orders| orders.kills != before.kills)
}

/// Ends all sessions of a pool. They have to be gone before their servers are: whether a client can be told depends on what its server
/// has sent.
pub(crate) fn kill_sessions(tables: &mut Tables, id: PoolId) {
    for conn in tables.sessions.ids() {
        if tables.sessions.get(conn).is_some_and(|session| session.pool() == id) {
            tables.agenda.refuse(conn, CloseReason::DatabaseRemoved);
        }
    }
}

/// Closes all servers of a pool, whatever they are doing.
pub(crate) fn kill_servers(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    for conn in tables.servers.ids() {
        if tables.servers.get(conn).is_some_and(|server| server.pool() == id) {
            closed_servers::close_server(tables, step, conn, CloseReason::DatabaseRemoved);
        }
    }
}

/// While a pool is paused: closes its servers that nobody uses, and the one that listens for all.
pub(crate) fn close_free(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    if !tables.pools[id].rules().orders().paused {
        return;
    }
    for conn in tables.servers.ids() {
        let server = &tables.servers[conn];
        let is_free = server.state().group() == Group::Idle || matches!(server.state(), ServerState::Listening);
        if server.pool() == id && is_free {
            closed_servers::close_server(tables, step, conn, CloseReason::Paused);
        }
    }
}

/// Ends one session. It may have ended meanwhile.
pub(crate) fn kill_client(tables: &mut Tables, conn: ConnId, serial: Serial) {
    if tables.sessions.get(conn).is_some_and(|session| session.identity().serial == serial) {
        tables.agenda.refuse(conn, EndReason::Killed);
    }
}

/// Carries out SUSPEND and RESUME since suspension was `before`. Sessions that end because `suspend_timeout` is over have to be gone before
/// [`close_servers_unsent`].
pub(crate) fn suspend_or_resume(tables: &mut Tables, step: &mut Step<'_>, before: Option<Suspension>) {
    let now = tables.plan.settings.orders.suspension;
    if now == before {
        return;
    }
    match now {
        None => suspension::end(tables, step),
        Some(_) if before.is_none() => suspension::begin(tables, step),
        Some(_) => {}
    }
    if now == Some(Suspension::Overdue) {
        end_sessions_unsent(tables);
    }
}

/// Sessions end whose clients have not taken what was sent to them, or whose servers have not.
fn end_sessions_unsent(tables: &mut Tables) {
    for conn in tables.sessions.ids() {
        let session = &tables.sessions[conn];
        let server = session.server().and_then(|server| tables.servers.get(server));
        if matches!(session.state(), SessionState::Console { .. }) {
            continue;
        }
        if !session.flow().is_clear() {
            // It would not take an error either.
            tables.agenda.end(conn, SessionEnd::Left(CloseReason::SuspendTimeout.into()));
        } else if server.is_some_and(|server| !server.flow().is_clear()) {
            tables.agenda.refuse(conn, CloseReason::SuspendTimeout);
        }
    }
}

/// Once `suspend_timeout` is over, closes servers that have not taken what was sent to them. Their sessions have ended.
pub(crate) fn close_servers_unsent(tables: &mut Tables, step: &mut Step<'_>, before: Option<Suspension>) {
    let now = tables.plan.settings.orders.suspension;
    if now == before || now != Some(Suspension::Overdue) {
        return;
    }
    for conn in tables.servers.ids() {
        if tables.servers.get(conn).is_some_and(|server| !server.flow().is_clear()) {
            closed_servers::close_server(tables, step, conn, CloseReason::SuspendTimeout);
        }
    }
}
