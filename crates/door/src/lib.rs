//! The door handles clients until they have logged in, so that slow and hostile clients do not delay others.
//!
//! ```text
//!  accepted ─► Announcing, if it is a proxy: for whom it speaks
//!        └───► Greeting ─► LookingUp ─► Proving (password, SCRAM) ─► Applying ─► posted to its home worker
//!                 │           └ auth_query, for users not in auth_file  │    └ asks the coordinator for a home
//!                 │                                     asks others who it is: ldap
//!                 ├─ SSLRequest: 'S' ─► Securing ─► Greeting, or 'N'; GSSENCRequest: 'N'
//!                 └ CancelRequest: to the worker or the other process that its key names, and closed when it has been carried out
//! ```
//!
//! A client whose login fails gets one error, with PostgreSQL's or PgBouncer's text, and is closed. For an unknown user
//! the exchange is the same as for a wrong password.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-START-UP

mod cancels;
mod encryption;
mod events;
mod inbox;
mod kinds;
mod lookup;
mod method;
mod outside;
mod outward;
mod peers;
mod penalties;
mod posts;
mod proof;
mod proxies;
pub mod refused;
mod secrets;
mod startup;
mod stopping;
mod strangers;
mod turns;
mod weight;

pub use method::SystemUsers;
use std::collections::BTreeMap;
use std::sync::Arc;

use auth::{Keys, MockSeed, Verifier};
use cancels::{Asker, CancelNews};
use connections::flow::Flow;
use encryption::Encryption;
use lookup::Turn;
use machine::action::{Action, Actions, Placed};
use machine::arrival::ConsoleRights;
use machine::mail::{Applicant, Application, Mail, Refusal, ToCoordinator, ToDoor, ToWorker};
use machine::observe::{About, Fact, Level, Peer, Topic};
use machine::peering::PeerPool;
use machine::pids::PidKey;
use machine::refused_logins::RefusedLogins;
use machine::upgrade::DoorTurn;
use machine::{Proved, Settings, Suspension};
use method::Method;
use outward::Outward;
use penalties::{Failure, Penalties};
use posts::depart;
use proof::Proof;
use refused::Refused;
use secrets::Source;
use session_state::parameters::Tracked;
use startup::Wish;
use stopping::Stopping;
use strangers::Strangers;
use turns::{LoginTurn, Turns, Use};
use units::deadline::{Armed, Deadlines, Owner};
use units::random::Random;
use units::table::Table;
use units::{ConnId, DoorId, Kind, PoolKey, Serial, Time, limits};
use weight::{Weight, Weights};
use wire::backend::ErrorResponse;
use wire::frontend::Startup;
use wire::sqlstate;

/// The state of a login.
#[derive(Debug)]
enum Phase {
    /// A proxy, which has to say first whom it speaks for.
    Announcing,
    /// Startup packets, encryption requests.
    Greeting,
    /// When its turn comes, what it has sent is read, or what it has said of itself is gone on with.
    Queued,
    /// A TLS handshake is under way.
    Securing,
    /// Its user's secret is looked up.
    LookingUp { since: Time },
    /// The client is authenticating.
    Proving(Proof),
    /// The coordinator chooses a worker for a client of this pool, whatever the settings say of its database meanwhile.
    Applying { key: PoolKey, proved: Arc<Proved> },
    /// It has brought a cancel request, which is being carried out.
    Cancelling,
    /// Its password was wrong; it is told so later.
    Delayed { refused: Box<Refused>, until: Time },
    /// The error was sent; closed at the end of the round.
    Leaving,
}

/// A client that has not logged in yet.
#[derive(Debug)]
struct Login {
    /// Its id in the log.
    name: ConnId,
    phase: Phase,
    turn: LoginTurn,
    peer: Peer,
    since: Time,
    inbox: Vec<u8>,
    flow: Flow,
    wish: Option<Box<Wish>>,
    keys: Option<Keys>,
    /// How it has to prove who it is; chosen when it has said who that is.
    method: Method,
    source: Source,
    encryption: Encryption,
    /// Bytes that its TLS takes in the engine.
    tls_weight: usize,
    /// Why authentication failed: for the log, not for the client.
    failure: Option<Failure>,
    /// The memory that it takes here, as last computed.
    weight: Weight,
    armed: Armed,
}

