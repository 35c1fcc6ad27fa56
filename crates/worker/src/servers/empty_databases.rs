//! Servers that leave a database because a client wants it empty.

use connections::server::{Group, Server, State as ServerState};
use machine::Step;
use units::{ConnId, PoolId, limits};

use crate::servers::closed_servers;
use crate::tables::Tables;

const WHY: &str = "its database is to be empty";

/// Closes the servers of a pool that serve nobody, also those that are being reset, checked or opened while nobody waits,
/// and one that has listened for sessions that are gone.
/// Those in use stay: whoever says DROP DATABASE may not be allowed to. Their clients may be about to leave, so as long as
/// PostgreSQL waits for a database to be empty, servers that come free are closed as well.
pub(crate) fn vacate(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    // It may have been forgotten meanwhile.
    let Some(pool) = tables.pools.get_mut(id) else { return };
    pool.vacate(step.now + limits::VACATING);
    let is_awaited = pool.queue.has_waiters() || !pool.welcome.waiting.is_empty();
    let listens_for_nobody = pool.listener.as_ref().is_none_or(|listener| listener.is_unused());
    for conn in tables.servers.ids() {
        let leaves = |server: &Server| {
            let group = server.state().group();
            let is_in_use = match *server.state() {
                ServerState::Listening => !listens_for_nobody,
                _ => group == Group::Linked,
            };
            server.pool == id && !is_in_use && !(is_awaited && group == Group::Opening)
        };
        if leaves(&tables.servers[conn]) {
            closed_servers::close_server(tables, step, conn, WHY);
        }
    }
    closed_servers::forget_database(tables, step.now, id);
}

/// A server has no work: whether it leaves a database that is to be empty.
pub(crate) fn leaves_vacant(tables: &mut Tables, step: &mut Step<'_>, id: PoolId, conn: ConnId) -> bool {
    let leaves = tables.pools[id].is_vacating(step.now);
    if leaves {
        closed_servers::close_server(tables, step, conn, WHY);
    }
    leaves
}
