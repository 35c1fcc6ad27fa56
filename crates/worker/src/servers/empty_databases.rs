//! Closes servers of a database that a client wants to drop, or to use as a template, so that it has no other
//! connections.

use link::server::{CloseReason, Group, Server, ServerState};
use units::{ConnId, PoolId, limits};

use crate::servers::closed_servers;
use crate::tables::owners::{Pools, Servers};
use crate::tables::step::Step;

/// Closes the pool's servers that no session uses: idle ones, those being reset or checked, those being opened while no
/// session waits, and a listener without listening sessions. Servers in use stay, since the client may not be allowed
/// to drop the database. Servers that become free are closed too for as long as PostgreSQL itself waits for a database
/// to be empty, since their clients may be about to leave.
pub(crate) fn vacate(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    // The pool may have been forgotten meanwhile.
    let Some(pool) = pools.get_mut(id) else { return };
    pool.vacate(step.now + limits::VACATING);
    let is_awaited = pool.queue().has_waiters() || pool.welcome().waiting().len() > 0;
    let listens_for_nobody = pool.listens_for_none();
    for conn in servers.ids() {
        let leaves = |server: &Server| {
            let group = server.state().group();
            let is_in_use = match *server.state() {
                ServerState::Listening => !listens_for_nobody,
                _ => group == Group::Linked,
            };
            server.pool() == id && !is_in_use && !(is_awaited && group == Group::Opening)
        };
        if leaves(&servers[conn]) {
            closed_servers::close_server(servers, pools, step, conn, CloseReason::Vacated);
        }
    }
    closed_servers::forget_database(pools, step.now, id);
}

/// Closes a server without work if its database is to be empty. Whether it was closed.
pub(crate) fn leaves_vacant(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    conn: ConnId,
) -> bool {
    let leaves = pools[id].is_vacating(step.now);
    if leaves {
        closed_servers::close_server(servers, pools, step, conn, CloseReason::Vacated);
    }
    leaves
}
