//! When to ask for capacity, and how a server logs in.
//!
//! A server is opened only with a token from the coordinator (I5). A login that PostgreSQL refuses for good is told to
//! everybody who waits, at once, in its words; anything else is tried again, with pauses that double up to
//! `server_login_retry` and are up to a quarter shorter at random, while people wait.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use connections::databases::{Address, Host};
use connections::server::{Chore, Group, Server, State};
use link::findings::Broken;
use link::pool::Pool;
use link::server_login;
use link::server_login::{End, ServerLogin, WRONG_PASSWORD_TYPE};
use machine::Turn;
use machine::action::Action;
use machine::mail::{Failure, Grant, ToCoordinator};
use machine::observe::{Ends, Level, Topic};
use machine::sabotage::{Fault, does};
use machine::work::Done;
use units::{ConnId, PoolId, PoolKey, Serial, Time, limits};
use wire::backend::Fields;
use wire::{SqlState, frontend, sqlstate};

use crate::Worker;

/// After a failure, the first pause before the next try.
const RETRY_FIRST: Duration = Duration::from_millis(50);

impl Worker {
    /// The pool of this id, made if this worker does not have it yet. `None`: its database is not configured.
    pub(super) fn ensure_pool(&mut self, id: PoolId, key: PoolKey, homes: u16) -> Option<&mut Pool> {
        if self.pools.get(id).is_none() {
            let database = self.settings.database(&key.database)?;
            self.pools.add(id, key, homes, database, &self.settings);
            let pool = self.pools.get_mut(id)?;
            self.definitions.doubt_in(pool, Time::ZERO);
        }
        self.pools.get_mut(id)
    }

    /// Asks for servers if people wait and none is coming.
    #[inline(never)]
    pub(super) fn feed(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let worker = self.id;
        let Some(pool) = self.pool_mut(id) else { return };
        if pool.wanted() == 0 {
            return;
        }
        self.rouse(turn, id);
        if self.stopping.refuses_new_work() {
            // It would be given back at once, and asked for again.
            return;
        }
        let Some(pool) = self.pool_mut(id) else { return };
        if turn.now < pool.opening.retry_at {
            self.arm_pool(turn, id);
            return;
        }
        let lent = if pool.exchange.homes > 1 && pool.missing(u32::MAX, 0) > 0 { self.borrow(turn, id) } else { 0 };
        let Some(pool) = self.pool_mut(id) else { return };
        for _ in 0..pool.missing(limits::OPENING_MAX, lent) {
            if pool.opening.asked == 0 {
                pool.opening.asked_since = turn.now;
            }
            pool.opening.asked += 1;
            let ask = ToCoordinator::Ask { pool: id, worker, reserve: false, classes: pool.queue.at_work() };
            turn.actions.post_to_coordinator(ask);
        }
        self.arm_pool(turn, id);
    }

    /// The oldest waiter has waited for reserve_pool_timeout: the reserve may be opened.
    pub(super) fn ask_for_reserve(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let worker = self.id;
        let Some(timeout) = self.settings.global.pools.reserve_pool_timeout else { return };
        let leaves = does(&self.settings, Fault::LeaveReserve);
        let Some(pool) = self.pool_mut(id) else { return };
        let waited = pool.queue.oldest().map(|waiter| turn.now.since(waiter.since));
        let due = pool.lacks_reserve() && waited.is_some_and(|waited| waited >= timeout) && !leaves;
        if due && turn.now >= pool.opening.retry_at {
            pool.opening.asked_reserve = true;
            pool.opening.asked += 1;
            let ask = ToCoordinator::Ask { pool: id, worker, reserve: true, classes: pool.queue.at_work() };
            turn.actions.post_to_coordinator(ask);
        }
    }

    /// The coordinator granted a token: open a server, or give it back if nobody wants it any more.
    pub(super) fn granted(&mut self, turn: &mut Turn<'_>, grant: Grant) {
        let Grant { pool: id, homes, key, spare, reserve, serial } = grant;
        let worker = self.id;
        let stopping = self.stopping.refuses_new_work();
        let now = turn.now;
        let wanted = match self.ensure_pool(id, key, homes) {
            Some(pool) => {
                if !spare {
                    pool.opening.asked = pool.opening.asked.saturating_sub(1);
                    pool.opening.asked_since = now;
                    pool.opening.asked_reserve = false;
                }
                let coming = pool.count(Group::Idle) + pool.count(Group::Opening);
                let spared = spare && now >= pool.opening.spare_after;
                // The one that has to go next need not be opened first.
                let goes = pool.takes_back().is_some();
                !goes && !stopping && now >= pool.opening.retry_at && (spared || pool.wanted() > coming)
            }
            None => false,
        };
        // The next waiter's turn for the reserve may come.
        self.agenda.feed(id);
        if wanted {
            if reserve {
                self.tell_of_reserve(turn, id);
            }
            self.open_server(turn, id, serial);
        } else {
            let freed = ToCoordinator::Freed { pool: id, worker, fresh: true };
            turn.actions.post_to_coordinator(freed);
        }
    }

