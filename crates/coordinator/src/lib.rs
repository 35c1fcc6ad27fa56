//! Who lives where, and capacity as tokens: the one place that knows all limits.
//!
//! A token is the right to have one server connection. A worker asks for one before it opens a server, and the token
//! comes back when that server is closed; a server that is lent takes its token along. So no limit is ever exceeded
//! (I5), whatever the order in which messages arrive: everything late is late on the safe side.
//!
//! ```text
//!   worker ──Ask──► coordinator ──Granted──► worker: opens, uses, closes ──Freed──► coordinator
//!                        └── at a shared cap: Recall ──► a worker with a server of another pool
//! ```
//!
//! Who gets the next token, and who gives one back for it, is in `asking` and `sharing`.

mod announcing;
mod asking;
mod failing;
mod forgetting;
mod homes;
mod limiting;
mod sharing;
#[cfg(test)]
mod sharing_tests;
mod sizing;
mod vacating;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use announcing::Announced;
use asking::{Ask, Cap, Contest, Yield};
use failing::Failures;
use forgetting::Life;
use homes::Burden;
use limiting::Limiting;
use machine::action::{Action, Actions};
use machine::event::Event;
use machine::mail::{Application, Grant, Mail, Refusal, Stop, ToCoordinator, ToDoor, ToWorker};
use machine::observe::{About, Fact, Level, Peer, Topic};
use machine::sabotage::{Fault, does};
use machine::{Settings, Violation};
use queueing::board::Board;
use queueing::classes::ClassSet;
use units::names::shown;
use units::{ConnId, PoolId, PoolKey, Serial, Time, WorkerId, limits};

/// The console is no pool: its sessions live on the first worker under this id.
pub const CONSOLE: PoolId = PoolId(0);

/// The coordinator of all workers of a process.
#[derive(Debug)]
pub struct Coordinator {
    workers: u16,
    settings: Arc<Settings>,
    /// Indexed by [`PoolId`].
    pools: Vec<Entry>,
    ids: BTreeMap<PoolKey, PoolId>,
    /// Pools of each database.
    pools_by_database: BTreeMap<Arc<str>, u32>,
    /// By worker.
    burden: Vec<Burden>,
    /// Pools that are forgotten unless somebody comes, those that have been unused for longest first.
    unused: BTreeSet<(Time, PoolId)>,
    /// Pools whose size is to be looked at.
    looked_at: BTreeSet<PoolId>,
    /// In order of arrival.
    asks: Vec<Ask>,
    /// When they were last gone through.
    served_at: Time,
    /// Caps at which somebody is hungry, or was a moment ago.
    contests: BTreeMap<Cap, Contest>,
    /// Pools with tokens out.
    holders: BTreeSet<PoolId>,
    /// All tokens out.
    servers: u32,
    /// Logins under way, in order of their grants.
    opening: VecDeque<(PoolId, Time)>,
    /// The last number given to a client or a server.
    serial: Serial,
    clients: u32,
    clients_by_database: BTreeMap<Arc<str>, u32>,
    clients_by_user: BTreeMap<Arc<str>, u32>,
    servers_by_database: BTreeMap<Arc<str>, u32>,
    servers_by_user: BTreeMap<Arc<str>, u32>,
    /// Some pool has a min_pool_size.
    maintains: bool,
    maintain_at: Time,
    recall_at: Option<Time>,
    stop: Option<Stop>,
    /// Ids of pools that were forgotten.
    free: Vec<PoolId>,
    /// When to look for pools that nobody uses.
    forget_at: Option<Time>,
    /// When it has something to do by itself: asked twice a round, and found anew after each step.
    due: Option<Time>,
    limiting: Limiting,
}

#[derive(Debug)]
struct Entry {
    key: PoolKey,
    homes: Vec<WorkerId>,
    /// Tokens out, by worker. What workers tell of a server that travels may overtake each other, so a single count can
    /// be below zero for a moment; the sum never is, and limits are about the sum.
    held: Vec<i32>,
    /// Sessions, by worker.
    sessions: Vec<u32>,
    /// Classes with work, as of the last ask, by worker.
    at_work: Vec<ClassSet>,
    size: u32,
    /// Its size is found, not given.
    auto: Option<Box<sizing::Auto>>,
    reserve: u32,
    min: u32,
    forced: bool,
    /// Tokens beyond the size, since a reload has lowered it: they come back one by one.
    over: u32,
    max_db: u32,
    max_user: u32,
    lifetime: Duration,
    /// When its tokens were given out, the oldest first.
    granted_at: VecDeque<Time>,
    /// Until when nothing is opened for min_pool_size: its database is to be empty.
    vacant_until: Time,
    /// Tokens that it was told to give back at its next release.
    yields: Vec<Yield>,
    failures: Failures,
    announced: Announced,
    life: Life,
    /// When its servers were told last to leave their database.
    vacated_at: Option<Time>,
}

