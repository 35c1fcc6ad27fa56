//! When to ask for capacity, and how a server logs in.
//!
//! A server is opened only with a token from the coordinator (I5). A login that PostgreSQL refuses for good is told to
//! everybody who waits, at once, in its words; anything else is tried again, with pauses that double up to
//! `server_login_retry` and are up to a quarter shorter at random, while people wait.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use auth::{ClientExchange, Keys, Md5Hash, Secret};
use connections::databases::{Address, Database, Host};
use connections::flow::Flow;
use connections::server::{Chore, Group, Ledger, Overdue, Sequences, Server, State};
use link::findings::Broken;
use link::pool::Pool;
use machine::Turn;
use machine::action::Action;
use machine::mail::{Failure, Grant, ToCoordinator};
use machine::observe::{Ends, Level, Topic};
use machine::sabotage::{Fault, does};
use machine::work::{Done, Job};
use session_state::base::Base;
use session_state::prepared::Prepared;
use session_state::shape::Described;
use session_state::state::{Defines, OnServer};
use units::deadline::Armed;
use units::{ConnId, PoolId, PoolKey, Serial, Time, limits};
use wire::backend::{Authentication, BackendKeyData, Fields, ParameterStatus, ReadyForQuery, Status, tag};
use wire::frontend::{Password, SaslInitial, SaslResponse};
use wire::{HEADER_LEN, Header, SqlState, frontend, sqlstate};

use crate::Worker;

/// After a failure, the first pause before the next try.
const RETRY_FIRST: Duration = Duration::from_millis(50);

