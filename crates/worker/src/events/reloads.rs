//! What a reload changes for existing sessions and servers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::IntoIter;

use connections::databases::{Address, Database};
use connections::encryption;
use link::pool::Pool;
use link::screening::Screen;
use link::server::{CloseReason, Server, ServerState};
use link::server_login;
use link::server_names::ServerNames;
use link::session::SessionState;
use machine::sabotage::{Fault, does};
use machine::{Proved, Settings};
use units::deadline::Owner;
use units::{ConnId, PoolId, limits};

use crate::chaos::chaos;
use crate::events::orders;
use crate::servers::closed_servers;
use crate::sessions::hosts;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::stages::{ReloadedPools, Stage};
use crate::tables::step::Step;

const _: () = assert!(limits::POOLS_MAX < u32::MAX as usize);

/// New settings are in force, and these were before. Servers of databases that changed are closed when they are released. Clients of
/// databases that were removed get an error.
pub(crate) fn begin(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, before: Arc<Settings>) {
    let settings = &step.plan.settings;
    if settings.global.tests != before.global.tests {
        servers.chaos = chaos(settings, step.plan.id.0);
    }
    pools.upstreams.configure(settings);
    step.caches.statistics.configure(settings);
    step.caches.slow_lines.configure(settings);
    take_up(pools, step);
    let (ids, servers): (Vec<PoolId>, _) = (pools.ids().collect(), servers_by_pool(servers));
    step.agenda.then(Stage::Pools(Box::new(ReloadedPools { before, pools: ids.into_iter(), servers })));
}

/// A reload has come to its next pool. After the last, limits and classes follow, then the sessions.
pub(crate) fn reload_next_pool(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    mut reload: Box<ReloadedPools>,
) {
    match reload.pools.next() {
        Some(id) => {
            let own = reload.servers.remove(&id).unwrap_or_default();
            reload_pool(sessions, servers, pools, step, id, own, &reload.before);
            step.agenda.then(Stage::Pools(reload));
        }
        None => {
            // The primary of a pool's new list may have been decided long ago.
            hosts::leave_wrong_hosts(sessions, servers, pools, step);
            step.agenda.then(Stage::Limits(reload.before));
        }
    }
}

/// `own`: its servers.
fn reload_pool(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    own: Vec<ConnId>,
    before: &Settings,
) {
    // Ids are common to all workers: this pool may not exist here.
    let Some(pool) = pools.table.get_mut(id) else { return };
    let found = step.plan.settings.database(&pool.key().database);
    match found {
        Some(_) => pool.restore(),
        None => pool.remove(),
    }
    let other_password = has_another_password(pool, &step.plan.settings, before);
    if other_password {
        pool.opening_mut().prove(Arc::default());
    }
    let (ordered, asked_for_base) = (pool.rules().orders(), server_login::asks_for_base(pool, before));
    let concerned = are_concerned(pool, found.as_deref(), &step.plan.settings);
    let changed = concerned || other_password;
    let has_other_hosts = found.as_ref().is_some_and(|found| found.hosts != pool.database().hosts);
    if let Some(found) = found {
        pool.take_entry(found);
    }
    pool.configure(&step.plan.settings);
    // Its size may be fixed from now on.
    pool.measured_mut().forget_wait_sample();
    let reads_catalogue = pool.rules().follows() && step.plan.settings.reads_catalogue;
    if pool.known_mut().configure(reads_catalogue, changed) {
        pools.definitions.doubt_in(pool, step.now);
    }
    if changed {
        pool.entry_changed(other_password);
        // The pause was of the entry before.
        pool.opening_mut().end_pause(step.now);
        let why = match concerned {
            _ if pool.is_removed() => CloseReason::DatabaseRemoved,
            true => CloseReason::DatabaseChanged,
            false => CloseReason::PasswordChanged,
        };
        closed_servers::retire_servers(sessions, servers, pools, step, own, |_| true, &why);
    } else {
        if has_other_hosts {
            leave_removed_hosts(sessions, servers, pools, step, id, &own);
        }
        retire_outdated(sessions, servers, pools, step, id, own, (before, asked_for_base));
    }
    if orders::is_killed(pools, step.plan, id, ordered) {
        orders::kill_sessions(sessions, step, id);
        step.agenda.then(Stage::KillServers(id));
    } else {
        finish_pool(servers, pools, step, id);
    }
}

