//! Lookups against a model PostgreSQL of three hosts whose users change their passwords, which breaks, hangs, goes down, and fails over: nobody is
//! judged by a secret that was changed before the login came, unless the database could not be reached; each login gets one outcome, in
//! time; and no connection stands to a primary of before, or to a host of another system, once that is known.

use std::collections::BTreeMap;

use connections::databases::{Address, Host, TargetSessionAttrs};
use machine::primaries::Origin;
use machine::upstreams::{HostRole, HostState, Observed, Upstream};
use settings::SplitBrain;
use units::limits::LOOKUP_WAIT;
use wire::backend::{self, Authentication, BackendKeyData, Column, Status, oid};
use wire::frontend::{Startup, parse_startup, tag};
use wire::{HEADER_LEN, Header};

use super::*;

const USERS: [&str; 4] = ["ann", "bob", "cid", "nobody"];
const TTL: Duration = Duration::from_secs(20);
/// `failover_wait`
const PATIENCE: Duration = Duration::from_secs(6);
/// How long after trouble what was said earlier may be used: the wait for an answer, and the pause after a failure.
const TROUBLE: Duration = Duration::from_secs(6);

/// A user's secret from a moment on, and until when it is valid.
#[derive(Clone, Debug)]
struct Version {
    from: Time,
    password: Option<String>,
    valid_until: Option<Time>,
}

/// A connection, as the model PostgreSQL sees it.
#[derive(Debug, Default)]
struct Peer {
    port: u16,
    is_open: bool,
    inbox: Vec<u8>,
    has_logged_in: bool,
    /// To be answered: `None` for what is prepared once.
    asked: VecDeque<Option<String>>,
    user: String,
    /// On its way to the pooler.
    outbox: Vec<u8>,
}

struct World {
    lookups: Lookups,
    settings: Settings,
    random: Random,
    dice: Random,
    actions: Actions,
    now: Time,
    versions: BTreeMap<&'static str, Vec<Version>>,
    peers: BTreeMap<ConnId, Peer>,
    logins: BTreeMap<ConnId, (&'static str, Time)>,
    next_login: u32,
    is_down: bool,
    hangs: bool,
    trouble_at: Option<Time>,
    counts: Counts,
    /// The coordinator's knowledge.
    owner: Upstreams,
    timeline: u32,
    /// Hosts that nobody may be looked up at.
    barred: Vec<u16>,
}

/// The ports of the hosts.
const HOSTS: [u16; 3] = [5432, 5433, 5434];

fn host(port: u16) -> Arc<Address> {
    Arc::new(Address { host: Host::Ip([127, 0, 0, 1].into()), port })
}

#[derive(Debug, Default)]
struct Counts {
    fresh: u32,
    remembered: u32,
    unreachable: u32,
    expired: u32,
    again: u32,
    barred: u32,
}

impl World {
    fn new(seed: u64) -> World {
        let mut settings = Settings::default();
        settings.global.servers.failover_wait = PATIENCE;
        settings.global.tls.server_tls_sslmode = settings::SslMode::Disable;
        settings.global.login.auth_user = Some("asker".to_owned());
        settings.global.login.auth_query = "q".to_owned();
        settings.global.login.auth_cache_ttl = Some(TTL);
        settings.global.servers.server_idle_timeout = Some(Duration::from_secs(3));
        let hosts = HOSTS.iter().map(|port| Address::clone(&host(*port))).collect();
        let mut database = Database::new("d", hosts);
        database.target_session_attrs = TargetSessionAttrs::Primary;
        settings.databases.insert("d".to_owned(), Arc::new(database));
        let first = Version { from: Time::ZERO, password: Some("first".to_owned()), valid_until: None };
        World {
            lookups: Lookups::new(DoorId(0), &settings),
            owner: Upstreams::new(&settings),
            timeline: 1,
            barred: Vec::new(),
            settings,
            random: Random::seeded(1),
            dice: Random::seeded(seed),
            actions: Actions::new(),
            now: Time(1_000_000),
            versions: USERS[..3].iter().map(|user| (*user, vec![first.clone()])).collect(),
            peers: BTreeMap::new(),
            logins: BTreeMap::new(),
            next_login: 0,
            is_down: false,
            hangs: false,
            trouble_at: None,
            counts: Counts::default(),
        }
    }

