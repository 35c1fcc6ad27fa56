//! The door handles clients until they have logged in, so that slow and hostile clients do not delay others.
//!
//! ```text
//!  accepted ─► Greeting ─► Proving (password, SCRAM) ─► Applying ─► posted to its home worker
//!                 │  SSLRequest, GSSENCRequest: 'N'         └ asks the coordinator for a home
//!                 └ CancelRequest: to the worker its key names, then closed
//! ```
//!
//! A client whose login fails gets one error, with PostgreSQL's or PgBouncer's text, and is closed. For an unknown user
//! the exchange is the same as for a wrong password.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-START-UP

mod proof;
mod startup;
mod strangers;
mod weight;

use std::collections::BTreeMap;
use std::sync::Arc;

use auth::{Keys, MockSeed, Verifier};
use connections::flow::Flow;
use machine::action::{Action, Actions};
use machine::arrival::{Arrival, ConsoleRights, Identity};
use machine::event::Event;
use machine::mail::{Application, Lost, Mail, Refusal, Stop, ToCoordinator, ToDoor, ToWorker};
use machine::observe::{About, Fact, Level, Peer, Topic};
use machine::work::Done;
use machine::{Settings, pids};
use proof::Proof;
use queueing::board::Board;
use queueing::limiting::Exceeded;
use session_state::parameters::Tracked;
use startup::Wish;
use strangers::Strangers;
use units::deadline::{Armed, Deadlines, Owner};
use units::random::Random;
use units::table::Table;
use units::{ConnId, DoorId, Kind, Life, PoolId, PoolKey, Serial, Time, WorkerId, limits};
use wire::backend::ErrorResponse;
use wire::frontend::Startup;
use wire::{SqlState, frontend, sqlstate};

/// The state of a login.
#[derive(Debug)]
enum Phase {
    /// Startup packets, encryption requests.
    Greeting,
    /// The client is authenticating.
    Proving(Proof),
    /// The coordinator chooses a worker for a client of this pool, whatever the settings say of its database meanwhile.
    Applying(PoolKey),
    /// The error was sent; closed at the end of the round.
    Leaving,
}

/// A client that has not logged in yet.
#[derive(Debug)]
struct Login {
    /// Its id in the log.
    name: ConnId,
    phase: Phase,
    peer: Peer,
    since: Time,
    inbox: Vec<u8>,
    flow: Flow,
    wish: Option<Box<Wish>>,
    keys: Option<Keys>,
    /// Why authentication failed: for the log, not for the client.
    failure: Option<&'static str>,
    /// The memory that it takes here, as last computed.
    weight: usize,
    armed: Armed,
}

impl Login {
    fn new(name: ConnId, peer: Peer, since: Time) -> Login {
        Login {
            name,
            phase: Phase::Greeting,
            peer,
            since,
            inbox: Vec::new(),
            flow: Flow::default(),
            wish: None,
            keys: None,
            failure: None,
            weight: weight::EMPTY,
            armed: Armed::default(),
        }
    }
}

/// Why a login ends, in words for the client and the log.
#[derive(Debug)]
struct Refused(SqlState, String);

impl From<wire::Error> for Refused {
    fn from(error: wire::Error) -> Refused {
        Refused(error.sqlstate(), error.to_string())
    }
}

/// One door.
#[derive(Debug)]
pub struct Door {
    id: DoorId,
    settings: Arc<Settings>,
    tracked: Tracked,
    random: Random,
    strangers: Strangers,
    /// Unix clients of this uid, under which the process runs, are the console's admin without a password.
    owner_uid: Option<u32>,
    logins: Table<Login>,
    /// Sum of the logins' weights.
    weight: usize,
    weight_max: usize,
    deadlines: Deadlines,
    /// Verifiers made from secrets that are stored in the clear.
    verifiers: BTreeMap<String, Verifier>,
    leaving: Vec<ConnId>,
    stop: Option<Stop>,
}