impl Login {
    fn new(name: ConnId, peer: Peer, since: Time) -> Login {
        Login {
            name,
            phase: Phase::Greeting,
            turn: LoginTurn::default(),
            peer,
            since,
            inbox: Vec::new(),
            flow: Flow::default(),
            wish: None,
            keys: None,
            method: Method::Scram,
            source: Source::AuthFile,
            encryption: Encryption::default(),
            tls_weight: 0,
            failure: None,
            weight: Weight::default(),
            armed: Armed::default(),
        }
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
    /// Whoever takes clients in tells it the names that it needs.
    pub system_users: SystemUsers,
    logins: Table<Login>,
    turns: Turns,
    weights: Weights,
    deadlines: Deadlines,
    /// Verifiers made from secrets that are stored in the clear.
    verifiers: BTreeMap<String, Verifier>,
    outward: Outward,
    penalties: Penalties,
    leaving: Vec<ConnId>,
    stopping: Stopping,
    /// Since this door was made.
    pub refused_logins: RefusedLogins,
}

/// Clients may have keys of another process, whose place this one takes.
pub fn beside_predecessor(door: &mut Door) {
    door.outward.cancels.begin_beside_predecessor();
}

/// Sets the secret of the process, which all its machines have: the process ids of clients are made with it.
pub fn set_secret(door: &mut Door, secret: &[u8; 32]) {
    door.outward.cancels.pid_key = PidKey::of_secret(secret);
}

impl Door {
    /// `seed` must be unpredictable: nonces and salts are drawn from it.
    #[must_use]
    pub fn new(id: DoorId, settings: Arc<Settings>, seed: [u8; 32]) -> Door {
        let mut random = Random::new(seed);
        let strangers = Strangers::new(MockSeed::new(&random.bytes()), &settings);
        let mut system_users = SystemUsers::default();
        system_users.configure(&settings);
        let outward = Outward::new(id, &settings, &mut random);
        let turns = Turns::new(settings.global.login.max_login_concurrency);
        Door {
            id,
            tracked: Tracked::new(&settings.global.startup.track_extra_parameters),
            settings,
            random,
            strangers,
            system_users,
            logins: Table::new(Kind::Login, u16::from(id.0)),
            turns,
            weights: Weights::new(limits::LOGIN_BYTES_MAX),
            deadlines: Deadlines::default(),
            verifiers: BTreeMap::new(),
            outward,
            penalties: Penalties::default(),
            leaving: Vec::new(),
            stopping: Stopping::default(),
            refused_logins: RefusedLogins::default(),
        }
    }

    /// A client has connected. `None`: too many are logging in already; the caller sends an error and closes it.
    pub fn accept(&mut self, now: Time, peer: Peer) -> Option<ConnId> {
        if self.logins.len() >= limits::LOGINS_MAX {
            self.refused_logins.count(sqlstate::TOO_MANY_CONNECTIONS);
            return None;
        }
        let phase = proxies::first_phase(&self.settings, peer);
        let conn = self.take_in(|conn| Login { phase, ..Login::new(conn.name_of_login(), peer, now) });
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
        // A client that leaves is not read any more. What one sends that waits for its refusal is thrown away.
        let Some(login) = self.logins.get_mut(conn).filter(|login| !login.is_unread()) else { return };
        if inbox::put(login, bytes).is_err() {
            let refused = Refused::OutOfMemory;
            self.withdraw(conn, actions);
            return self.refuse(now, conn, &refused, actions);
        }
        self.progress(now, conn, actions);
        self.weigh(now, conn, actions);
    }

