//! What a reload changes for existing sessions and servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use connections::databases::Database;
use connections::encryption;
use link::pool::Pool;
use link::screening::Screen;
use link::server::{CloseReason, Server};
use link::server_login;
use link::server_names::ServerNames;
use link::session::SessionState;
use machine::sabotage::{Fault, does};
use machine::{Proved, Settings, Step};
use units::deadline::Owner;
use units::{ConnId, PoolId, limits};

use crate::servers::closed_servers;
use crate::tables::Tables;

const _: () = assert!(limits::POOLS_MAX < u32::MAX as usize);

/// What is derived from settings is derived anew.
pub(crate) fn take_up(tables: &mut Tables) {
    tables.pools.forget_past_but_of(&tables.plan.settings);
    tables.caches.screen = Screen::of(&tables.plan.settings);
    tables.caches.server_names = ServerNames::of(&tables.plan.settings);
}

/// A shorter timeout holds at once. A session whose database was removed is closed, unless it is linked.
pub(crate) fn reconfigure_session(tables: &mut Tables, conn: ConnId) {
    // It may have ended since the reload began, after the end of another session gave it what it waited for.
    let Some(session) = tables.sessions.get(conn) else { return };
    let removed = tables.pools.get(session.pool()).is_some_and(|pool| pool.is_removed());
    let free = matches!(
        session.state(),
        SessionState::Idle { .. }
            | SessionState::Waiting { .. }
            | SessionState::Welcoming { .. }
            | SessionState::Opening { .. }
    );
    if removed && free && !does(&tables.plan.settings, Fault::RemoveSilently) {
        tables.agenda.refuse(conn, CloseReason::DatabaseRemoved);
    } else {
        tables.agenda.arm(Owner::Conn(conn));
    }
}

/// Whether the password of the pool's user, as auth_file has it, is another one now. The database's own goes before it.
pub(crate) fn has_another_password(pool: &Pool, new: &Settings, old: &Settings) -> bool {
    let user = &*pool.key().user;
    pool.database().password.is_none() && new.secrets.get(user) != old.secrets.get(user)
}

/// All servers, so that a reload looks at each once, however many pools there are.
pub(crate) fn servers_by_pool(tables: &Tables) -> BTreeMap<PoolId, Vec<ConnId>> {
    let mut all: BTreeMap<PoolId, Vec<ConnId>> = BTreeMap::new();
    for (conn, server) in tables.servers.iter() {
        all.entry(server.pool()).or_default().push(conn);
    }
    all
}

/// Whether a pool's servers have to be replaced: RECONNECT was ordered, or its database's entry is another one, or gone.
pub(crate) fn are_concerned(pool: &Pool, entry: Option<&Database>, settings: &Settings) -> bool {
    let reconnects = settings.orders.of(&pool.key().database).reconnects != pool.rules().orders().reconnects;
    reconnects || entry.is_none_or(|entry| entry.needs_other_servers(pool.database()))
}

/// Of a pool's servers those are closed that would be encrypted in another way now, whose host has left the address that they are connected to,
/// or that have a name by `server_application_name`, which is off now; or that were not asked for their base, and would be now. `asked_for_base`:
/// the pool's servers were.
pub(crate) fn retire_outdated(
    tables: &mut Tables,
    step: &mut Step<'_>,
    id: PoolId,
    own: Vec<ConnId>,
    (before, asked_for_base): (&Settings, bool),
) {
    let new = Arc::clone(&tables.plan.settings);
    let is_old =
        |server: &Server| !encryption::is_alike(&new.global.tls, &before.global.tls, server.identity().address());
    let is_left =
        |server: &Server| new.orders.addresses.have_left(server.identity().host(), server.identity().address());
    closed_servers::retire_servers(tables, step, own.iter().copied(), is_old, &CloseReason::TlsChanged);
    closed_servers::retire_servers(tables, step, own.iter().copied(), is_left, &CloseReason::AddressLeft);
    if !tables.caches.server_names.are_used() {
        let is_named = |server: &Server| server.kept().has_shown_name();
        closed_servers::retire_servers(tables, step, own.iter().copied(), is_named, &CloseReason::NamesAreOff);
    }
    // A server that has refused the question before would be replaced by one that does the same.
    if !asked_for_base && server_login::asks_for_base(&tables.pools[id], &tables.plan.settings) {
        let is_unread = |server: &Server| !server.kept().base().is_read();
        closed_servers::retire_servers(tables, step, own, is_unread, &CloseReason::DatabaseChanged);
    }
}

/// A client has proved another password of the pool's user than those before.
pub(crate) fn take_password(tables: &mut Tables, step: &mut Step<'_>, id: PoolId, proved: Arc<Proved>) {
    // It may have been forgotten meanwhile.
    let Some(pool) = tables.pools.get_mut(id) else { return };
    let marks = proved.marks();
    pool.opening_mut().prove(proved);
    let is_old =
        |server: &Server| server.pool() == id && server.identity().mark().is_some_and(|mark| marks.contradict(mark));
    let all = tables.servers.ids();
    closed_servers::retire_servers(tables, step, all, is_old, &CloseReason::PasswordChanged);
}