    /// Has the lookups take a step, carries the actions out, and judges the outcomes.
    fn step<R>(&mut self, step: impl FnOnce(&mut Lookups, &mut Turn<'_>) -> R) -> R {
        let World { now, settings, random, actions, lookups, .. } = self;
        let result = step(lookups, &mut Turn { now: *now, settings, random, actions });
        let list = self.actions.take();
        for action in &list {
            match action {
                Action::Open { conn, address } => {
                    assert!(!self.barred.contains(&address.port), "users are looked up at {address}");
                    self.peers.insert(*conn, Peer { port: address.port, ..Peer::default() });
                }
                Action::Close { conn, .. } => _ = self.peers.remove(conn),
                Action::Send { conn, piece } => {
                    let bytes = self.actions.bytes(*piece, &[]).to_vec();
                    self.peers.get_mut(conn).expect("it is open").inbox.extend(bytes);
                }
                Action::Tell(_) | Action::Trace(_) => {}
                other => panic!("{other:?}"),
            }
        }
        self.actions.put_back(list);
        self.actions.clear(|_| ());
        while let Some((login, outcome)) = self.lookups.next_outcome() {
            let (user, since) = self.logins.remove(&login).expect("one outcome for a login that waits");
            match outcome {
                Outcome::Again => {
                    self.counts.again += 1;
                    self.begin(login, user, since);
                }
                outcome => self.judge(user, since, &outcome),
            }
        }
        result
    }

    fn begin(&mut self, login: ConnId, user: &'static str, since: Time) {
        self.logins.insert(login, (user, since));
        match self.step(|lookups, turn| lookups.begin(turn, (login, since), "d", &user.into())) {
            Begun::Waits => {}
            Begun::Now(outcome) => {
                self.logins.remove(&login);
                self.judge(user, since, &outcome);
            }
            other => panic!("{other:?}"),
        }
    }

    /// What a lookup would say of a user whose versions are these.
    fn says(version: Option<&Version>, at: Time) -> Outcome {
        match version {
            None => Outcome::Unknown,
            Some(Version { valid_until: Some(end), .. }) if *end < at => Outcome::Expired,
            Some(Version { password: None, .. }) => Outcome::NoPassword,
            Some(Version { password: Some(password), .. }) => Outcome::Found(Secret::parse(password)),
        }
    }

    /// Whether a lookup between these moments could have said so. `at`: when its answer is used.
    fn could_say(&self, user: &str, from: Time, at: Time, outcome: &Outcome) -> bool {
        let Some(versions) = self.versions.get(user) else { return *outcome == Outcome::Unknown };
        let ends = versions[1..].iter().map(|next| next.from).chain([Time::NEVER]);
        let valid = versions.iter().zip(ends).filter(|(_, end)| *end >= from);
        valid.into_iter().any(|(version, _)| {
            World::says(Some(version), at) == *outcome || World::says(Some(version), from) == *outcome
        })
    }

    fn judge(&mut self, user: &'static str, since: Time, outcome: &Outcome) {
        let (now, waited) = (self.now, self.now.since(since));
        let trouble = self.is_down || self.hangs || self.trouble_at.is_some_and(|at| now.since(at) <= TROUBLE);
        assert!(waited <= PATIENCE, "{user} has waited {waited:?}");
        if let Outcome::Unreachable(_) = outcome {
            assert!(trouble, "{user} is told at {now:?} of trouble that there is not");
            self.counts.unreachable += 1;
            return;
        }
        if self.could_say(user, since, now, outcome) {
            self.counts.fresh += 1;
            self.counts.expired += u32::from(*outcome == Outcome::Expired);
            return;
        }
        let earliest = Time(now.0.saturating_sub(TTL.as_micros() as u64));
        // What is remembered is judged by the time at which it is used.
        let versions = self.versions.get(user).map_or(&[][..], Vec::as_slice);
        let ends = versions.iter().skip(1).map(|next| next.from).chain([Time::NEVER]);
        let mut known = versions.iter().zip(ends).filter(|(_, end)| *end >= earliest);
        let is_remembered = known.any(|(version, _)| {
            // It counts from when the lookup was sent, so it may expire early, by as long as the lookup took.
            let is_early = version.valid_until.is_some_and(|end| end < now + LOOKUP_WAIT);
            World::says(Some(version), now) == *outcome || *outcome == Outcome::Expired && is_early
        });
        assert!(is_remembered, "{user} since {since:?} at {now:?}: {outcome:?} of {versions:?}");
        assert!(trouble, "{user} since {since:?} at {now:?}: {outcome:?} is remembered, and the database is there");
        self.counts.remembered += 1;
    }

    fn event(&mut self, conn: ConnId, event: Event<'_>) {
        self.step(|lookups, turn| lookups.event(turn, conn, event));
    }

    fn wait(&mut self) {
        let span = Duration::from_micros(self.dice.below(700_000));
        let until = self.now + span;
        while let Some(at) = self.lookups.next_deadline().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.step(|lookups, turn| lookups.deadline_reached(turn));
        }
        self.now = until;
    }

    fn some_peer(&mut self) -> Option<ConnId> {
        let index = self.dice.below(self.peers.len().max(1) as u64) as usize;
        self.peers.keys().nth(index).copied()
    }