    /// Continues a login as far as the bytes at hand allow.
    fn progress(&mut self, now: Time, conn: ConnId, actions: &mut Actions) {
        loop {
            // The last packet may have been a cancel, which ends the connection.
            let Some(login) = self.logins.get_mut(conn) else { return };
            let step = match &mut login.phase {
                Phase::Announcing => proxies::hear(login),
                Phase::Greeting => self.greet(now, conn, actions),
                Phase::Proving(proof) if proof.is_waiting() => self.prove(now, conn, actions),
                Phase::Queued | Phase::Securing | Phase::LookingUp { .. } => return,
                Phase::Proving(_) | Phase::Applying { .. } | Phase::Cancelling => return,
                Phase::Delayed { .. } | Phase::Leaving => return,
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
        if login.begins_directly(&login.inbox) {
            if encryption::is_offered(&self.settings, login.peer) {
                if !self.turns.delay(now, conn, login) {
                    login.secure_directly(conn, actions);
                }
            } else {
                // It understands nothing but TLS.
                self.tell(conn, Level::Log, Topic::Disconnections, "closing because: TLS is not enabled", actions);
                self.close(conn, false, actions);
            }
            return Ok(false);
        }
        let inbox = std::mem::take(&mut login.inbox);
        proxies::check_is_none(&inbox)?;
        let Some((packet, used)) = startup::packet(&inbox, &mut login.phase)? else {
            login.inbox = inbox;
            return Ok(false);
        };
        login.inbox = inbox[used..].to_vec();
        let peer = login.peer;
        let offers = encryption::is_offered(&self.settings, peer);
        match packet {
            Startup::Ssl if offers && self.turns.delay(now, conn, &mut self.logins[conn]) => {
                self.logins[conn].inbox = inbox;
                Ok(false)
            }
            Startup::Ssl | Startup::GssEnc => {
                let login = &mut self.logins[conn];
                let agreed = login.answer(matches!(packet, Startup::Ssl) && offers, conn, actions)?;
                Ok(!agreed)
            }
            Startup::Cancel(request) => {
                let login = &mut self.logins[conn];
                (login.phase, login.inbox) = (Phase::Cancelling, Vec::new());
                self.turns.end(login);
                self.look_out(now, actions, |outward, turn| {
                    let Outward { cancels, peers, .. } = outward;
                    cancels::begin((cancels, peers), turn, Asker::Client(conn), request.pid, request.secret);
                });
                Ok(false)
            }
            Startup::Start(message) => {
                let owner_uid = self.system_users.owner;
                let wish = Wish::read(&message, peer, owner_uid, &self.tracked, &self.settings);
                startup::negotiate(conn, &message, actions);
                let wish = wish?;
                self.logins[conn].check_encryption(&self.settings)?;
                let login = &mut self.logins[conn];
                if !wish.trusted && self.turns.delay(now, conn, login) {
                    // What it says is kept without its packet, which may be much longer.
                    login.wish = Some(Box::new(wish));
                    return Ok(false);
                }
                self.begin_proof(now, conn, wish, actions)?;
                Ok(true)
            }
        }
    }

    /// Goes on with the logins whose turn it is.
    fn take_turns(&mut self, now: Time, actions: &mut Actions) {
        let Door { turns, logins, .. } = self;
        let mut begun = Vec::new();
        let use_of = |conn| logins.get(conn).map_or(Use::Nothing, Login::use_of_turn);
        turns.next(now, use_of, |conn, turn| begun.push((conn, turn)));
        for (conn, turn) in begun {
            let login = &mut self.logins[conn];
            login.turn = turn;
            if !matches!(login.phase, Phase::Queued) {
                continue;
            }
            login.phase = Phase::Greeting;
            let begun = match login.wish.take() {
                Some(wish) => self.begin_proof(now, conn, *wish, actions),
                None => Ok(()),
            };
            self.resume(now, conn, begun, actions);
        }
    }

    /// The client is authenticated: requests a worker for it.
    fn apply(&mut self, conn: ConnId, actions: &mut Actions) -> Result<(), Refused> {
        let applicant = Applicant::Login { door: self.id, login: conn };
        let login = &mut self.logins[conn];
        self.turns.end(login);
        let wish = login.wish.as_mut().expect("it was asked for a proof of what it has said");
        let key = match wish.console {
            Some(_) => PoolKey { database: Arc::clone(&wish.database), user: Arc::clone(&wish.user) },
            None => wish.key(&self.settings)?,
        };
        wish.check_parameters(&self.settings)?;
        self.stopping.admit(wish, login.since)?;
        let (keys, source) = (login.keys.take(), std::mem::take(&mut login.source));
        let proved = Arc::new(Proved { keys, secret: source.into_password() });
        login.phase = Phase::Applying { key: key.clone(), proved: Arc::clone(&proved) };
        // With a forced user, the client's password is not the server's.
        let is_own = key.user == wish.user;
        let application = Application {
            applicant,
            key,
            user: Arc::clone(&wish.user),
            console: wish.console.is_some(),
            exempt: wish.console == Some(ConsoleRights::Admin),
            peer: login.peer,
            class: wish.class(&self.settings),
            proved: if is_own { proved } else { Arc::default() },
        };
        actions.post_to_coordinator(ToCoordinator::Apply(Box::new(application)));
        Ok(())
    }

    fn placed(&mut self, conn: ConnId, placed: Placed, serial: Serial, actions: &mut Actions) {
        let login = self.take_out(conn);
        // Its client has left since it applied.
        let Some((login, wish)) = login.and_then(|mut login| login.wish.take().map(|wish| (login, wish))) else {
            return;
        };
        let worker = placed.worker;
        let draws = (self.outward.cancels.pid_key, &mut self.random);
        let arrival = posts::arrival(login, *wish, (placed, serial), &self.settings, draws);
        let mail = Mail::ToWorker(worker, ToWorker::Arrive(Box::new(arrival)));
        actions.push(Action::Post { mail, carrying: Some(conn) });
    }

    fn not_placed(&mut self, now: Time, conn: ConnId, why: Refusal, actions: &mut Actions) {
        let Refusal::LoginRate { limit, retry_ms } = why else {
            return self.refuse(now, conn, &Refused::from(why), actions);
        };
        refused::too_often(limit, retry_ms, |last| self.refuse_in_words(now, conn, last, actions));
    }

    fn refuse(&mut self, now: Time, conn: ConnId, refused: &Refused, actions: &mut Actions) {
        // It may have left.
        if let Some(login) = self.logins.get_mut(conn) {
            self.turns.end(login);
        }
        let failure = self.logins.get_mut(conn).and_then(|login| login.failure.take());
        if let Some(Failure { why, is_guess }) = failure {
            self.tell(conn, Level::Log, Topic::PoolerErrors, &format!("login refused: {why}"), actions);
            let Door { settings, logins, penalties, deadlines, .. } = self;
            if is_guess && penalties.delay(now, settings, (conn, &mut logins[conn]), refused, deadlines) {
                if let Some(due) = self.penalties.one_too_many()
                    && let Some(refused) = self.logins.get(due).and_then(|login| login.phase.delayed())
                {
                    self.refuse(now, due, &refused, actions);
                }
                return;
            }
        }
        let message = &refused.to_string();
        let last = ErrorResponse { severity: "FATAL", code: refused.code(), message, detail: None, hint: None };
        self.refuse_in_words(now, conn, &last, actions);
    }

    fn refuse_in_words(&mut self, now: Time, conn: ConnId, last: &ErrorResponse<'_>, actions: &mut Actions) {
        let text = last.message;
        // The coordinator's answer may come when its client has left.
        let Some(login) = self.logins.get(conn) else { return };
        self.refused_logins.count(last.code);
        let age = now.since(login.since).as_secs();
        self.tell(conn, Level::Log, Topic::Disconnections, &format!("closing because: {text} (age={age}s)"), actions);
        self.tell(conn, Level::Warning, Topic::PoolerErrors, &format!("pooler error: {text}"), actions);
        if matches!(login.phase, Phase::Leaving) {
            return self.close(conn, false, actions);
        }
        actions.send_new(conn, |out| last.encode(out));
        // Whether the socket took the bytes is known only after this step.
        if let Some(login) = self.logins.get_mut(conn) {
            self.penalties.over(conn, &login.phase);
            login.phase = Phase::Leaving;
            login.inbox = Vec::new();
            login.wish = None;
            login.source = Source::AuthFile;
            self.weights.change(&mut login.weight, Weight::NOTHING);
            self.leaving.push(conn);
        }
    }

    /// A login ends before the coordinator or a lookup has answered it: withdraws it from the queue there.
    fn withdraw(&mut self, conn: ConnId, actions: &mut Actions) {
        match self.logins.get(conn).map(|login| &login.phase) {
            Some(Phase::Applying { .. }) => {
                let applicant = Applicant::Login { door: self.id, login: conn };
                actions.post_to_coordinator(ToCoordinator::Withdrawn { applicant });
            }
            Some(Phase::LookingUp { .. }) => self.outward.lookups.leave(conn),
            _ => {}
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
            application: login.wish.as_ref().and_then(|wish| wish.application()),
        };
        actions.tell(Fact::new(level, topic, about, text.to_owned()));
    }

    fn deadline_reached(&mut self, now: Time, actions: &mut Actions) {
        while let Some((at, owner)) = self.deadlines.pop_due(now) {
            let Owner::Conn(conn) = owner else { unreachable!("a door has no pools") };
            let login = self.logins.get_mut(conn).filter(|login| !matches!(login.phase, Phase::Leaving));
            let Some(login) = login else { continue };
            if !login.armed.spend(at) {
                continue;
            }
            let Some(refused) = proof::overdue(login, now, &self.settings) else { continue };
            self.withdraw(conn, actions);
            self.refuse(now, conn, &refused, actions);
        }
    }

    fn delivered(&mut self, now: Time, mail: ToDoor, actions: &mut Actions) {
        match mail {
            ToDoor::Placed { login, pool, homes, worker, life, user, serial } => {
                if self.logins.get(login).is_some_and(|login| matches!(login.phase, Phase::Applying { .. })) {
                    self.placed(login, Placed { worker, pool, homes, life }, serial, actions);
                } else {
                    // The client left meanwhile: its place at the worker is not used.
                    depart(pool, worker, life, user, actions);
                }
            }
            ToDoor::NotPlaced { login, why } => self.not_placed(now, login, why, actions),
            ToDoor::Configure(settings) => {
                self.tracked = Tracked::new(&settings.global.startup.track_extra_parameters);
                let old = std::mem::replace(&mut self.settings, settings);
                let secrets = &self.settings.secrets;
                self.verifiers
                    .retain(|user, _| secrets.get(user).is_some_and(|now| old.secrets.get(user) == Some(now)));
                self.look_out(now, actions, |outward, turn| outward.configure(turn, &old.global.tls));
                self.strangers.configure(&self.settings, self.outward.lookups.kinds());
                self.system_users.configure(&self.settings);
                self.turns.configure(self.settings.global.login.max_login_concurrency);
                let is_over = self.settings.orders.suspension == Some(Suspension::Overdue);
                for conn in self.logins.ids().into_iter().filter(|_| is_over) {
                    if !matches!(self.logins[conn].phase, Phase::Leaving | Phase::Cancelling) {
                        self.withdraw(conn, actions);
                        let refused = Refused::SuspendTimeout;
                        self.refuse(now, conn, &refused, actions);
                    }
                }
            }
            ToDoor::CancelOver { number } => {
                self.look_out(now, actions, |outward, _| outward.cancels.carried_out(number));
            }
            ToDoor::Upstream(observed) => {
                self.look_out(now, actions, |outward, turn| outward.lookups.observed(turn, &observed));
            }
            ToDoor::Primary(decision) => {
                self.look_out(now, actions, |outward, turn| outward.lookups.decided(turn, &decision));
            }
            ToDoor::Upgrade(turn) => {
                self.look_out(now, actions, |outward, step| match turn {
                    DoorTurn::Cancel { pid, secret, door, number } => {
                        let asker = Asker::Successor { door, number };
                        cancels::begin_here(&mut outward.cancels, step, asker, pid, secret);
                    }
                    DoorTurn::CancelOver { number } => outward.cancels.carried_out_by_predecessor(number),
                    DoorTurn::PredecessorGone => outward.cancels.predecessor_gone(),
                });
            }
            ToDoor::Stop(stop) => self.stopping.begin(now, stop, &self.logins, actions),
        }
    }

    /// Has the connections to others take a step, and goes on with the logins whose lookups have their outcomes.
    fn look_out(&mut self, now: Time, actions: &mut Actions, step: impl FnOnce(&mut Outward, &mut Turn<'_>)) {
        let Door { settings, random, outward, .. } = self;
        step(outward, &mut Turn { now, settings, random, actions });
        self.strangers.learn(self.outward.lookups.kinds());
        self.outward.note_passed_on();
        while let Some((asker, news)) = self.outward.cancels.next_news() {
            match (asker, news) {
                (Asker::Client(conn), CancelNews::Strays(why)) => {
                    let text = format!("closing because: {why}");
                    self.tell(conn, Level::Log, Topic::Disconnections, &text, actions);
                }
                // It may have left.
                (Asker::Client(conn), CancelNews::Over) => self.close(conn, false, actions),
                (Asker::Successor { door, number }, _) => cancels::tell_successor(door, number, actions),
            }
        }
        while let Some((conn, outcome)) = self.outward.lookups.next_outcome() {
            let login = &mut self.logins[conn];
            let since = if let Phase::LookingUp { since } = login.phase { since } else { now };
            let begun = match secrets::settle(login, outcome) {
                Ok(true) => self.ask_for_proof(conn, actions),
                Ok(false) => self.begin_lookup(now, since, conn, actions),
                Err(refused) => Err(refused),
            };
            self.resume(now, conn, begun, actions);
        }
    }

    /// The cancel requests on their way to other processes.
    #[must_use]
    pub fn peer_pools(&self) -> Vec<PeerPool> {
        self.outward.peers.shown()
    }

    /// What a login has waited for has come, with this result.
    fn resume(&mut self, now: Time, conn: ConnId, result: Result<(), Refused>, actions: &mut Actions) {
        match result {
            Ok(()) => self.progress(now, conn, actions),
            Err(refused) => self.refuse(now, conn, &refused, actions),
        }
        self.weigh(now, conn, actions);
    }
}
