//! What orders given at the console change for existing sessions and servers: PAUSE, KILL, KILL_CLIENT.
//!
//! RECONNECT is carried out as a reload is that changes the database. What a free server is closed for is in `idle_servers`, what is not
//! opened in `server_logins`.

use connections::server::{Group, State as ServerState};
use machine::{DatabaseOrders, Step};
use units::{ConnId, PoolId, Serial};
use wire::sqlstate::ADMIN_SHUTDOWN;

use crate::servers::closed_servers;
use crate::servers::idle_servers::PAUSED;
use crate::tables::Tables;
use crate::tables::notices::{CLIENT_KILLED, DATABASE_REMOVED};

/// Carries out the orders for a pool's database, which were `before`.
pub(crate) fn obey(tables: &mut Tables, step: &mut Step<'_>, id: PoolId, before: DatabaseOrders) {
    let database = &tables.pools[id].key.database;
    let orders = tables.settings.orders.of(database);
    if orders.kills != before.kills {
        kill(tables, step, id);
    }
    if orders.paused {
        close_free(tables, step, id);
    }
}

/// Closes all servers and sessions of a pool, whatever they are doing.
fn kill(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    for conn in tables.servers.ids() {
        if tables.servers.get(conn).is_some_and(|server| server.pool == id) {
            let session = tables.servers[conn].session();
            closed_servers::close_server(tables, step, conn, DATABASE_REMOVED);
            if let Some(session) = session {
                tables.agenda.refuse(session, ADMIN_SHUTDOWN, DATABASE_REMOVED);
            }
        }
    }
    for conn in tables.sessions.ids() {
        if tables.sessions.get(conn).is_some_and(|session| session.pool == id) {
            tables.agenda.refuse(conn, ADMIN_SHUTDOWN, DATABASE_REMOVED);
        }
    }
}

/// Closes a pool's servers that nobody uses, and the one that listens for all.
fn close_free(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    for conn in tables.servers.ids() {
        let server = &tables.servers[conn];
        let is_free = server.state().group() == Group::Idle || matches!(server.state(), ServerState::Listening);
        if server.pool == id && is_free {
            closed_servers::close_server(tables, step, conn, PAUSED);
        }
    }
}

/// Ends one session. It may have ended meanwhile.
pub(crate) fn kill_client(tables: &mut Tables, conn: ConnId, serial: Serial) {
    if tables.sessions.get(conn).is_some_and(|session| session.identity.serial == serial) {
        tables.agenda.refuse(conn, ADMIN_SHUTDOWN, CLIENT_KILLED);
    }
}