    /// PostgreSQL does one thing on a connection.
    fn serve(&mut self, conn: ConnId) {
        let peer = self.peers.get_mut(&conn).expect("it is there");
        if !peer.is_open {
            if self.is_down {
                return self.event(conn, Event::OpenFailed { conn, why: "refused".to_owned() });
            }
            peer.is_open = true;
            return self.event(conn, Event::Opened { conn, ends: None });
        }
        if self.hangs {
            return;
        }
        if !peer.outbox.is_empty() {
            return self.deliver(conn);
        }
        let mut out = Vec::new();
        if !peer.has_logged_in {
            let Ok(Some((Startup::Start(_), used))) = parse_startup(&peer.inbox) else { return };
            peer.inbox.drain(..used);
            peer.has_logged_in = true;
            Authentication::Ok.encode(&mut out);
            BackendKeyData { pid: 1, secret: &[0; 4] }.encode(&mut out);
            backend::encode_ready(&mut out, Status::Idle);
        } else {
            take_messages(peer);
            match peer.asked.pop_front() {
                None => return,
                Some(None) => {
                    backend::encode_parse_complete(&mut out);
                    backend::encode_ready(&mut out, Status::Idle);
                }
                Some(Some(user)) => {
                    answer(&user, self.versions.get(&*user).and_then(|all| all.last()), self.now, &mut out)
                }
            }
        }
        peer.outbox = out;
    }

    /// Bytes arrive, whole or in part.
    fn deliver(&mut self, conn: ConnId) {
        let outbox = &mut self.peers.get_mut(&conn).expect("it is there").outbox;
        let len = outbox.len().min(1 + self.dice.below(2 * outbox.len() as u64) as usize);
        let bytes: Vec<u8> = outbox.drain(..len).collect();
        self.event(conn, Event::Received { conn, bytes: &bytes });
    }

    fn change_user(&mut self) {
        let user = USERS[self.dice.below(3) as usize];
        let password = (self.dice.below(8) > 0).then(|| format!("password {}", self.dice.below(1 << 30)));
        let span = Duration::from_micros(self.dice.below(8_000_000));
        let valid_until = (self.dice.below(3) == 0).then_some(self.now + span);
        let from = self.now;
        self.versions.get_mut(user).expect("it is one").push(Version { from, password, valid_until });
    }

    fn trouble(&mut self) {
        self.trouble_at = Some(self.now);
        match self.dice.below(4) {
            0 => self.is_down = true,
            1 => self.hangs = true,
            2 => {}
            _ => {
                self.settings.secrets.insert("asker".to_owned(), Secret::parse(&format!("{}", self.now.0)));
                let tls = self.settings.global.tls.clone();
                return self.step(|lookups, turn| lookups.configure(turn, &tls));
            }
        }
        for conn in self.peers.keys().copied().collect::<Vec<_>>() {
            if !self.hangs && self.peers.get(&conn).is_some_and(|peer| peer.is_open) {
                self.event(conn, Event::Hangup { conn, why: machine::Hangup::Broken });
            }
        }
    }

    /// The prober has asked a host. `origin`: its system and timeline, if it has answered.
    fn observe(&mut self, port: u16, state: HostState, origin: Option<(u64, u32)>) {
        self.now = self.now + Duration::from_micros(1);
        let (host, now) = (host(port), self.now);
        if let (Some((system, timeline)), HostState::Alive { role: Some(role) }) = (origin, state) {
            let origin = Origin { role, system: Some(system), timeline: Some(timeline), started: None };
            self.owner.note_origin(&host, origin);
        }
        self.owner.note(&Observed { host: Arc::clone(&host), upstream: Upstream::new(now, state) });
        for decision in self.owner.decide(now, &host, SplitBrain::Hold) {
            self.step(|lookups, turn| lookups.decided(turn, &decision));
        }
        let known = self.owner.of(&host);
        self.step(|lookups, turn| lookups.observed(turn, &known));
    }

    /// Another host is promoted. The primary of before is a standby now, silent, or still takes writes; and a standby may be of another system.
    fn fail_over(&mut self) {
        let alive = |role| HostState::Alive { role: Some(role) };
        self.barred.clear();
        for port in HOSTS {
            self.observe(port, alive(HostRole::Standby), Some((7, self.timeline)));
        }
        let turn = self.dice.below(3) as usize;
        let [old, new, third] = [0, 1, 2].map(|place| HOSTS[(turn + place) % 3]);
        let before = self.timeline;
        self.observe(old, alive(HostRole::Primary), Some((7, before)));
        self.timeline += 1;
        let fate = self.dice.below(3);
        if fate > 0 {
            self.observe(old, HostState::Silent, None);
        } else {
            self.observe(old, alive(HostRole::Standby), Some((7, before)));
        }
        self.observe(new, alive(HostRole::Primary), Some((7, self.timeline)));
        if fate > 1 {
            self.observe(old, alive(HostRole::Primary), Some((7, before)));
            self.barred.push(old);
        }
        if self.dice.below(2) == 0 {
            self.observe(third, alive(HostRole::Standby), Some((8, 1)));
            self.barred.push(third);
        }
        self.counts.barred += self.barred.len() as u32;
        let wrong = self.peers.values().find(|peer| self.barred.contains(&peer.port));
        assert!(wrong.is_none(), "{wrong:?} is still there: {:?}", self.barred);
    }