impl Door {
    /// `seed` must be unpredictable: nonces and salts are drawn from it.
    #[must_use]
    pub fn new(id: DoorId, settings: Arc<Settings>, seed: [u8; 32]) -> Door {
        let mut random = Random::new(seed);
        let strangers = Strangers::new(MockSeed::new(&random.bytes()), &settings);
        Door {
            id,
            tracked: Tracked::new(&settings.global.startup.track_extra_parameters),
            settings,
            random,
            strangers,
            owner_uid: None,
            logins: Table::new(Kind::Login, u16::from(id.0)),
            weight: 0,
            weight_max: limits::LOGIN_BYTES_MAX,
            deadlines: Deadlines::default(),
            verifiers: BTreeMap::new(),
            leaving: Vec::new(),
            stop: None,
        }
    }

    /// Lets user `pgbouncer` over a Unix socket from this uid be the console's admin.
    pub fn set_owner_uid(&mut self, uid: u32) {
        self.owner_uid = Some(uid);
    }

    /// A client has connected. `None`: too many are logging in already; the caller sends an error and closes it.
    pub fn accept(&mut self, now: Time, peer: Peer) -> Option<ConnId> {
        if self.logins.len() >= limits::LOGINS_MAX {
            return None;
        }
        let conn = self.take_in(|conn| Login::new(conn.name_of_login(), peer, now));
        self.arm(conn);
        Some(conn)
    }

    /// Clients that are logging in.
    #[must_use]
    pub fn logins(&self) -> usize {
        self.logins.len()
    }

    fn arm(&mut self, conn: ConnId) {
        // Not set: a login has no deadline.
        let Some(timeout) = self.settings.global.waiting.client_login_timeout else { return };
        if let Some(login) = self.logins.get_mut(conn) {
            self.deadlines.arm(Owner::Conn(conn), &mut login.armed, login.since + timeout);
        }
    }

    fn received(&mut self, now: Time, conn: ConnId, bytes: &[u8], actions: &mut Actions) {
        // A client that leaves is not read any more.
        let Some(login) = self.logins.get_mut(conn).filter(|login| !matches!(login.phase, Phase::Leaving)) else {
            return;
        };
        if login.inbox.try_reserve_exact(bytes.len()).is_err() {
            let refused = Refused(sqlstate::OUT_OF_MEMORY, "out of memory".to_owned());
            self.withdraw(conn, actions);
            return self.refuse(now, conn, &refused, actions);
        }
        login.inbox.extend_from_slice(bytes);
        self.progress(now, conn, actions);
        self.weigh(now, conn, actions);
    }

    /// Continues a login as far as the bytes at hand allow.
    fn progress(&mut self, now: Time, conn: ConnId, actions: &mut Actions) {
        loop {
            // The last packet may have been a cancel, which ends the connection.
            let Some(login) = self.logins.get_mut(conn) else { return };
            let step = match &mut login.phase {
                Phase::Greeting => self.greet(now, conn, actions),
                Phase::Proving(proof) if proof.is_waiting() => self.prove(conn, actions),
                Phase::Proving(_) | Phase::Applying(_) | Phase::Leaving => return,
            };
            match step {
                Ok(true) => {}
                Ok(false) => return,
                Err(refused) => return self.refuse(now, conn, &refused, actions),
            }
        }
    }

    /// Reads one startup packet. False: not all of it is there, or the login is over.
    fn greet(&mut self, now: Time, conn: ConnId, actions: &mut Actions) -> Result<bool, Refused> {
        let login = &mut self.logins[conn];
        let inbox = std::mem::take(&mut login.inbox);
        let Some((packet, used)) = frontend::parse_startup(&inbox)? else {
            login.inbox = inbox;
            return Ok(false);
        };
        login.inbox = inbox[used..].to_vec();
        match packet {
            Startup::Ssl | Startup::GssEnc => {
                if !login.inbox.is_empty() {
                    // Bytes sent before our answer would be read as if they had been encrypted (CVE-2021-23214).
                    let text = "received unencrypted data after SSL request".to_owned();
                    return Err(Refused(sqlstate::PROTOCOL_VIOLATION, text));
                }
                actions.send_new(conn, |out| out.push(b'N'));
                Ok(true)
            }
            Startup::Cancel(request) => {
                if let Ok(secret) = request.secret.try_into() {
                    self.forward_cancel(request.pid, i32::from_be_bytes(secret), actions);
                }
                self.close(conn, false, actions);
                Ok(false)
            }
            Startup::Start(message) => {
                let wish = Wish::read(&message, login.peer, self.owner_uid, &self.tracked, &self.settings);
                startup::negotiate(conn, &message, actions);
                let wish = wish?;
                self.begin_proof(now, conn, wish, actions)?;
                Ok(true)
            }
        }
    }