impl Entry {
    /// Tokens of servers whose lifetime does not end soon.
    fn lasting(&self, now: Time) -> u32 {
        if self.lifetime.is_zero() {
            return self.tokens();
        }
        let lasts = self.lifetime - limits::RENEWAL.min(self.lifetime / 10);
        // The oldest first. A server that is lent on its way may be counted below zero.
        let ending = self.granted_at.iter().take_while(|at| **at + lasts <= now).count() as u32;
        self.tokens().saturating_sub(ending)
    }

    fn tokens(&self) -> u32 {
        let sum: i32 = self.held.iter().sum();
        u32::try_from(sum).expect("I12: more tokens came back than were given out")
    }
}

impl Coordinator {
    #[must_use]
    pub fn new(workers: u16, settings: Arc<Settings>) -> Coordinator {
        let limiting = Limiting::new(&settings, workers);
        let mut coordinator = Coordinator {
            limiting,
            workers,
            settings,
            pools: Vec::new(),
            ids: BTreeMap::new(),
            pools_by_database: BTreeMap::new(),
            burden: vec![Burden::default(); usize::from(workers)],
            unused: BTreeSet::new(),
            looked_at: BTreeSet::new(),
            asks: Vec::new(),
            served_at: Time::ZERO,
            contests: BTreeMap::new(),
            holders: BTreeSet::new(),
            servers: 0,
            opening: VecDeque::new(),
            serial: Serial::default(),
            clients: 0,
            clients_by_database: BTreeMap::new(),
            clients_by_user: BTreeMap::new(),
            servers_by_database: BTreeMap::new(),
            servers_by_user: BTreeMap::new(),
            maintains: false,
            maintain_at: Time::ZERO,
            recall_at: None,
            stop: None,
            free: Vec::new(),
            forget_at: None,
            due: None,
        };
        let name: Arc<str> = connections::databases::CONSOLE_DATABASE.into();
        let console = coordinator.add_pool(PoolKey { database: Arc::clone(&name), user: name });
        assert_eq!(console, Some(CONSOLE), "the console is the first entry");
        coordinator.add_forced_pools();
        coordinator.due = coordinator.find_due();
        coordinator
    }

    /// Tokens that are out for a pool.
    #[must_use]
    pub fn held(&self, pool: PoolId) -> u32 {
        self.pools.get(pool.0 as usize).map_or(0, Entry::tokens)
    }

    /// Pools known so far.
    pub fn pools(&self) -> impl Iterator<Item = (PoolId, &PoolKey)> {
        let live = self.pools.iter().enumerate().filter(|(_, entry)| entry.is_live());
        live.map(|(index, entry)| (PoolId(index as u32), &entry.key))
    }

