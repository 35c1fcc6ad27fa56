//! What a reload changes for existing sessions and servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::IntoIter;

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

use crate::chaos::chaos;
use crate::events::orders;
use crate::limits::limiters::Limiters;
use crate::limits::{admission, classes};
use crate::servers::closed_servers;
use crate::tables::Tables;
use crate::tables::open_definitions::OpenDefinitions;
use crate::tables::stages::{ReloadedPools, Stage};

const _: () = assert!(limits::POOLS_MAX < u32::MAX as usize);

/// Takes new settings. Servers of databases that changed are closed when they are released. Clients of databases that were removed get an
/// error.
pub(crate) fn configure(tables: &mut Tables, settings: Arc<Settings>) {
    if settings.global.tests != tables.plan.settings.global.tests {
        tables.servers.chaos = chaos(&settings, tables.plan.id.0);
    }
    let before = std::mem::replace(&mut tables.plan.settings, settings);
    let servers = servers_by_pool(tables);
    tables.caches.statistics.configure(&tables.plan.settings);
    tables.caches.slow_lines.configure(&tables.plan.settings);
    take_up(tables);
    let pools: Vec<PoolId> = tables.pools.ids().collect();
    tables.agenda.then(Stage::Pools(Box::new(ReloadedPools { before, pools: pools.into_iter(), servers })));
}

/// A reload has come to its next pool. After the last, limits and classes follow, then the sessions.
pub(crate) fn reload_next_pool(
    tables: &mut Tables,
    limiters: &mut Limiters,
    definitions: &mut OpenDefinitions,
    step: &mut Step<'_>,
    mut reload: Box<ReloadedPools>,
) {
    match reload.pools.next() {
        Some(id) => {
            let own = reload.servers.remove(&id).unwrap_or_default();
            reload_pool(tables, definitions, step, id, own, &reload.before);
            tables.agenda.then(Stage::Pools(reload));
        }
        None => {
            classes::reclassify(tables, &reload.before);
            admission::configure_limits(tables, limiters, step);
            tables.agenda.then(Stage::Sessions(reload.before, tables.sessions.ids().into_iter()));
        }
    }
}

/// `own`: its servers.
fn reload_pool(
    tables: &mut Tables,
    definitions: &mut OpenDefinitions,
    step: &mut Step<'_>,
    id: PoolId,
    own: Vec<ConnId>,
    before: &Settings,
) {
    // Ids are common to all workers: this pool may not exist here.
    let Some(pool) = tables.pools.get_mut(id) else { return };
    let found = tables.plan.settings.database(&pool.key().database);
    match found {
        Some(_) => pool.restore(),
        None => pool.remove(),
    }
    let other_password = has_another_password(pool, &tables.plan.settings, before);
    if other_password {
        pool.opening_mut().prove(Arc::default());
    }
    let (ordered, asked_for_base) = (pool.rules().orders(), server_login::asks_for_base(pool, before));
    let concerned = are_concerned(pool, found.as_deref(), &tables.plan.settings);
    let changed = concerned || other_password;
    if let Some(found) = found {
        pool.take_entry(found);
    }
    pool.configure(&tables.plan.settings);
    // Its size may be fixed from now on.
    pool.measured_mut().forget_wait_sample();
    let reads_catalogue = pool.rules().follows() && tables.plan.settings.reads_catalogue;
    if pool.known_mut().configure(reads_catalogue, changed) {
        definitions.doubt_in(pool, step.now);
    }
    if changed {
        pool.entry_changed(other_password);
        let why = match concerned {
            _ if pool.is_removed() => CloseReason::DatabaseRemoved,
            true => CloseReason::DatabaseChanged,
            false => CloseReason::PasswordChanged,
        };
        closed_servers::retire_servers(tables, step, own, |_| true, &why);
    } else {
        retire_outdated(tables, step, id, own, (before, asked_for_base));
    }
    if orders::is_killed(tables, id, ordered) {
        orders::kill_sessions(tables, id);
        tables.agenda.then(Stage::KillServers(id));
    } else {
        finish_pool(tables, step, id);
    }
}

/// The pool has its new rules, and what was ordered for it is done.
pub(crate) fn finish_pool(tables: &mut Tables, step: &mut Step<'_>, id: PoolId) {
    orders::close_free(tables, step, id);
    tables.agenda.feed(id);
    tables.agenda.arm(Owner::Pool(id));
    // More sessions may be pinned now.
    tables.agenda.admit_to_pin(id);
}

/// A reload has come to its next session. After the last, the servers follow.
pub(crate) fn reload_next_session(tables: &mut Tables, before: Arc<Settings>, mut sessions: IntoIter<ConnId>) {
    match sessions.next() {
        Some(conn) => {
            reconfigure_session(tables, conn);
            tables.agenda.then(Stage::Sessions(before, sessions));
        }
        None => tables.agenda.then(Stage::Servers(before, tables.servers.ids().into_iter())),
    }
}

/// A reload has come to its next server. After the last, SUSPEND and RESUME follow.
pub(crate) fn reload_next_server(
    tables: &mut Tables,
    step: &mut Step<'_>,
    before: Arc<Settings>,
    mut servers: IntoIter<ConnId>,
) {
    match servers.next() {
        Some(conn) => {
            closed_servers::close_fast(tables, step, conn);
            tables.agenda.then(Stage::Servers(before, servers));
        }
        None => tables.agenda.then(Stage::Suspend(before)),
    }
}

/// Timeouts of servers may be others now.
pub(crate) fn arm_servers(tables: &mut Tables) {
    for conn in tables.servers.ids() {
        tables.agenda.arm(Owner::Conn(conn));
    }
}

/// What is derived from settings is derived anew.
fn take_up(tables: &mut Tables) {
    tables.pools.forget_past_but_of(&tables.plan.settings);
    tables.caches.screen = Screen::of(&tables.plan.settings);
    tables.caches.server_names = ServerNames::of(&tables.plan.settings);
}

/// A shorter timeout holds at once. A session whose database was removed is closed, unless it is linked.
fn reconfigure_session(tables: &mut Tables, conn: ConnId) {
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
fn has_another_password(pool: &Pool, new: &Settings, old: &Settings) -> bool {
    let user = &*pool.key().user;
    pool.database().password.is_none() && new.secrets.get(user) != old.secrets.get(user)
}

/// All servers, so that a reload looks at each once, however many pools there are.
fn servers_by_pool(tables: &Tables) -> BTreeMap<PoolId, Vec<ConnId>> {
    let mut all: BTreeMap<PoolId, Vec<ConnId>> = BTreeMap::new();
    for (conn, server) in tables.servers.iter() {
        all.entry(server.pool()).or_default().push(conn);
    }
    all
}

/// Whether a pool's servers have to be replaced: RECONNECT was ordered, or its database's entry is another one, or gone.
fn are_concerned(pool: &Pool, entry: Option<&Database>, settings: &Settings) -> bool {
    let reconnects = settings.orders.of(&pool.key().database).reconnects != pool.rules().orders().reconnects;
    reconnects || entry.is_none_or(|entry| entry.needs_other_servers(pool.database()))
}

/// Of a pool's servers those are closed that would be encrypted in another way now, whose host has left the address that they are connected to,
/// or that have a name by `server_application_name`, which is off now; or that were not asked for their base, and would be now. `asked_for_base`:
/// the pool's servers were.
fn retire_outdated(
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
