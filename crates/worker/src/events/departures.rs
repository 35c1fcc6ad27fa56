//! What goes to the process that takes our place, in an online upgrade: each session between two of its transactions, together with the
//! server that it keeps if it keeps one; and servers that nobody here needs.
//!
//! What cannot move stays: connections over TLS, since only this process has their keys; sessions that listen through their pool's
//! listener; sessions that replicate; and whatever is in the midst of something, until that is over.

use std::sync::Arc;

use link::moving;
use link::server::{CloseReason, Group, Server, ServerState};
use link::session::{SessionState, WaitFor};
use machine::mail::ToCoordinator;
use machine::moved_server::MovedServer;
use machine::processes::ToProcess;
use machine::upgrade::{Luggage, MovedReport, MovedSession, Turn};
use settings::PoolMode;
use units::{ConnId, PoolId, PoolKey, ProcessId};

use crate::events::stops;
use crate::servers::{chores, closed_servers};
use crate::sessions::ends;
use crate::tables::Tables;
use crate::tables::owners::{Plan, Pools, Servers, Sessions};
use crate::tables::step::Step;

/// The end of a round, in an online upgrade or late in a shutdown: who can move does, and who is to end is put on the agenda.
pub(crate) fn look_who_leaves(tables: &mut Tables, step: &mut Step<'_>) {
    let (hands_over, ends) = (step.plan.stopping.hands_over(), step.plan.stopping.ends_sessions());
    let (slots, pools) = (tables.sessions.slots(), tables.pools.count());
    // Sessions come first: a pool without any keeps no server.
    for number in tables.clock.walk.round(step.now, slots + pools) {
        if number >= slots {
            if hands_over {
                hand_over_idle_servers(&mut tables.servers, &mut tables.pools, step, PoolId((number - slots) as u32));
            }
            continue;
        }
        let Some(conn) = tables.sessions.id_at(number) else { continue };
        if hands_over {
            hand_over(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, conn);
            if tables.sessions.get(conn).is_none() {
                // Without sessions the pool's last server can move.
                tables.clock.walk.note_change();
            }
        }
        if ends {
            stops::end_between_transactions(&tables.sessions, &tables.servers, step, conn);
        }
    }
}

/// Hands a session over if it can move now.
fn hand_over(sessions: &mut Sessions, servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    match sessions[conn].state() {
        SessionState::Idle { .. }
        | SessionState::Waiting { wait_for: WaitFor::Server | WaitFor::Limit, .. }
        | SessionState::Console { asked: false, .. } => hand_over_session(sessions, servers, pools, step, conn),
        SessionState::Linked { server } => hand_over_pair(sessions, servers, pools, step, (conn, server)),
        SessionState::Waiting { .. }
        | SessionState::Welcoming { .. }
        | SessionState::Opening { .. }
        | SessionState::Replicating { .. }
        | SessionState::LostBlock { .. }
        | SessionState::Console { .. }
        | SessionState::Leaving { .. } => {}
    }
}

fn hand_over_session(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    // Statements that a console's client has prepared are kept here.
    if sessions.consoles.get(conn).is_some_and(|console| !console.is_fresh()) {
        return;
    }
    if let Some(moved) = moved_session(sessions, servers, step, conn) {
        send_off(sessions, servers, pools, step, (conn, moved), None);
    }
}

/// A session that keeps its server: both go, if neither has anything under way.
fn hand_over_pair(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    (conn, server_id): (ConnId, ConnId),
) {
    // A server that was closed in this step has its session's end on the agenda.
    let Some(server) = servers.get(server_id) else { return };
    let session = &sessions[conn];
    let keeps = pools[session.pool()].rules().mode() == PoolMode::Session
        || session.tracker().is_some_and(|tracker| tracker.pinning.is_pinned());
    // Without keeping it, it is released by itself.
    if !keeps || !server.can_move() || !session.flow().is_clear() || session.identity().encryption.is_some() {
        return;
    }
    let state = session.tracker().map(|tracker| tracker.state().clone());
    let Some(moved) = moved_session(sessions, servers, step, conn) else { return };
    if let Some(state) = state {
        // It is told when a server is released: this one was not.
        servers[server_id].kept_mut().leave(state);
    }
    sessions[conn].unlink(step.now);
    let server = take_server(servers, pools, step, server_id, Some(conn));
    send_off(sessions, servers, pools, step, (conn, moved), Some((server_id, server)));
}