    /// Sessions placed and not departed.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.clients
    }

    /// Checks that the sums are those of the parts, and no limit is exceeded (I5, I12).
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        let violation = |invariant, what| Err(Violation { invariant, what });
        let mut by_database: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        for entry in &self.pools {
            *by_database.entry(&entry.key.database).or_default() += entry.tokens();
            if entry.tokens() > entry.size + entry.reserve + entry.over {
                return violation(5, format!("{:?} holds {} tokens", entry.key, entry.tokens()));
            }
        }
        if let Err(what) = self.check_burden() {
            return violation(12, what);
        }
        let total: u32 = by_database.values().sum();
        if total != self.servers {
            return violation(12, format!("{total} tokens are out, {} are counted", self.servers));
        }
        for (database, tokens) in by_database {
            let counted = self.servers_by_database.get(database).copied().unwrap_or(0);
            if tokens != counted {
                return violation(12, format!("{database}: {tokens} tokens are out, {counted} are counted"));
            }
        }
        Ok(())
    }

    /// Forced users' pools exist before their first client, for min_pool_size.
    fn add_forced_pools(&mut self) {
        let settings = Arc::clone(&self.settings);
        for database in settings.databases.values() {
            if let Some(user) = &database.forced_user {
                let key = PoolKey { database: database.name.as_str().into(), user: user.as_str().into() };
                self.pool_of(&key);
            }
        }
    }

    fn pool_of(&mut self, key: &PoolKey) -> Option<PoolId> {
        match self.ids.get(key) {
            Some(&id) => Some(id),
            None => self.add_pool(key.clone()),
        }
    }

    fn add_pool(&mut self, key: PoolKey) -> Option<PoolId> {
        let fresh = (self.pools.len() < limits::POOLS_MAX).then_some(PoolId(self.pools.len() as u32));
        let id = self.free.pop().or(fresh)?;
        let workers = usize::from(self.workers);
        let mut entry = Entry {
            key: key.clone(),
            homes: Vec::new(),
            held: vec![0; workers],
            sessions: vec![0; workers],
            at_work: vec![ClassSet::default(); workers],
            size: 0,
            auto: None,
            reserve: 0,
            min: 0,
            forced: false,
            over: 0,
            max_db: 0,
            max_user: 0,
            lifetime: Duration::ZERO,
            granted_at: VecDeque::new(),
            vacant_until: Time::ZERO,
            yields: Vec::new(),
            failures: Failures::default(),
            announced: Announced::default(),
            life: Life::Used,
            vacated_at: None,
        };
        apply(&mut entry, &self.settings);
        self.maintains |= entry.min > 0;
        entry.homes = self.choose_homes(&entry, id);
        self.looked_at.remove(&id);
        *self.pools_by_database.entry(Arc::clone(&key.database)).or_default() += 1;
        match self.pools.get_mut(id.0 as usize) {
            Some(free) => *free = entry,
            None => self.pools.push(entry),
        }
        self.ids.insert(key, id);
        Some(id)
    }

    fn apply_for(&mut self, application: Application, actions: &mut Actions) {
        let Application { login, door, key, user, console, exempt, peer, class: _ } = application;
        let is_new = !console && !self.ids.contains_key(&key);
        let is_first = is_new && !self.pools_by_database.contains_key(&key.database);
        let answer = match self.admit(&key, &user, console, exempt) {
            Err(why) => ToDoor::NotPlaced { login, why },
            Ok(pool) => {
                if is_first {
                    self.tell_of_database(login, &key, peer, actions);
                }
                let worker = self.settle(pool, Arc::clone(&user));
                let homes = self.pools[pool.0 as usize].homes.len() as u16;
                let serial = self.serial.advance();
                ToDoor::Placed { login, pool, homes, worker, user, serial }
            }
        };
        actions.post_to_door(door, answer);
    }

    /// Nobody has asked for this database before: it may be one of `*`.
    fn tell_of_database(&self, login: ConnId, key: &PoolKey, peer: Peer, actions: &mut Actions) {
        let PoolKey { database, user } = key.clone();
        if self.settings.database(&database).is_some_and(|entry| entry.automatic) {
            let text = format!("registered new auto-database: {}", shown(&database));
            let about = About::Client {
                conn: login,
                name: login.name_of_login(),
                database: Some(database),
                user: Some(user),
                peer,
            };
            actions.tell(Fact { level: Level::Log, topic: Topic::General, about, text });
        }
    }

    fn admit(&mut self, key: &PoolKey, user: &Arc<str>, console: bool, exempt: bool) -> Result<PoolId, Refusal> {
        if self.stop.is_some() && !console {
            return Err(Refusal::ShuttingDown);
        }
        if !exempt {
            self.check_client_limits(key, user, console)?;
        }
        if console {
            return Ok(CONSOLE);
        }
        self.pool_of(key).ok_or(Refusal::TooManyPools)
    }

    fn check_client_limits(&self, key: &PoolKey, user: &Arc<str>, console: bool) -> Result<(), Refusal> {
        let settings = &self.settings;
        let full = |limit: u32, count: u32| limit > 0 && count >= limit;
        let count = |counts: &BTreeMap<Arc<str>, u32>, name: &Arc<str>| counts.get(name).copied().unwrap_or(0);
        if full(settings.global.pools.max_client_conn, self.clients) {
            return Err(Refusal::MaxClientConn);
        }
        let database =
            settings.database(&key.database).and_then(|database| database.settings.max_db_client_connections);
        let database_max = database.unwrap_or(settings.global.pools.max_db_client_connections);
        if !console && full(database_max, count(&self.clients_by_database, &key.database)) {
            return Err(Refusal::MaxDbClientConnections);
        }
        let own = settings.users.get(&**user).and_then(|user| user.max_user_client_connections);
        let user_max = own.unwrap_or(settings.global.pools.max_user_client_connections);
        if full(user_max, count(&self.clients_by_user, user)) {
            return Err(Refusal::MaxUserClientConnections);
        }
        Ok(())
    }

    fn grant(&mut self, now: Time, pool: PoolId, worker: WorkerId, spare: bool, actions: &mut Actions) {
        self.servers += 1;
        self.holders.insert(pool);
        let entry = &mut self.pools[pool.0 as usize];
        let reserve = entry.tokens() >= entry.size;
        entry.held[usize::from(worker.0)] += 1;
        entry.granted_at.push_back(now);
        self.opening.push_back((pool, now));
        entry.life.comes_into_use(pool, &mut self.unused);
        *self.servers_by_database.entry(Arc::clone(&entry.key.database)).or_default() += 1;
        *self.servers_by_user.entry(Arc::clone(&entry.key.user)).or_default() += 1;
        let (homes, key) = (entry.homes.len() as u16, entry.key.clone());
        let serial = self.serial.advance();
        actions.post_to_worker(worker, ToWorker::Granted(Grant { pool, homes, key, spare, reserve, serial }));
        self.show_size(pool, actions);
    }

    fn freed(&mut self, pool: PoolId, worker: WorkerId) {
        let entry = &mut self.pools[pool.0 as usize];
        assert!(entry.tokens() > 0, "I12: a token came back that was not out");
        entry.held[usize::from(worker.0)] -= 1;
        entry.over = entry.over.saturating_sub(1);
        entry.granted_at.pop_front();
        if let Some(index) = entry.yields.iter().position(|told| told.worker == worker) {
            entry.yields.remove(index);
        }
        if entry.tokens() == 0 {
            self.holders.remove(&pool);
        }
        self.servers -= 1;
        lower(&mut self.servers_by_database, &entry.key.database);
        lower(&mut self.servers_by_user, &entry.key.user);
    }

    /// Three times a second: opens what min_pool_size wants, one server a pool. Servers whose lifetime is about to end are
    /// not counted, if there is room for others beside them: they are replaced ahead of need.
    fn maintain(&mut self, now: Time, actions: &mut Actions) {
        for index in 0..self.pools.len() {
            let (pool, entry) = (PoolId(index as u32), &self.pools[index]);
            let inhabited = entry.forced || entry.sessions.iter().any(|&sessions| sessions > 0);
            let short = entry.lasting(now) < entry.min && inhabited && self.stop.is_none();
            if !short || entry.vacant_until > now || !self.has_room(pool) || self.is_opening_enough(now) {
                continue;
            }
            let entry = &self.pools[index];
            let poorest = entry.homes.iter().copied().min_by_key(|home| entry.held[usize::from(home.0)]);
            if let Some(worker) = poorest {
                self.grant(now, pool, worker, true, actions);
            }
        }
    }

    fn configure(&mut self, settings: Arc<Settings>, actions: &mut Actions) {
        self.settings = settings;
        for entry in self.pools.iter_mut().filter(|entry| entry.is_live()) {
            apply(entry, &self.settings);
        }
        let live = (0..self.pools.len()).filter(|&index| self.pools[index].is_live());
        for index in live.collect::<Vec<_>>() {
            self.resize(PoolId(index as u32), actions);
        }
        self.maintains = self.pools.iter().any(|entry| entry.min > 0);
        self.add_forced_pools();
    }

    fn deadline_reached(&mut self, now: Time, actions: &mut Actions) {
        if now >= self.maintain_at {
            self.maintain_at = now + limits::MAINTENANCE;
            self.maintain(now, actions);
        }
        if self.recall_at.is_some_and(|at| now >= at) {
            self.recall_at = None;
            self.serve_asks(now, actions);
        }
        self.look_at_sizes(now, actions);
        self.forget_unused(now, actions);
        self.serve_limits(now, actions);
    }
}

