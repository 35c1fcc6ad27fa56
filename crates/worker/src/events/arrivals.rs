//! What comes from the process whose place we take, in an online upgrade: sessions between two of their transactions, servers, and
//! sessions with the servers that they keep.

use std::sync::Arc;

use link::end_reason::EndReason;
use link::moving;
use link::pinned::count_pinned;
use link::server::{Arrived, CloseReason, Group, Server, ServerState};
use link::session::SessionState;
use machine::action::Action;
use machine::mail::{TakeIn, ToCoordinator};
use machine::moved_server::MovedServer;
use machine::upgrade::{MovedReport, MovedSession};
use session_state::login_report::LoginReport;
use session_state::parameters::Parameters;
use units::deadline::Owner;
use units::{ConnId, PoolId, PoolKey};

use crate::events::loans_received;
use crate::servers::{chores, closed_servers, new_pools};
use crate::sessions::{faults, hosts, links, lost_servers, welcome};
use crate::tables::owners::{Plan, Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::suspension;

/// Takes in what another process has handed over.
pub(crate) fn take_in(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    arrived: TakeIn,
) {
    let TakeIn { luggage, pool, homes, life } = arrived;
    let is_expected = life == step.plan.life;
    let is_console = luggage.session.as_ref().is_some_and(|session| session.console.is_some());
    let is_known = is_console || has_pool(pools, step.plan, pool, &luggage.key, homes);
    if let Some(entry) = pools.get_mut(pool) {
        // A client that has logged in here has proved the newer password.
        if entry.opening().proved().is_empty() && !luggage.proved.is_empty() {
            entry.opening_mut().prove(Arc::new(luggage.proved));
        }
        if let Some(report) = luggage.report {
            learn_report(sessions, servers, pools, step, pool, report);
        }
    }
    // KILL was ordered while it was on its way.
    let is_killed = step.plan.settings.orders.of(&luggage.key.database).kills != luggage.kills;
    let session = luggage.session.map(|session| arrive(sessions, servers, pools, step, pool, session));
    if let Some(server) = luggage.server {
        // A reload has removed its database, or not brought it: it is closed.
        let server_id = is_known.then(|| arrive_server(servers, pools, step, pool, server, session));
        match server_id {
            Some(server_id) if is_killed => {
                closed_servers::close_server(servers, pools, step, server_id, CloseReason::DatabaseRemoved)
            }
            Some(server_id) => settle(sessions, servers, pools, step, server_id, session),
            None => {
                let (worker, fresh) = (step.plan.id, false);
                step.actions.post_to_coordinator(ToCoordinator::Freed { pool, holder: worker.into(), fresh });
            }
        }
    }
    let Some(conn) = session else { return };
    suspension::hold_session(sessions, step, conn);
    if !is_expected {
        return faults::turn_away(sessions, step, conn);
    }
    if !is_known {
        return step.agenda.refuse(conn, EndReason::NoSuchDatabase);
    }
    if is_killed && !is_console {
        return step.agenda.refuse(conn, CloseReason::DatabaseRemoved);
    }
    if step.plan.stopping.is_finished() {
        // The process may end at any moment.
        return step.agenda.refuse(conn, EndReason::ShuttingDown);
    }
    step.agenda.arm(Owner::Conn(conn));
    match sessions[conn].state() {
        SessionState::Linked { .. } => step.agenda.go_on(conn),
        SessionState::Console { .. } => crate::sessions::console::console_received(sessions, step, conn),
        _ if !sessions[conn].incoming().inbox().is_empty() => step.agenda.reconsider(conn),
        _ => {}
    }
}

/// Whether the pool's database is configured here.
fn has_pool(pools: &mut Pools, plan: &Plan, pool: PoolId, key: &PoolKey, homes: u16) -> bool {
    new_pools::ensure_pool(pools, plan, pool, key.clone(), homes).is_some_and(|pool| !pool.is_removed())
}

/// Its servers report this at login, as the other process has seen.
fn learn_report(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    moved: MovedReport,
) {
    if pools[id].welcome().report().is_some() {
        return;
    }
    let MovedReport { reported, at_login } = moved;
    let tracked = &step.caches.tracked;
    let at_login = Parameters::of_names(&at_login, tracked);
    let mut parameters: Parameters = tracked.empty();
    for (name, value) in &reported {
        if let Some(index) = tracked.index(name) {
            parameters.set(index, value);
        }
    }
    // A parameter that the other process did not track is as `connect_query` has left it, as far as is known.
    let at_login = at_login.over(&parameters);
    let [parameters, at_login] = [parameters, at_login].map(|values| step.caches.interned.intern(values));
    let report = LoginReport::new(reported, parameters, at_login, &step.caches.tracked);
    pools[id].welcome_mut().begin_with(report);
    welcome::welcome_all(sessions, servers, pools, step, id);
}

fn arrive(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    pool: PoolId,
    moved: MovedSession,
) -> ConnId {
    let (now, pid) = (step.now, moved.identity.cancel_pid);
    let conn = sessions.insert_with(|name| moving::arrived(now, name, pool, moved, step.caches));
    step.actions.push(Action::Adopt { conn });
    servers.cancels.note_pid(pid, conn);
    if let Some(entry) = pools.get_mut(pool) {
        sessions[conn].share_names(entry.key());
        entry.counts_mut().session_came();
        let tracker = sessions[conn].tracker();
        if tracker.is_some_and(|tracker| tracker.state().sets_local_buffers()) {
            entry.servers_mut().local_buffers_set();
        }
        if entry.has_other_excess() {
            step.agenda.publish(pool);
        }
        closed_servers::retire_local_buffers(sessions, servers, pools, step, pool);
    }
    conn
}

fn arrive_server(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    moved: MovedServer,
    companion: Option<ConnId>,
) -> ConnId {
    let pool = &mut pools[id];
    let database = Arc::clone(pool.database());
    pool.servers_mut().enter(Group::Recovering);
    let tracked = &step.caches.tracked;
    let make = |name| {
        let arrived = Arrived { pool: id, name, companion, database };
        Server::of_moved(moved, arrived, tracked)
    };
    let conn = servers.insert_with(make);
    servers[conn].kept_mut().intern(&mut step.caches.interned);
    step.actions.push(Action::Adopt { conn });
    conn
}

/// A server has arrived: it is its companion's, or free.
fn settle(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    companion: Option<ConnId>,
) {
    let idle_since = servers[server_id].work().since();
    loans_received::judge(servers, pools, step.plan, server_id);
    let Some(conn) = companion else { return loans_received::begin(servers, pools, step, server_id, idle_since) };
    debug_assert!(matches!(servers[server_id].state(), ServerState::Held));
    chores::turn_server(servers, pools, step, server_id, Server::free);
    links::link(sessions, servers, pools, step, conn, server_id);
    suspension::hold_server(servers, step, server_id);
    // No transaction has begun yet.
    servers[server_id].not_begun();
    // The decision was made before the server came, so nothing else closes it.
    if hosts::is_at_former_primary(pools, &servers[server_id]) {
        return lost_servers::break_server(sessions, servers, pools, step, server_id, CloseReason::PrimaryElsewhere);
    }
    let session = &mut sessions[conn];
    let pool = session.pool();
    if let Some(tracker) = session.tracker_mut().filter(|tracker| tracker.pinning.is_pinned()) {
        count_pinned(tracker, &mut pools[pool]);
    }
}

#[cfg(test)]
mod tests {
    use auth::Secret;
    use machine::Proved;
    use machine::upgrade::Luggage;
    use units::Life;

    use connections::databases::{Address, Database, Host, TargetSessionAttrs};
    use machine::upstreams::{HostRole, HostState, Observed, Upstream};
    use machine::{Settings, Upstreams};
    use settings::SplitBrain;

    use super::*;
    use crate::tables::scene::{POOL, Scene};

    #[test]
    fn a_session_does_not_go_on_with_its_server_at_the_primary_of_before() {
        let address = |port| Address { host: Host::Name("db".to_owned()), port };
        let mut database = Database::new("d", vec![address(5432), address(5433)]);
        database.target_session_attrs = TargetSessionAttrs::Primary;
        let database = Arc::new(database);
        let databases = [("d".to_owned(), Arc::clone(&database))].into();
        let alive = HostState::Alive { role: Some(HostRole::Primary) };
        for (primary, is_linked) in [(5432, true), (5433, false)] {
            let mut scene = Scene::new(|_| ());
            let pool = &mut scene.tables.pools[POOL];
            pool.take_entry(Arc::clone(&database));
            let settings = Settings { databases: Clone::clone(&databases), ..Settings::default() };
            let mut owner = Upstreams::new(&settings);
            owner.note(&Observed { host: Arc::new(address(primary)), upstream: Upstream::new(scene.now, alive) });
            let decided = owner.decide(scene.now, &address(primary), SplitBrain::Hold);
            assert!(scene.tables.pools.upstreams.follow(&decided[0]));
            let (conn, server) = (scene.session(), scene.idle_server(scene.now));
            let tracked = &scene.caches.tracked;
            let moved = scene.tables.servers[server].moved(Some(conn), tracked);
            let session = moving::moved(&scene.tables.sessions[conn], 1, tracked).expect("it can move");
            assert_eq!(moved.host.port, 5432);
            let key = scene.tables.pools[POOL].key().clone();
            let (server, session) = (Some(moved), Some(session));
            let report = Some(MovedReport { reported: Vec::new(), at_login: Vec::new() });
            let luggage = Luggage { key, kills: 0, session, server, report, proved: Proved::default() };
            let arrived = TakeIn { luggage, pool: POOL, homes: 1, life: Life::default() };
            scene.run(|tables, step| {
                take_in(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, arrived)
            });
            let linked = scene.tables.servers.iter().filter(|(_, server)| server.session().is_some());
            assert_eq!(linked.count(), usize::from(is_linked), "the primary is at port {primary}");
        }
    }

    #[test]
    fn a_password_that_arrives_is_older_than_one_that_was_proved_here() {
        let of = |password| Proved { keys: None, secret: Some(Secret::parse(password)) };
        for (known, expected) in [(Proved::default(), of("old")), (of("new"), of("new"))] {
            let mut scene = Scene::new(|_| ());
            scene.tables.pools[POOL].opening_mut().prove(Arc::new(known));
            let key = scene.tables.pools[POOL].key().clone();
            let luggage = Luggage { key, kills: 0, session: None, server: None, report: None, proved: of("old") };
            let arrived = TakeIn { luggage, pool: POOL, homes: 1, life: Life::default() };
            scene.run(|tables, step| {
                take_in(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, arrived)
            });
            assert_eq!(scene.tables.pools[POOL].opening().proved().marks(), expected.marks());
        }
    }
}
