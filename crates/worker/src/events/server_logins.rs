//! How a server is opened, logs in, and becomes usable.

use std::fmt::Write as _;
use std::sync::Arc;

use connections::encryption::{Encryption, Next};
use link::server::{Chore, CloseReason, Group, Identity, Server, ServerState};
use link::server_login;
use machine::Secured;
use machine::action::Action;
use machine::mail::{Grant, ToCoordinator};
use machine::observe::{Ends, Level, Topic};
use machine::work::Done;
use queueing::queue::Waiter;
use units::deadline::Owner;
use units::{ConnId, PoolId, Serial};
use wire::frontend;

use crate::servers::{capacity, chores, free_servers, new_pools};
use crate::sessions::{hosts, lost_servers, replicating, reports, welcome};
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{self, lines};

/// The coordinator granted a token: open a server, or give the token back if no session needs it any more.
pub(crate) fn granted(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    grant: Grant,
) {
    let Grant { pool: id, homes, key, spare, reserve, serial } = grant;
    let worker = step.plan.id;
    let stopping = step.plan.stopping.refuses_new_work();
    let now = step.now;
    let wanted = match new_pools::ensure_pool(pools, step.plan, id, key, homes) {
        Some(pool) => {
            if !spare {
                pool.opening_mut().granted(now);
            }
            let coming = pool.servers().count(Group::Idle) + pool.servers().opening();
            let spared = spare && pool.opening().may_open_spare(now);
            // A pool that has to close a server does not open one.
            let goes = pool.servers_mut().takes_back().is_some();
            !goes
                && !pool.rules().orders().paused
                && !stopping
                && !pool.opening().is_paused(now)
                && (spared || pool.servers_needed() > coming || !pool.servers().own().queue().is_empty())
        }
        None => false,
    };
    // The next waiter may now be entitled to the reserve pool.
    step.agenda.feed(id);
    if wanted {
        if reserve {
            capacity::log_reserve(sessions, pools, step, id);
        }
        match pools.get(id).and_then(|pool| pool.next_own()) {
            Some(waiter) => open_own_server(sessions, servers, pools, step, id, serial, waiter),
            None => _ = open_server(servers, pools, step, id, serial, None),
        }
    } else {
        let freed = ToCoordinator::Freed { pool: id, holder: worker.into(), fresh: true };
        step.actions.post_to_coordinator(freed);
    }
}

/// Opens the server of a session that replicates.
fn open_own_server(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    serial: Serial,
    waiter: Waiter,
) {
    tables::leave_queue(sessions, pools, step, waiter.session);
    pools[id].servers_mut().own_mut().opens();
    let server = open_server(servers, pools, step, id, serial, Some(waiter.session));
    sessions[waiter.session].open(server, waiter.since);
    step.agenda.arm(Owner::Conn(waiter.session));
}

/// `session`: whose own it will be.
fn open_server(
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    serial: Serial,
    session: Option<ConnId>,
) -> ConnId {
    let empty = step.caches.interned.intern(step.caches.tracked.empty());
    let pool = &mut pools.table[id];
    let address = Arc::new(pool.take_host(&pools.upstreams, step.now));
    pool.servers_mut().enter(ServerState::Connecting.group());
    let (opened_for, reconnects) = (Arc::clone(pool.database()), pool.rules().orders().reconnects);
    let encryption = Encryption::new(&step.plan.settings.global.tls, &address);
    let identity = |name| {
        Identity::new((serial, name), &address, encryption, opened_for, reconnects, step.now).for_session(session)
    };
    let new = |name| Server::connecting(step.now, id, identity(name), empty);
    let conn = servers.insert_with(new);
    step.actions.push(Action::Open { conn, address });
    step.agenda.arm(Owner::Conn(conn));
    conn
}

/// The connection is open.
pub(crate) fn server_opened(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    ends: Option<Box<Ends>>,
) {
    // It may have been closed meanwhile.
    let Some(server) = servers.get_mut(conn) else { return };
    if !matches!(server.state(), ServerState::Connecting) {
        return;
    }
    let mut words = "new connection to server".to_owned();
    if let Some(Ends { local, remote }) = ends.as_deref() {
        server.identity_mut().connected(*local, *remote);
        let _ = write!(words, " (from {local})");
    }
    if step.plan.settings.orders.addresses.have_left(server.identity().host(), server.identity().address()) {
        // The name has moved while it was being opened.
        server.end_mut().close_when_released(CloseReason::AddressLeft);
    }
    let next = server.identity_mut().encryption_mut().opened();
    lines::log_server(servers, pools, step, conn, Level::Log, Topic::Connections, words);
    go_on(sessions, servers, pools, step, conn, next);
}