/// What the settings say of one pool: user over database over global.
fn apply(entry: &mut Entry, settings: &Settings) {
    let Some(database) = settings.database(&entry.key.database) else {
        (entry.size, entry.reserve, entry.min, entry.auto) = (0, 0, 0, None);
        return;
    };
    let own = settings.effective(&database, &entry.key.user);
    entry.reserve = own.reserve_pool_size;
    entry.lifetime = own.server_lifetime;
    entry.min = own.min_pool_size;
    entry.min -= u32::from(entry.min > 0 && does(settings, Fault::OneTooFew));
    entry.forced = database.forced_user.is_some();
    entry.max_db = own.max_db_connections;
    if entry.size == 0 || !does(settings, Fault::KeepUserLimit) {
        entry.max_user = own.max_user_connections;
    }
    sizing::apply(entry, settings, &own);
}

fn lower(counts: &mut BTreeMap<Arc<str>, u32>, name: &Arc<str>) {
    let Some(count) = counts.get_mut(name) else {
        debug_assert!(false, "what is counted down was counted up");
        return;
    };
    *count -= 1;
    if *count == 0 {
        counts.remove(name);
    }
}

impl Coordinator {
    fn delivered(&mut self, now: Time, mail: ToCoordinator, actions: &mut Actions) {
        match mail {
            ToCoordinator::Apply(application) => self.login_wanted(now, *application, actions),
            ToCoordinator::Withdrawn { login } => self.login_withdrawn(login),
            ToCoordinator::Want { limit, worker, count } => self.wanted(now, limit, worker, count, actions),
            ToCoordinator::Unspent { limit, worker, count, missing } => {
                self.unspent(now, limit, worker, (count, missing), actions);
            }
            ToCoordinator::Ask { pool, worker, reserve, classes } => {
                self.pools[pool.0 as usize].at_work[usize::from(worker.0)] = classes;
                self.asks.push(Ask::new(pool, worker, reserve, now));
                self.serve_asks(now, actions);
            }
            ToCoordinator::Opened { pool } => {
                self.login_over(pool);
                self.serve_asks(now, actions);
            }
            ToCoordinator::Freed { pool, worker, fresh } => {
                if fresh {
                    self.login_over(pool);
                }
                self.freed(pool, worker);
                self.answered(pool, worker);
                self.note_use(now, pool);
                self.serve_asks(now, actions);
            }
            ToCoordinator::Refused(news) => self.refused(now, *news, actions),
            ToCoordinator::Failed(failure) => self.open_failed(now, *failure, actions),
            ToCoordinator::Moved { pool, from, to } => {
                let held = &mut self.pools[pool.0 as usize].held;
                held[usize::from(from.0)] -= 1;
                held[usize::from(to.0)] += 1;
                self.note_use(now, pool);
            }
            ToCoordinator::Counted(counted) => self.counted(now, *counted, actions),
            ToCoordinator::NothingIdle { pool, worker, busy } => {
                self.nothing_idle(pool, worker, busy);
                self.serve_asks(now, actions);
            }
            ToCoordinator::Wants { pool, worker, count, classes } => {
                self.pools[pool.0 as usize].at_work[usize::from(worker.0)] = classes;
                self.wants(now, pool, worker, count, actions);
                self.serve_asks(now, actions);
            }
            ToCoordinator::Departed { pool, worker, user } => {
                self.departed(pool, worker, &user);
                self.note_use(now, pool);
            }
            ToCoordinator::Forgotten { pool } => self.forgotten(pool),
            ToCoordinator::Empty { pool, names } => self.empty(now, pool, &names, actions),
            ToCoordinator::Emptied { names } => self.emptied(&names),
            ToCoordinator::Configure(settings) => {
                self.configure(settings, actions);
                self.configure_limits(now, actions);
                // What is configured by name, and for how long the rest is kept, may have changed.
                self.drop_asks_of_removed(now, actions);
                self.list_unused(now);
                self.forget_unused(now, actions);
                self.serve_asks(now, actions);
            }
            ToCoordinator::Stop(stop) => {
                self.stop = self.stop.max(Some(stop));
                actions.push(Action::Finished);
            }
        }
    }