fn moved_session(sessions: &Sessions, servers: &Servers, step: &Step<'_>, conn: ConnId) -> Option<MovedSession> {
    let session = &sessions[conn];
    let pid = servers.cancels.other_pid_of(conn).unwrap_or_else(|| session.identity().pid(conn));
    moving::moved(session, pid, &step.caches.tracked)
}

/// A session leaves, and the server that it keeps with it.
fn send_off(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    (conn, moved): (ConnId, MovedSession),
    server: Option<(ConnId, MovedServer)>,
) {
    let key = pools.get(sessions[conn].pool()).map(|pool| pool.key().clone());
    let (pool, user) = ends::take_out(sessions, servers, pools, step, conn);
    sessions.remove(conn);
    let mut sockets = vec![conn];
    let (server_id, server) = server.unzip();
    sockets.extend(server_id);
    // The console has no pool.
    let key = key.unwrap_or_else(|| PoolKey {
        database: moved.identity.database.clone(),
        user: moved.identity.database.clone(),
    });
    let away = moved_away(step.plan, pool, Some(user), server.is_some());
    let luggage = luggage(pools, step, pool, key, Some(moved), server);
    step.actions.post_to_process(ProcessId::Successor, ToProcess::Moved(Box::new(luggage), sockets));
    step.actions.post_to_coordinator(away);
}

fn moved_away(plan: &Plan, pool: PoolId, session: Option<Arc<str>>, server: bool) -> ToCoordinator {
    let (worker, life) = (plan.id, plan.life);
    ToCoordinator::Upgrade(Box::new(Turn::MovedAway { pool, worker, life, session, server }))
}

fn luggage(
    pools: &Pools,
    step: &Step<'_>,
    pool: PoolId,
    key: PoolKey,
    session: Option<MovedSession>,
    server: Option<MovedServer>,
) -> Luggage {
    let pool = pools.get(pool);
    let report = pool.and_then(|pool| pool.welcome().report());
    let proved = pool.map(|pool| pool.opening().proved().clone());
    let kills = step.plan.settings.orders.of(&key.database).kills;
    Luggage {
        key,
        kills,
        session,
        server,
        report: report.map(|report| MovedReport {
            reported: report.reported.clone(),
            at_login: report.at_login.by_name(&step.caches.tracked),
        }),
        proved: proved.unwrap_or_default(),
    }
}

/// Takes a server out of its pool.
fn take_server(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: ConnId,
    companion: Option<ConnId>,
) -> MovedServer {
    let mut moved = servers[id].moved(companion, &step.caches.tracked);
    if companion.is_some() {
        // It has had work until now.
        moved.idle_since = step.now;
    }
    chores::turn_server(servers, pools, step, id, Server::withhold);
    let mut server = servers.remove(id).expect("it is here");
    if let Some(chaos) = &mut servers.chaos {
        chaos.gone(id);
    }
    let pool = &mut pools[server.pool()];
    pool.end_charge(step.now, &mut server);
    pool.servers_mut().leave(Group::Recovering);
    pool.server_lost(id, step.now);
    step.agenda.publish_shared(pool);
    step.agenda.release(server.work_mut().take_permits());
    step.agenda.feed(server.pool());
    moved
}

/// One idle server stays for sessions that stay; all others go, or are closed if they cannot.
fn hand_over_idle_servers(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    // Ids are common to all workers: this pool may not exist here.
    let Some(pool) = pools.get(id) else { return };
    let kept = usize::from(pool.counts().sessions() > 0);
    let leaving: Vec<ConnId> = pool.servers().idle().iter().copied().skip(kept).collect();
    for server_id in leaving {
        debug_assert!(matches!(servers[server_id].state(), ServerState::Idle));
        if !servers[server_id].can_move() {
            closed_servers::close_server(servers, pools, step, server_id, CloseReason::TakenOver);
            continue;
        }
        let server = take_server(servers, pools, step, server_id, None);
        let key = pools[id].key().clone();
        let luggage = luggage(pools, step, id, key, None, Some(server));
        step.actions.post_to_process(ProcessId::Successor, ToProcess::Moved(Box::new(luggage), vec![server_id]));
        let moved = moved_away(step.plan, id, None, true);
        step.actions.post_to_coordinator(moved);
    }
}