/// The pool has its new rules, and what was ordered for it is done.
pub(crate) fn finish_pool(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    orders::close_free(servers, pools, step, id);
    step.agenda.feed(id);
    step.agenda.arm(Owner::Pool(id));
    // More sessions may be pinned now.
    step.agenda.admit_to_pin(id);
}

/// A reload has come to its next session. After the last, the servers follow.
pub(crate) fn reload_next_session(
    sessions: &Sessions,
    servers: &Servers,
    pools: &Pools,
    step: &mut Step<'_>,
    before: Arc<Settings>,
    mut rest: IntoIter<ConnId>,
) {
    match rest.next() {
        Some(conn) => {
            reconfigure_session(sessions, pools, step, conn);
            step.agenda.then(Stage::Sessions(before, rest));
        }
        None => step.agenda.then(Stage::Servers(before, servers.ids().into_iter())),
    }
}

/// A reload has come to its next server. After the last, SUSPEND and RESUME follow.
pub(crate) fn reload_next_server(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    before: Arc<Settings>,
    mut rest: IntoIter<ConnId>,
) {
    match rest.next() {
        Some(conn) => {
            closed_servers::close_fast(sessions, servers, pools, step, conn);
            step.agenda.then(Stage::Servers(before, rest));
        }
        None => step.agenda.then(Stage::Suspend(before)),
    }
}

/// Timeouts of servers may be others now.
pub(crate) fn arm_servers(servers: &Servers, step: &mut Step<'_>) {
    for conn in servers.ids() {
        step.agenda.arm(Owner::Conn(conn));
    }
}

/// What is derived from settings is derived anew.
fn take_up(pools: &mut Pools, step: &mut Step<'_>) {
    pools.forget_past_but_of(&step.plan.settings);
    step.caches.screen = Screen::of(&step.plan.settings);
    step.caches.server_names = ServerNames::of(&step.plan.settings);
}

/// A shorter timeout holds at once. A session whose database was removed is closed, unless it is linked.
fn reconfigure_session(sessions: &Sessions, pools: &Pools, step: &mut Step<'_>, conn: ConnId) {
    // It may have ended since the reload began, after the end of another session gave it what it waited for.
    let Some(session) = sessions.get(conn) else { return };
    let removed = pools.get(session.pool()).is_some_and(|pool| pool.is_removed());
    let free = matches!(
        session.state(),
        SessionState::Idle { .. }
            | SessionState::LostBlock { .. }
            | SessionState::Waiting { .. }
            | SessionState::Welcoming { .. }
            | SessionState::Opening { .. }
    );
    if removed && free && !does(&step.plan.settings, Fault::RemoveSilently) {
        step.agenda.refuse(conn, CloseReason::DatabaseRemoved);
    } else {
        step.agenda.arm(Owner::Conn(conn));
    }
}

/// Whether the password of the pool's user, as auth_file has it, is another one now. The database's own goes before it.
fn has_another_password(pool: &Pool, new: &Settings, old: &Settings) -> bool {
    let user = &*pool.key().user;
    pool.database().password.is_none() && new.secrets.get(user) != old.secrets.get(user)
}

/// All servers, so that a reload looks at each once, however many pools there are.
fn servers_by_pool(servers: &Servers) -> BTreeMap<PoolId, Vec<ConnId>> {
    let mut all: BTreeMap<PoolId, Vec<ConnId>> = BTreeMap::new();
    for (conn, server) in servers.iter() {
        all.entry(server.pool()).or_default().push(conn);
    }
    all
}