/// Bytes of a server that is not logging in yet: its answer to SSLRequest.
pub(crate) fn server_answered(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
) {
    match servers[conn].identity_mut().encryption_mut().received(bytes) {
        Ok(next) => go_on(sessions, servers, pools, step, conn, next),
        Err(how) => lost_servers::not_encrypted(sessions, servers, pools, step, conn, how.into()),
    }
}

/// The end of a handshake.
pub(crate) fn server_secured(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    outcome: Secure,
) {
    // It may have been closed meanwhile.
    let Some(server) = servers.get_mut(conn) else { return };
    match outcome {
        Ok(facts) => {
            let words = format!("SSL established: {}", facts.shown());
            let next = server.identity_mut().encryption_mut().secured((*facts).into());
            lines::log_server(servers, pools, step, conn, Level::Log, Topic::Connections, words);
            go_on(sessions, servers, pools, step, conn, next);
        }
        Err(why) => lost_servers::not_encrypted(sessions, servers, pools, step, conn, CloseReason::TlsFailed { why }),
    }
}

/// What became of a handshake.
type Secure = Result<Box<Secured>, String>;

/// Does the next thing before the login, or begins that.
fn go_on(sessions: &Sessions, servers: &mut Servers, pools: &Pools, step: &mut Step<'_>, conn: ConnId, next: Next) {
    if step.actions.encrypt(conn, next) {
        log_in(sessions, servers, pools, step, conn);
    }
}

/// Sends the startup packet.
fn log_in(sessions: &Sessions, servers: &mut Servers, pools: &Pools, step: &mut Step<'_>, conn: ConnId) {
    let server = &mut servers[conn];
    server.log_in();
    let pool = &pools[server.pool()];
    let database = pool.database();
    let dbname = database.name_at_server();
    let fixed = [("user", &*pool.key().user), ("database", dbname)];
    let own = database.startup.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let parameters = fixed.into_iter().chain(own).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let minor = step.plan.settings.global.servers.server_max_protocol_version.minor();
    let session = server.identity().opened_for_session().and_then(|session| sessions.get(session));
    if let Some(asked) = session.and_then(|session| session.identity().replication.as_ref()) {
        let parameters = parameters.chain([(&b"replication"[..], asked.kind.value())]).chain(asked.parameters.iter());
        step.actions.send_new(conn, |out| frontend::encode_startup_version(out, minor, parameters));
        return;
    }
    step.actions.send_new(conn, |out| frontend::encode_startup_version(out, minor, parameters));
}

pub(crate) fn login_computed(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    done: Done,
) {
    let Done::Keys(keys) = done else { unreachable!("a server's login asks for keys only") };
    // It may have been closed meanwhile.
    let Some(server) = servers.get_mut(conn) else { return };
    let pool = &mut pools[server.pool()];
    if let Err(how) = server_login::go_on_with(step, conn, server, pool, *keys) {
        lost_servers::login_failed(sessions, servers, pools, step, conn, how.into());
    }
}

/// ReadyForQuery: the server has logged in.
pub(crate) fn logged_in(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let server = &mut servers[conn];
    if let Some(session) = server.identity().opened_for_session() {
        if let Some(why) = hosts::judge(servers, pools, step, conn) {
            return lost_servers::login_failed(sessions, servers, pools, step, conn, why);
        }
        hosts::let_in(servers, pools, step, conn);
        return replicating::own_server_ready(sessions, servers, pools, step, conn, session);
    }
    server_login::note_reported(server, step.caches);
    if hosts::asks_for_role(servers, conn) {
        return chores::start_chore(servers, pools, step, conn, Chore::Role, server_login::ROLE_QUESTION);
    }
    role_known(sessions, servers, pools, step, conn);
}

/// The server has shown its role: it is closed, or its `connect_query` is run.
pub(crate) fn role_known(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    if let Some(why) = hosts::judge(servers, pools, step, conn) {
        return lost_servers::login_failed(sessions, servers, pools, step, conn, why);
    }
    match pools[servers[conn].pool()].database().connect_query.clone() {
        Some(query) => chores::start_chore(servers, pools, step, conn, Chore::Setup, query.as_bytes()),
        None => set_up(sessions, servers, pools, step, conn),
    }
}