    fn recover(&mut self) {
        if self.is_down || self.hangs {
            self.trouble_at = Some(self.now);
        }
        (self.is_down, self.hangs) = (false, false);
    }

    /// So often that no lookup takes long unless something is wrong.
    fn serve_some(&mut self) {
        for _ in 0..6 {
            if let Some(conn) = self.some_peer() {
                self.serve(conn);
            }
        }
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            match self.dice.below(20) {
                0..5 => {
                    let (login, user) = (ConnId::new(Kind::Login, 0, self.next_login, 0), self.dice.below(4));
                    self.next_login += 1;
                    self.begin(login, USERS[user as usize], self.now);
                }
                5 => {
                    let leaves = self.logins.keys().next().copied();
                    if let Some(login) = leaves {
                        self.logins.remove(&login);
                        self.lookups.leave(login);
                    }
                }
                6 => self.change_user(),
                7 if self.dice.below(12) == 0 => self.trouble(),
                8 if self.dice.below(6) == 0 => self.recover(),
                8 if self.dice.below(4) == 0 => self.fail_over(),
                9 | 10 => self.wait(),
                _ => self.serve_some(),
            }
        }
        self.recover();
        for _ in 0..200 {
            self.serve_some();
            self.wait();
        }
        assert!(self.logins.is_empty(), "{:?} have no outcome", self.logins);
    }
}

/// Whole messages become what is asked.
fn take_messages(peer: &mut Peer) {
    while let Ok(Some(header)) = Header::parse(&peer.inbox) {
        if peer.inbox.len() < header.total_len() {
            return;
        }
        let message: Vec<u8> = peer.inbox.drain(..header.total_len()).collect();
        match header.tag {
            tag::BIND => {
                let names = frontend::BindNames::decode(&message[HEADER_LEN..]).expect("ours");
                let behind = &message[HEADER_LEN + names.len..];
                if let Some(user) = frontend::bind_parameter(behind, 1) {
                    peer.user = String::from_utf8_lossy(user).into_owned();
                }
            }
            tag::SYNC => peer.asked.push_back(Some(std::mem::take(&mut peer.user)).filter(|user| !user.is_empty())),
            _ => {}
        }
    }
}

/// PostgreSQL's time, which has nothing to do with the pooler's.
fn clock(at: Time) -> String {
    let (seconds, micros) = (at.0 / 1_000_000, at.0 % 1_000_000);
    format!("2026-11-23 {:02}:{:02}:{:02}.{micros:06}+00", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

fn answer(user: &str, version: Option<&Version>, now: Time, out: &mut Vec<u8>) {
    backend::encode_parse_complete(out);
    backend::encode_bind_complete(out);
    backend::encode_row_description(out, &[Column { name: "c", type_oid: oid::TEXT, type_len: -1 }; 3]);
    if let Some(Version { password, valid_until, .. }) = version {
        let until = valid_until.map(clock);
        let values = [Some(user), password.as_deref(), until.as_deref()];
        backend::encode_data_row(out, values.iter().map(|value| value.map(str::as_bytes)));
    }
    backend::encode_command_complete(out, "SELECT 1");
    backend::encode_bind_complete(out);
    backend::encode_data_row(out, [Some(clock(now).as_bytes())]);
    backend::encode_command_complete(out, "SELECT 1");
    backend::encode_ready(out, Status::Idle);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the crate is pure, its tests may be told a seed")]
fn no_login_is_judged_by_what_was_true_before_it_came() {
    let seeds = match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..300,
    };
    let mut all = Counts::default();
    for seed in seeds {
        let mut world = World::new(seed);
        let run = std::panic::AssertUnwindSafe(|| world.run(600));
        assert!(std::panic::catch_unwind(run).is_ok(), "SEED={seed} cargo test -p door random_worlds");
        let Counts { fresh, remembered, unreachable, expired, again, barred } = world.counts;
        all.fresh += fresh;
        all.remembered += remembered;
        all.unreachable += unreachable;
        all.expired += expired;
        all.again += again;
        all.barred += barred;
    }
    println!("{all:?}");
    let seen = [all.fresh, all.remembered, all.unreachable, all.expired, all.again, all.barred];
    assert!(seen.iter().all(|count| *count > 0) || std::env::var("SEED").is_ok(), "{all:?}");
}