    fn forward_cancel(&self, pid: i32, secret: i32, actions: &mut Actions) {
        let workers = match pids::from_virtual_pid(pid) {
            Some((worker, _)) => worker..(worker + 1).min(self.settings.workers),
            // The process id may be a server's own, sent to a client on any worker.
            None if pids::may_be_real_pid(pid) => 0..self.settings.workers,
            None => 0..0,
        };
        for worker in workers {
            actions.post_to_worker(WorkerId(worker), ToWorker::Cancel { pid, secret });
        }
    }

    /// The client is authenticated: requests a worker for it.
    fn apply(&mut self, conn: ConnId, actions: &mut Actions) -> Result<(), Refused> {
        let login = &mut self.logins[conn];
        let wish = login.wish.as_mut().expect("it was asked for a proof of what it has said");
        let key = match wish.console {
            Some(_) => PoolKey { database: Arc::clone(&wish.database), user: Arc::clone(&wish.user) },
            None => wish.key(&self.settings)?,
        };
        wish.check_parameters(&self.settings)?;
        login.phase = Phase::Applying(key.clone());
        let application = Application {
            login: conn,
            door: self.id,
            key,
            user: Arc::clone(&wish.user),
            console: wish.console.is_some(),
            exempt: wish.console == Some(ConsoleRights::Admin),
            peer: login.peer,
            class: wish.class(&self.settings),
        };
        actions.post_to_coordinator(ToCoordinator::Apply(Box::new(application)));
        Ok(())
    }

    fn placed(
        &mut self,
        conn: ConnId,
        pool: PoolId,
        homes: u16,
        (worker, life): (WorkerId, Life),
        serial: Serial,
        actions: &mut Actions,
    ) {
        let login = self.take_out(conn);
        // Its client has left since it applied.
        let Some((login, wish)) = login.and_then(|mut login| login.wish.take().map(|wish| (login, wish))) else {
            return;
        };
        let Phase::Applying(key) = login.phase else { unreachable!("only a login that has applied is placed") };
        let Login { name, peer, since: connected_at, .. } = login;
        let identity = Identity { serial, name, database: wish.database, user: wish.user, peer, connected_at };
        let arrival = Arrival {
            identity: Arc::new(identity),
            pool,
            worker,
            life,
            key,
            homes,
            console: wish.console,
            parameters: wish.parameters,
            stable_backend_pid: wish.stable_backend_pid,
            deadline_ms: wish.deadline_ms,
            reports_limits: wish.reports_limits,
            keys: login.keys,
            leftover: login.inbox,
        };
        let mail = Mail::ToWorker(worker, ToWorker::Arrive(Box::new(arrival)));
        actions.push(Action::Post { mail, carrying: Some(conn) });
    }

    fn not_placed(&mut self, now: Time, conn: ConnId, why: Refusal, actions: &mut Actions) {
        let (code, text) = match why {
            Refusal::LoginRate { limit, retry_ms } => return self.refuse_for_now(now, conn, limit, retry_ms, actions),
            Refusal::MaxClientConn => (sqlstate::TOO_MANY_CONNECTIONS, "no more connections allowed (max_client_conn)"),
            Refusal::TooManyPools => {
                (sqlstate::TOO_MANY_CONNECTIONS, "too many different databases and users are in use")
            }
            Refusal::MaxDbClientConnections => {
                (sqlstate::TOO_MANY_CONNECTIONS, "client connections exceeded (max_db_client_connections)")
            }
            Refusal::MaxUserClientConnections => {
                (sqlstate::TOO_MANY_CONNECTIONS, "client connections exceeded (max_user_client_connections)")
            }
            Refusal::ShuttingDown => (sqlstate::CANNOT_CONNECT_NOW, "pooler is shutting down"),
        };
        self.refuse(now, conn, &Refused(code, text.to_owned()), actions);
    }