    fn tell_of_reserve(&self, turn: &mut Turn<'_>, id: PoolId) {
        let waiter = self.pool(id).and_then(|pool| pool.queue.oldest());
        if let Some(waiter) = waiter {
            let words = "taking connection from reserve_pool".to_owned();
            self.view().tell_of_session(turn, waiter.session, Level::Warning, Topic::General, words);
        }
    }

    fn open_server(&mut self, turn: &mut Turn<'_>, id: PoolId, serial: Serial) {
        let empty = self.caches.interned.intern(self.caches.tracked.empty());
        let Some(pool) = self.pools.get_mut(id) else { return };
        let address = Arc::new(pool.take_host());
        pool.enter(State::Connecting.group());
        let opened_for = Arc::clone(&pool.database);
        let new = |name| Server::connecting(turn.now, name, serial, id, Arc::clone(&address), opened_for, empty);
        let conn = self.servers.insert_with(new);
        turn.actions.push(Action::Open { conn, address });
        self.arm_server(conn);
    }

    /// The connection stands: say who we are.
    pub(super) fn server_opened(&mut self, turn: &mut Turn<'_>, conn: ConnId, ends: Option<Box<Ends>>) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        if !matches!(server.state, State::Connecting) {
            return;
        }
        server.state = State::LoggingIn(Box::default());
        let mut words = "new connection to server".to_owned();
        if let Some(Ends { local, remote }) = ends.as_deref() {
            server.identity.local = Some(*local);
            if let Host::Name(_) = server.identity.address.host {
                // Of all that the name stands for: what people read, and where a cancel has to go.
                server.identity.address = Arc::new(Address { host: Host::Ip(remote.ip()), port: remote.port() });
            }
            let _ = write!(words, " (from {local})");
        }
        self.view().tell_of_server(turn, conn, Level::Log, Topic::Connections, words);
        let Some(server) = self.servers.get(conn) else { return };
        let Some(pool) = self.pools.get(server.pool) else { return };
        let database = &pool.database;
        let dbname = database.name_at_server();
        let fixed = [("user", &*pool.key.user), ("database", dbname)];
        let own = database.startup.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let parameters = fixed.into_iter().chain(own).map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        turn.actions.send_new(conn, |out| frontend::encode_startup(out, parameters));
    }

    pub(super) fn server_open_failed(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str) {
        let Some(server) = self.servers.get(conn) else { return };
        if let Some(pool) = self.pools.get_mut(server.pool)
            && pool.database.load_balance_hosts == connections::databases::LoadBalanceHosts::Disable
        {
            // This one has failed; going round, the next one is the next anyhow.
            pool.opening.next_host = (pool.opening.next_host + 1) % pool.database.hosts.len();
        }
        self.login_failed(turn, conn, &format!("connect failed: {why}"));
    }

    /// Bytes of a server that is logging in.
    pub(super) fn login_received(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        let Some(pool) = self.pools.get(server.pool) else { return };
        server.incoming.inbox.extend_from_slice(bytes);
        let inbox = std::mem::take(&mut server.incoming.inbox);
        let mut at = 0;
        let mut login = ServerLogin { turn, conn, server, pool, settings: &self.settings, random: &mut self.random };
        match login.read(&inbox, &mut at) {
            Ok(End::Open) => {}
            Ok(End::Ready) => self.logged_in(turn, conn),
            Ok(End::Refused(error)) => self.login_refused(turn, conn, error),
            Err(Broken(why)) => return self.login_failed(turn, conn, &why),
        }
        self.keep_login_rest(turn, conn, &inbox[at..]);
    }

    /// What came after the part of the login that could be read: more of it, or already something else.
    fn keep_login_rest(&mut self, turn: &mut Turn<'_>, conn: ConnId, rest: &[u8]) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        if rest.is_empty() {
            return;
        }
        if matches!(server.state, State::LoggingIn(_)) {
            server.incoming.inbox = rest.to_vec();
            return;
        }
        // Asynchronous messages right behind the login; they are read as any other.
        let source = turn.actions.next_kept();
        let rest = rest.to_vec();
        self.answers(turn, conn, &rest, source);
        turn.actions.keep(rest);
    }

    pub(super) fn login_computed(&mut self, turn: &mut Turn<'_>, conn: ConnId, done: Done) {
        let Done::Keys(keys) = done else { return };
        let Some(server) = self.servers.get_mut(conn) else { return };
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        if let Err(Broken(why)) = server_login::go_on_with(turn, conn, server, pool, *keys) {
            self.login_failed(turn, conn, &why);
        }
    }

    /// ReadyForQuery: the server is ours to use.
    fn logged_in(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        server_login::note_reported(server, pool, &mut self.caches);
        match pool.database.connect_query.clone() {
            Some(query) => self.start_chore(turn, conn, Chore::Setup, query.as_bytes()),
            None => self.server_ready(turn, conn),
        }
    }

    /// A new server may be used.
    pub(super) fn server_ready(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(id) = self.servers.get(conn).map(|server| server.pool) else { return };
        let Some(pool) = self.pool_mut(id) else { return };
        // Only now: a connect_query that fails is a failed login too.
        (pool.opening.failures, pool.opening.failed_at, pool.opening.retry_at) = (0, Time::ZERO, Time::ZERO);
        turn.actions.post_to_coordinator(ToCoordinator::Opened { pool: id });
        self.free(turn, conn);
        self.welcome_all(turn, id);
        // One login less under way: more may be asked for.
        self.agenda.feed(id);
    }

    /// PostgreSQL answered a login with an error.
    fn login_refused(&mut self, turn: &mut Turn<'_>, conn: ConnId, body: &[u8]) {
        let fields = Fields::decode(body);
        let code = fields.sqlstate().unwrap_or(sqlstate::CONNECTION_FAILURE);
        let words = String::from_utf8_lossy(fields.message().unwrap_or(b"login failed")).into_owned();
        let told = format!("server login failed: FATAL {words}");
        let Some(pool) = self.servers.get(conn).map(|server| server.pool) else { return };
        if is_final(code) {
            self.view().tell_of_server(turn, conn, Level::Warning, Topic::General, told);
            let pause = self.settings.global.servers.server_login_retry;
            if let Some(pool) = self.pool_mut(pool) {
                pool.opening.spare_after = turn.now + pause;
            }
            self.close_server(turn, conn, "login failed");
            self.refuse_waiting(turn, pool, code, &words);
        } else {
            self.login_failed_as(turn, conn, "login failed", Some(told));
        }
    }

    /// A login came to nothing: close, and try again after a pause.
    pub(super) fn login_failed(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str) {
        self.login_failed_as(turn, conn, why, None);
    }

    /// The coordinator writes the log: a PostgreSQL that is away is tried again by all workers, and often. `words`: the line that
    /// tells what PostgreSQL said.
    fn login_failed_as(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str, words: Option<String>) {
        let Some(server) = self.servers.get(conn) else { return };
        let (id, began) = (server.pool, server.identity.connected_at);
        let failure = Failure {
            pool: id,
            server: server.identity.name,
            address: server.identity.address.clone(),
            why: words.as_deref().unwrap_or(why).into(),
            lines: words.into_iter().chain([self.view().words_of_end(turn, conn, why)]).collect(),
        };
        let failed = ToCoordinator::Failed(Box::new(failure));
        turn.actions.post_to_coordinator(failed);
        self.remove_server(turn, conn, why);
        let longest = self.settings.global.servers.server_login_retry;
        let jitter = u32::from_ne_bytes(self.random.bytes()) >> 16;
        let Some(pool) = self.pool_mut(id) else { return };
        // Those that were under way when one failed tell nothing new.
        if pool.opening.failures == 0 || began >= pool.opening.failed_at {
            pool.opening.failures += 1;
            pool.opening.failed_at = turn.now;
        }
        let pause = RETRY_FIRST.saturating_mul(1 << (pool.opening.failures - 1).min(16)).min(longest);
        // Up to a quarter sooner, so that pools whose PostgreSQL was away do not all come back at one moment.
        pool.opening.retry_at = turn.now + (pause - pause / 4 * jitter / (1 << 16));
        if why == WRONG_PASSWORD_TYPE {
            self.refuse_waiting(turn, id, sqlstate::INVALID_AUTHORIZATION, why);
        }
    }

    /// Everybody who waits for this pool is told why there will be no server.
    fn refuse_waiting(&mut self, turn: &mut Turn<'_>, id: PoolId, code: SqlState, words: &str) {
        let Some(pool) = self.pool(id) else { return };
        let mut waiting: Vec<ConnId> = pool.queue.waiters().map(|waiter| waiter.session).collect();
        waiting.extend(pool.welcome.waiting.iter().map(|(conn, _)| *conn));
        for conn in waiting {
            self.refuse_session(turn, conn, code, words);
        }
    }
}

/// Errors that trying again does not cure: credentials, no such database, no right to connect.
fn is_final(code: SqlState) -> bool {
    &code.class() == b"28" || [sqlstate::INVALID_CATALOG_NAME, SqlState(*b"42501")].contains(&code)
}