/// Its `connect_query` has run: it is asked what it begins with, where sessions get that again after a reset.
pub(crate) fn set_up(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let server = &servers[conn];
    let pool = &pools[server.pool()];
    match server_login::question_about_base(pool, &step.plan.settings, step.caches, server) {
        Some(question) => {
            let mut text = Vec::new();
            question.write_text(&mut text);
            chores::start_chore(servers, pools, step, conn, Chore::Base, &text);
        }
        None => server_ready(sessions, servers, pools, step, conn),
    }
}

/// A new server becomes usable.
pub(crate) fn server_ready(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let server = &mut servers[conn];
    let id = server.pool();
    let pool = &mut pools[id];
    let before = pool.welcome().report().map(|report| report.edition);
    server_login::note_begun(server, pool, &step.plan.settings, step.caches);
    // Only now: a connect_query that fails is a failed login too.
    pool.opening_mut().login_succeeded();
    hosts::let_in(servers, pools, step, conn);
    let holder = step.plan.id.into();
    step.actions.post_to_coordinator(ToCoordinator::Opened { pool: id, holder });
    reports::spread(pools, step, id, before);
    free_servers::free(servers, pools, step, conn);
    welcome::welcome_all(sessions, servers, pools, step, id);
    // One login fewer is under way: another server may be requested.
    step.agenda.feed(id);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use machine::mail::{Mail, Stop};
    use units::{PoolKey, Time};

    use super::*;
    use crate::tables::scene::{POOL, Scene};

    /// Whether a server is opened for a granted token; otherwise the token is given back.
    fn opens(scene: &mut Scene, spare: bool) -> bool {
        let key = PoolKey { database: "d".into(), user: "u".into() };
        let grant = Grant { pool: POOL, homes: 2, key, spare, reserve: false, serial: Serial(7) };
        scene.run(|tables, step| granted(&mut tables.sessions, &mut tables.servers, &mut tables.pools, step, grant));
        let (mut opened, mut freed) = (0, 0);
        for action in scene.asked() {
            match action {
                Action::Open { .. } => opened += 1,
                Action::Post { mail: Mail::ToCoordinator(ToCoordinator::Freed { fresh: true, .. }), .. } => freed += 1,
                _ => {}
            }
        }
        assert_eq!(opened + freed, 1, "a token is used once");
        opened == 1
    }

    #[test]
    fn a_token_is_used_if_a_session_still_needs_a_server() {
        type Case = (&'static str, fn(&mut Scene), bool);
        let cases: [Case; 7] = [
            ("none waits", |_| (), false),
            ("one waits", |scene| _ = scene.waiter(scene.now), true),
            ("another server will do", |scene| _ = (scene.waiter(scene.now), scene.idle_server(scene.now)), false),
            (
                "two wait",
                |scene| _ = (scene.waiter(scene.now), scene.waiter(scene.now), scene.idle_server(scene.now)),
                true,
            ),
            (
                "logins fail",
                |scene| {
                    scene.waiter(scene.now);
                    scene.tables.pools[POOL].opening_mut().login_failed(
                        scene.now,
                        scene.now,
                        Duration::from_secs(1),
                        0,
                    );
                },
                false,
            ),
            (
                "no new work is taken",
                |scene| {
                    scene.waiter(scene.now);
                    scene.plan.stopping.begin(Stop::WaitForServers);
                },
                false,
            ),
            (
                "a server has to be closed",
                |scene| {
                    scene.waiter(scene.now);
                    scene.tables.pools[POOL].servers_mut().shrink(1);
                },
                false,
            ),
        ];
        for (case, prepare, expected) in cases {
            let mut scene = Scene::new(|_| ());
            prepare(&mut scene);
            assert_eq!(opens(&mut scene, false), expected, "{case}");
        }
    }

    #[test]
    fn a_spare_server_is_opened_though_no_session_waits_but_not_soon_after_a_refused_login() {
        let mut scene = Scene::new(|_| ());
        assert!(opens(&mut scene, true));
        scene.tables.pools[POOL].opening_mut().refuse_spares(Time(scene.now.0 + 1));
        assert!(!opens(&mut scene, true));
        scene.now = Time(scene.now.0 + 1);
        assert!(opens(&mut scene, true));
    }

    #[test]
    fn a_grant_answers_one_request_and_a_spare_one_none() {
        let mut scene = Scene::new(|_| ());
        (0..2).for_each(|_| scene.tables.pools[POOL].opening_mut().request(scene.now));
        opens(&mut scene, true);
        assert_eq!(scene.tables.pools[POOL].opening().requested(), 2);
        opens(&mut scene, false);
        assert_eq!(scene.tables.pools[POOL].opening().requested(), 1);
    }
}