impl Worker {
    /// The pool of this id, made if this worker does not have it yet. `None`: its database is not configured.
    pub(super) fn ensure_pool(&mut self, id: PoolId, key: PoolKey, homes: u16) -> Option<&mut Pool> {
        if self.pools.get(id).is_none() {
            let database = self.settings.database(&key.database)?;
            self.pools.add(id, key, homes, database, &self.settings);
            self.doubt_open_definitions(Time::ZERO, id);
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
        if turn.now < pool.retry_at {
            self.arm_pool(turn, id);
            return;
        }
        let lent = if pool.homes > 1 && pool.missing(u32::MAX, 0) > 0 { self.borrow(turn, id) } else { 0 };
        let Some(pool) = self.pool_mut(id) else { return };
        for _ in 0..pool.missing(limits::OPENING_MAX, lent) {
            if pool.asked == 0 {
                pool.asked_since = turn.now;
            }
            pool.asked += 1;
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
        if due && turn.now >= pool.retry_at {
            pool.asked_reserve = true;
            pool.asked += 1;
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
                    pool.asked = pool.asked.saturating_sub(1);
                    pool.asked_since = now;
                    pool.asked_reserve = false;
                }
                let coming = pool.count(Group::Idle) + pool.count(Group::Opening);
                let spared = spare && now >= pool.spare_after;
                // The one that has to go next need not be opened first.
                let goes = pool.takes_back().is_some();
                !goes && !stopping && now >= pool.retry_at && (spared || pool.wanted() > coming)
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
        let named = |name| Server {
            serial,
            name,
            local: None,
            state: State::Connecting,
            pool: id,
            address: Arc::clone(&address),
            opened_for,
            flow: Flow::default(),
            inbox: Vec::new(),
            skip: 0,
            skip_tag: 0,
            skip_forward: false,
            ledger: Ledger::default(),
            status: Status::Idle,
            prepared: Prepared::default(),
            described: Described::default(),
            verdict: connections::Verdict::None,
            unnamed: session_state::unnamed::NONE,
            parameters: empty,
            reported: Vec::new(),
            session_state: None,
            defines: Defines::Nothing,
            local_rights: false,
            on_server: OnServer::default(),
            sequences: Sequences::default(),
            aside_failed: false,
            is_unsettled: false,
            emptying: None,
            soiled: false,
            tainted: false,
            worked_at: Time::ZERO,
            heard: None,
            listens: false,
            notified_by: 0,
            backend_pid: 0,
            backend_secret: Box::default(),
            connected_at: turn.now,
            since: turn.now,
            query_at: turn.now,
            transaction_at: None,
            cancels: 0,
            answer_failed: false,
            cancel_wanted: false,
            used: false,
            travelled_at: None,
            charge: None,
            gone: false,
            close_needed: None,
            #[cfg(feature = "sabotage")]
            status_seen: false,
            last_words_told: false,
            overdue: Overdue::No,
            gated: false,
            flushed: false,
            armed: Armed::default(),
        };
        let conn = self.servers.insert_with(named);
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
            server.local = Some(*local);
            if let Host::Name(_) = server.address.host {
                // Of all that the name stands for: what people read, and where a cancel has to go.
                server.address = Arc::new(Address { host: Host::Ip(remote.ip()), port: remote.port() });
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
            pool.next_host = (pool.next_host + 1) % pool.database.hosts.len();
        }
        self.login_failed(turn, conn, &format!("connect failed: {why}"));
    }

    /// Bytes of a server that is logging in.
    pub(super) fn login_received(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        server.inbox.extend_from_slice(bytes);
        let inbox = std::mem::take(&mut server.inbox);
        let mut at = 0;
        let end = loop {
            let logging_in = self.servers.get(conn).is_some_and(|server| matches!(server.state, State::LoggingIn(_)));
            if !logging_in {
                break Ok(());
            }
            match self.login_message(turn, conn, &inbox[at..]) {
                Ok(0) => break Ok(()),
                Ok(used) => at += used,
                Err(broken) => break Err(broken),
            }
        };
        match end {
            Ok(()) => self.keep_login_rest(turn, conn, &inbox[at..]),
            Err(Broken(why)) => self.login_failed(turn, conn, &why),
        }
    }

    /// What came after the part of the login that could be read: more of it, or already something else.
    fn keep_login_rest(&mut self, turn: &mut Turn<'_>, conn: ConnId, rest: &[u8]) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        if rest.is_empty() {
            return;
        }
        if matches!(server.state, State::LoggingIn(_)) {
            server.inbox = rest.to_vec();
            return;
        }
        // Asynchronous messages right behind the login; they are read as any other.
        let source = turn.actions.next_kept();
        let rest = rest.to_vec();
        self.answers(turn, conn, &rest, source);
        turn.actions.keep(rest);
    }

    /// One message of a login. Returns its length, 0 if it is not all there.
    fn login_message(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) -> Result<usize, Broken> {
        let Some(header) = Header::parse(bytes)? else { return Ok(0) };
        if header.body_len() > limits::SERVER_MESSAGE_LEN_MAX {
            return Err(Broken("message from server is too long".to_owned()));
        }
        if bytes.len() < header.total_len() {
            return Ok(0);
        }
        let body = &bytes[HEADER_LEN..header.total_len()];
        let Some(server) = self.servers.get_mut(conn) else { return Ok(0) };
        let State::LoggingIn(login) = &mut server.state else { return Ok(0) };
        match header.tag {
            tag::AUTHENTICATION => self.authenticate(turn, conn, Authentication::decode(body)?)?,
            tag::ERROR => {
                self.login_refused(turn, conn, body);
            }
            tag::NOTICE | tag::NEGOTIATE_VERSION => {}
            _ if !login.authenticated => {
                return Err(Broken(format!("unexpected message before authentication: {}", header.tag.escape_ascii())));
            }
            tag::PARAMETER_STATUS => {
                let status = ParameterStatus::decode(body)?;
                if login.reported.len() < 1000 {
                    login.reported.push((status.name.into(), status.value.into()));
                }
            }
            tag::BACKEND_KEY_DATA => {
                let key = BackendKeyData::decode(body)?;
                (server.backend_pid, server.backend_secret) = (key.pid, key.secret.into());
            }
            tag::READY_FOR_QUERY => {
                let ready = ReadyForQuery::decode(body)?;
                if ready.status != Status::Idle {
                    return Err(Broken("server starts inside a transaction".to_owned()));
                }
                self.logged_in(turn, conn);
            }
            other => return Err(Broken(format!("unexpected message during login: {}", other.escape_ascii()))),
        }
        Ok(header.total_len())
    }

    fn authenticate(&mut self, turn: &mut Turn<'_>, conn: ConnId, request: Authentication<'_>) -> Result<(), Broken> {
        let nonce = self.random.bytes();
        let Some(server) = self.servers.get_mut(conn) else { return Ok(()) };
        let Some(pool) = self.pools.get(server.pool) else { return Ok(()) };
        let State::LoggingIn(login) = &mut server.state else { return Ok(()) };
        if login.authenticated {
            return Err(Broken("authentication request after AuthenticationOk".to_owned()));
        }
        let secret = own_secret(pool, &self.settings);
        match request {
            Authentication::Ok => {
                if login.scram.is_some() && !login.verified {
                    return Err(Broken("server skipped its part of the SCRAM exchange".to_owned()));
                }
                login.authenticated = true;
            }
            Authentication::CleartextPassword => {
                let Some(Secret::Plain(password)) = secret else { return Err(wrong_password_type()) };
                let text = password.as_str().as_bytes();
                turn.actions.send_new(conn, |out| Password { password: text }.encode(out));
            }
            Authentication::Md5Password { salt } => {
                let hash = match secret {
                    Some(Secret::Plain(password)) => Md5Hash::of(password.as_str(), &pool.key.user),
                    Some(Secret::Md5(hash)) => hash.clone(),
                    _ => return Err(wrong_password_type()),
                };
                let text = auth::md5::response(&hash, salt);
                turn.actions.send_new(conn, |out| Password { password: text.as_bytes() }.encode(out));
            }
            Authentication::Sasl { mechanisms } => {
                if !mechanisms.offers(auth::scram::MECHANISM.as_bytes()) || login.scram.is_some() {
                    return Err(Broken("server offers no SASL mechanism we know".to_owned()));
                }
                let (exchange, first) = ClientExchange::start(&nonce);
                login.scram = Some(exchange);
                let initial = SaslInitial { mechanism: auth::scram::MECHANISM.as_bytes(), response: Some(&first) };
                turn.actions.send_new(conn, |out| initial.encode(out));
            }
            Authentication::SaslContinue(data) => return self.challenged(turn, conn, data),
            Authentication::SaslFinal(data) => {
                let scram = login.scram.as_mut().ok_or_else(|| Broken("SASL message out of order".to_owned()))?;
                scram.verify(data).map_err(|error| Broken(error.to_string()))?;
                login.verified = true;
            }
            Authentication::Other(method) => {
                return Err(Broken(format!("server asks for an unknown authentication method: {method}")));
            }
        }
        Ok(())
    }

    fn challenged(&mut self, turn: &mut Turn<'_>, conn: ConnId, data: &[u8]) -> Result<(), Broken> {
        let Some(server) = self.servers.get_mut(conn) else { return Ok(()) };
        let Some(pool) = self.pools.get(server.pool) else { return Ok(()) };
        let State::LoggingIn(login) = &mut server.state else { return Ok(()) };
        let scram = login.scram.as_mut().ok_or_else(|| Broken("SASL message out of order".to_owned()))?;
        let challenge = scram.challenge(data).map_err(|error| Broken(error.to_string()))?;
        let cached = pool.keys.as_ref().filter(|(known, _)| *known == challenge).map(|(_, keys)| keys);
        let keys = match (cached, own_secret(pool, &self.settings)) {
            (Some(keys), _) => Some(keys.clone()),
            (None, Some(Secret::Plain(_))) => None,
            (None, _) => Some(pool.client_keys.clone().ok_or_else(wrong_password_type)?),
        };
        if let Some(keys) = keys {
            return respond(turn, conn, scram, &keys);
        }
        let Some(Secret::Plain(password)) = own_secret(pool, &self.settings) else { return Ok(()) };
        let job = Job::DeriveKeys {
            password: password.clone(),
            salt: challenge.salt.clone(),
            iterations: challenge.iterations,
        };
        login.computing = Some(challenge);
        turn.actions.push(Action::Compute { conn, job });
        Ok(())
    }

    pub(super) fn login_computed(&mut self, turn: &mut Turn<'_>, conn: ConnId, done: Done) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        let (State::LoggingIn(login), Done::Keys(keys)) = (&mut server.state, done) else { return };
        let (Some(challenge), Some(scram)) = (login.computing.take(), login.scram.as_mut()) else { return };
        let end = respond(turn, conn, scram, &keys);
        pool.keys = Some((challenge, *keys));
        if let Err(Broken(why)) = end {
            self.login_failed(turn, conn, &why);
        }
    }

    /// ReadyForQuery: the server is ours to use.
    fn logged_in(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        let State::LoggingIn(login) = &mut server.state else { return };
        let reported = std::mem::take(&mut login.reported);
        let mut parameters = self.caches.tracked.empty();
        for (name, value) in &reported {
            let known = self.caches.tracked.index(name).and_then(|index| parameters.with(index, value));
            parameters = known.unwrap_or(parameters);
        }
        let parameters = self.caches.interned.intern(parameters);
        server.parameters = Arc::clone(&parameters);
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        pool.base = Some(Arc::new(Base::new(reported, parameters, &self.caches.tracked)));
        let setup = pool.database.connect_query.clone();
        match setup {
            Some(query) => self.start_chore(turn, conn, Chore::Setup, query.as_bytes()),
            None => self.server_ready(turn, conn),
        }
    }

    /// A new server may be used.
    pub(super) fn server_ready(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(id) = self.servers.get(conn).map(|server| server.pool) else { return };
        let Some(pool) = self.pool_mut(id) else { return };
        // Only now: a connect_query that fails is a failed login too.
        (pool.failures, pool.failed_at, pool.retry_at) = (0, Time::ZERO, Time::ZERO);
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
                pool.spare_after = turn.now + pause;
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
        let (id, began) = (server.pool, server.connected_at);
        let failure = Failure {
            pool: id,
            server: server.name,
            address: server.address.clone(),
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
        if pool.failures == 0 || began >= pool.failed_at {
            pool.failures += 1;
            pool.failed_at = turn.now;
        }
        let pause = RETRY_FIRST.saturating_mul(1 << (pool.failures - 1).min(16)).min(longest);
        // Up to a quarter sooner, so that pools whose PostgreSQL was away do not all come back at one moment.
        pool.retry_at = turn.now + (pause - pause / 4 * jitter / (1 << 16));
        if why == WRONG_PASSWORD_TYPE {
            self.refuse_waiting(turn, id, sqlstate::INVALID_AUTHORIZATION, why);
        }
    }

    /// Everybody who waits for this pool is told why there will be no server.
    fn refuse_waiting(&mut self, turn: &mut Turn<'_>, id: PoolId, code: SqlState, words: &str) {
        let Some(pool) = self.pool(id) else { return };
        let mut waiting: Vec<ConnId> = pool.queue.waiters().map(|waiter| waiter.session).collect();
        waiting.extend(pool.welcoming.iter().map(|(conn, _)| *conn));
        for conn in waiting {
            self.refuse_session(turn, conn, code, words);
        }
    }
}

/// What this pool logs in at PostgreSQL with.
fn own_secret<'a>(pool: &'a Pool, settings: &'a machine::Settings) -> Option<&'a Secret> {
    let database: &Database = &pool.database;
    database.password.as_ref().or_else(|| settings.secrets.get(&*pool.key.user))
}

fn respond(turn: &mut Turn<'_>, conn: ConnId, scram: &mut ClientExchange, keys: &Keys) -> Result<(), Broken> {
    let last = scram.respond(keys).map_err(|error| Broken(error.to_string()))?;
    turn.actions.send_new(conn, |out| SaslResponse { response: &last }.encode(out));
    Ok(())
}

const WRONG_PASSWORD_TYPE: &str = "wrong password type";

fn wrong_password_type() -> Broken {
    Broken(WRONG_PASSWORD_TYPE.to_owned())
}

/// Errors that trying again does not cure: credentials, no such database, no right to connect.
fn is_final(code: SqlState) -> bool {
    &code.class() == b"28" || [sqlstate::INVALID_CATALOG_NAME, SqlState(*b"42501")].contains(&code)
}