    fn find_due(&self) -> Option<Time> {
        let maintain = self.maintains.then_some(self.maintain_at);
        let looks = [self.recall_at, self.forget_at, self.next_look(), self.limiting.next_at()];
        maintain.into_iter().chain(looks.into_iter().flatten()).min()
    }
}

impl machine::Machine for Coordinator {
    fn step(&mut self, now: Time, _board: &Board, event: Event<'_>, actions: &mut Actions) {
        match event {
            Event::Mail(Mail::ToCoordinator(mail)) => self.delivered(now, mail, actions),
            Event::DeadlineReached => self.deadline_reached(now, actions),
            Event::RoundEnded => {}
            other => unreachable!("the coordinator has no connections, and is sent its own mail alone: {other:?}"),
        }
        self.due = self.find_due();
    }

    fn backlog(&self, _conn: ConnId) -> &[u8] {
        &[]
    }

    fn keep(&mut self, _conn: ConnId, _bytes: &[u8]) {
        debug_assert!(false, "the coordinator has no connections");
    }

    fn next_deadline(&self) -> Option<Time> {
        debug_assert_eq!(self.due, self.find_due(), "nothing changes but in a step");
        self.due
    }

    fn awaits_round_end(&self) -> bool {
        false
    }

    fn recycle(&mut self, _buffer: Vec<u8>) {}
}

const _: () = assert!(limits::MAINTENANCE.as_millis() < Duration::from_secs(1).as_millis());