/// Whether a pool's servers have to be replaced: RECONNECT was ordered, or its database's entry is another one, or gone.
fn are_concerned(pool: &Pool, entry: Option<&Database>, settings: &Settings) -> bool {
    let reconnects = settings.orders.of(&pool.key().database).reconnects != pool.rules().orders().reconnects;
    reconnects || entry.is_none_or(|entry| entry.needs_other_servers(pool.database()))
}

/// Hosts were added to the pool's database, or removed. Servers at the others stay.
fn leave_removed_hosts(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    own: &[ConnId],
) {
    let pool = &mut pools[id];
    // The pause was of the hosts before.
    pool.opening_mut().end_pause(step.now);
    let database = Arc::clone(pool.database());
    let is_removed = |server: &Server| !database.hosts.contains(server.identity().host());
    let why = CloseReason::DatabaseChanged;
    closed_servers::retire_servers(sessions, servers, pools, step, own.iter().copied(), is_removed, &why);
}

/// Of a pool's servers those are closed that would be encrypted in another way now, whose host has left the address that they are connected to,
/// or that have a name by `server_application_name`, which is off now; or that were not asked for their base, and would be now. `asked_for_base`:
/// the pool's servers were.
fn retire_outdated(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    own: Vec<ConnId>,
    (before, asked_for_base): (&Settings, bool),
) {
    let new = Arc::clone(&step.plan.settings);
    let is_old =
        |server: &Server| !encryption::is_alike(&new.global.tls, &before.global.tls, server.identity().address());
    let is_left =
        |server: &Server| new.orders.addresses.have_left(server.identity().host(), server.identity().address());
    closed_servers::retire_servers(
        sessions,
        servers,
        pools,
        step,
        own.iter().copied(),
        is_old,
        &CloseReason::TlsChanged,
    );
    closed_servers::retire_servers(
        sessions,
        servers,
        pools,
        step,
        own.iter().copied(),
        is_left,
        &CloseReason::AddressLeft,
    );
    follow_moves(servers, pools, step, id, &own, before);
    if !step.caches.server_names.are_used() {
        let is_named = |server: &Server| server.kept().has_shown_name();
        closed_servers::retire_servers(
            sessions,
            servers,
            pools,
            step,
            own.iter().copied(),
            is_named,
            &CloseReason::NamesAreOff,
        );
    }
    // A server that has refused the question before would be replaced by one that does the same.
    if !asked_for_base && server_login::asks_for_base(&pools[id], &step.plan.settings) {
        let is_unread = |server: &Server| !server.kept().base().is_read();
        closed_servers::retire_servers(sessions, servers, pools, step, own, is_unread, &CloseReason::DatabaseChanged);
    }
}

/// Where a host of the pool has other addresses now, a pause after failures there is over, and no connection to an old address is waited for.
fn follow_moves(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    own: &[ConnId],
    before: &Settings,
) {
    let new = Arc::clone(&step.plan.settings);
    let has_moved = |host: &Address| new.orders.addresses.have_moved_since(&before.orders.addresses, host);
    let pool = &mut pools[id];
    if !pool.database().hosts.iter().any(has_moved) {
        return;
    }
    pool.opening_mut().end_pause(step.now);
    for conn in own {
        // The server may have been closed above.
        let Some(server) = servers.get(*conn) else { continue };
        if matches!(server.state(), ServerState::Connecting) && has_moved(server.identity().host()) {
            closed_servers::close_server(servers, pools, step, *conn, CloseReason::AddressLeft);
        }
    }
}

/// A client has proved another password of the pool's user than those before.
pub(crate) fn take_password(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    proved: Arc<Proved>,
) {
    // It may have been forgotten meanwhile.
    let Some(pool) = pools.get_mut(id) else { return };
    let marks = proved.marks();
    pool.opening_mut().prove(proved);
    let is_old =
        |server: &Server| server.pool() == id && server.identity().mark().is_some_and(|mark| marks.contradict(mark));
    let all = servers.ids();
    closed_servers::retire_servers(sessions, servers, pools, step, all, is_old, &CloseReason::PasswordChanged);
}