    /// Too many clients of its class are logging in.
    fn refuse_for_now(&mut self, now: Time, conn: ConnId, limit: u32, retry_ms: u32, actions: &mut Actions) {
        let words = Exceeded { limit, remaining: 0, retry_ms: u64::from(retry_ms) };
        let (detail, hint) = (words.detail(), words.hint());
        let last = ErrorResponse {
            severity: "FATAL",
            code: sqlstate::CONFIGURATION_LIMIT_EXCEEDED,
            message: "too many clients of your class log in at this moment",
            detail: Some(&detail),
            hint: Some(&hint),
        };
        self.refuse_in_words(now, conn, &last, actions);
    }

    fn refuse(&mut self, now: Time, conn: ConnId, refused: &Refused, actions: &mut Actions) {
        let Refused(code, text) = refused;
        let last = ErrorResponse { severity: "FATAL", code: *code, message: text, detail: None, hint: None };
        self.refuse_in_words(now, conn, &last, actions);
    }

    fn refuse_in_words(&mut self, now: Time, conn: ConnId, last: &ErrorResponse<'_>, actions: &mut Actions) {
        let text = last.message;
        // The coordinator's answer may come when its client has left.
        let Some(login) = self.logins.get(conn) else { return };
        let age = now.since(login.since).as_secs();
        if let Some(failure) = login.failure {
            self.tell(conn, Level::Log, Topic::PoolerErrors, &format!("login refused: {failure}"), actions);
        }
        self.tell(conn, Level::Log, Topic::Disconnections, &format!("closing because: {text} (age={age}s)"), actions);
        self.tell(conn, Level::Warning, Topic::PoolerErrors, &format!("pooler error: {text}"), actions);
        actions.send_new(conn, |out| last.encode(out));
        // Whether the socket took the bytes is known only after this step.
        if let Some(login) = self.logins.get_mut(conn) {
            login.phase = Phase::Leaving;
            login.inbox = Vec::new();
            login.wish = None;
            self.weight -= std::mem::take(&mut login.weight);
            self.leaving.push(conn);
        }
    }

    /// At the end of a round refused clients are closed. A socket that did not take these few bytes at once will not
    /// take them later.
    fn close_leaving(&mut self, actions: &mut Actions) {
        while let Some(conn) = self.leaving.pop() {
            self.close(conn, true, actions);
        }
    }

    /// A login ends before the coordinator has answered it: withdraws it from the queue there.
    fn withdraw(&self, conn: ConnId, actions: &mut Actions) {
        if self.logins.get(conn).is_some_and(|login| matches!(login.phase, Phase::Applying(_))) {
            actions.post_to_coordinator(ToCoordinator::Withdrawn { login: conn });
        }
    }

    fn close(&mut self, conn: ConnId, last_words: bool, actions: &mut Actions) {
        if self.take_out(conn).is_some() {
            actions.push(Action::Close { conn, last_words });
            // After an attack, its table is given back.
            self.logins.shrink_if_empty();
        }
    }

    fn tell(&self, conn: ConnId, level: Level, topic: Topic, text: &str, actions: &mut Actions) {
        if !actions.logs(level, topic) {
            return;
        }
        // After the handover to a worker, the worker reports its end.
        let Some(login) = self.logins.get(conn) else { return };
        let about = About::Client {
            conn,
            name: login.name,
            database: login.wish.as_ref().map(|wish| Arc::clone(&wish.database)),
            user: login.wish.as_ref().map(|wish| Arc::clone(&wish.user)),
            peer: login.peer,
        };
        actions.tell(Fact { level, topic, about, text: text.to_owned() });
    }

    fn deadline_reached(&mut self, now: Time, actions: &mut Actions) {
        while let Some((at, owner)) = self.deadlines.pop_due(now) {
            let Owner::Conn(conn) = owner else { unreachable!("a door has no pools") };
            let login = self.logins.get_mut(conn).filter(|login| !matches!(login.phase, Phase::Leaving));
            let live = login.is_some_and(|login| login.armed.spend(at));
            if live {
                let refused = Refused(sqlstate::PROTOCOL_VIOLATION, "client_login_timeout".to_owned());
                self.withdraw(conn, actions);
                self.refuse(now, conn, &refused, actions);
            }
        }
    }

    fn delivered(&mut self, now: Time, mail: ToDoor, actions: &mut Actions) {
        match mail {
            ToDoor::Placed { login, pool, homes, worker, life, user, serial } => {
                if self.logins.get(login).is_some_and(|login| matches!(login.phase, Phase::Applying(_))) {
                    self.placed(login, pool, homes, (worker, life), serial, actions);
                } else {
                    // The client left meanwhile: its place at the worker is not used.
                    depart(pool, worker, life, user, actions);
                }
            }
            ToDoor::NotPlaced { login, why } => self.not_placed(now, login, why, actions),
            ToDoor::Configure(settings) => {
                self.strangers.configure(&settings);
                self.tracked = Tracked::new(&settings.global.startup.track_extra_parameters);
                let old = std::mem::replace(&mut self.settings, settings);
                let secrets = &self.settings.secrets;
                self.verifiers
                    .retain(|user, _| secrets.get(user).is_some_and(|now| old.secrets.get(user) == Some(now)));
            }
            ToDoor::Stop(stop) => {
                self.stop = self.stop.max(Some(stop));
                actions.push(Action::Finished);
            }
        }
    }

    fn computed(&mut self, now: Time, conn: ConnId, done: Done, actions: &mut Actions) {
        match self.proof_computed(conn, done, actions) {
            Ok(()) => self.progress(now, conn, actions),
            Err(refused) => self.refuse(now, conn, &refused, actions),
        }
        self.weigh(now, conn, actions);
    }
}

/// Gives back a place at a worker.
fn depart(pool: PoolId, worker: WorkerId, life: Life, user: Arc<str>, actions: &mut Actions) {
    actions.post_to_coordinator(ToCoordinator::Departed { pool, worker, life, user });
}

impl machine::Machine for Door {
    fn step(&mut self, now: Time, _board: &Board, event: Event<'_>, actions: &mut Actions) {
        match event {
            Event::Received { conn, bytes } => self.received(now, conn, bytes, actions),
            Event::Hangup { conn, .. } => {
                self.tell(conn, Level::Debug, Topic::Disconnections, "client disconnect before login", actions);
                self.withdraw(conn, actions);
                self.close(conn, false, actions);
            }
            // The messages of a login are short; a client that does not read them is closed.
            Event::Blocked { conn } => {
                self.withdraw(conn, actions);
                self.close(conn, false, actions);
            }
            Event::Computed { conn, done } => self.computed(now, conn, done, actions),
            Event::Mail(Mail::ToDoor(_, mail)) => self.delivered(now, mail, actions),
            Event::Mail(other) => unreachable!("mail is delivered where it is addressed: {other:?}"),
            Event::Renewed { life, lost } => {
                self.logins.begin_life(life);
                if let Some(Lost::Home { pool, worker, life, user }) = lost.map(|lost| *lost) {
                    depart(pool, worker, life, user, actions);
                }
            }
            Event::Returned(mail) => unreachable!("a door posts nothing that may be returned: {mail:?}"),
            Event::DeadlineReached => self.deadline_reached(now, actions),
            Event::RoundEnded => {
                self.shed(now, actions);
                self.close_leaving(actions);
            }
            Event::Drained { .. } | Event::Opened { .. } | Event::OpenFailed { .. } => {}
        }
    }

    fn backlog(&self, conn: ConnId) -> &[u8] {
        self.logins.get(conn).map_or(&[], |login| login.flow.backlog())
    }

    fn keep(&mut self, conn: ConnId, bytes: &[u8]) {
        if let Some(login) = self.logins.get_mut(conn) {
            login.flow.keep(bytes, Vec::new);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadlines.next()
    }

    fn awaits_round_end(&self) -> bool {
        !self.leaving.is_empty() || self.weight > self.weight_max
    }

    fn recycle(&mut self, _buffer: Vec<u8>) {}
}
