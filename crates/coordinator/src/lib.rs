//! Which pool lives on which workers, and capacity as tokens: the one place that knows all limits.
//!
//! A token is the right to have one server connection. A worker, or a process that has joined (`units::Holder`), requests one before it
//! opens a server, and the token comes back when that server is closed; a server that is lent takes its token along. So no limit is ever
//! exceeded (I5), whatever the order in which messages arrive: everything late is late on the safe side.
//!
//! ```text
//!   worker ──RequestServer──► coordinator ──Granted──► worker: opens, uses, closes ──Freed──► coordinator
//!                        └── at a shared cap: Recall ──► a worker with a server of another pool
//! ```
//!
//! Which pool gets the next token, and which gives one back for it, is in `server_requests` and `sharing`.
//!
//! Each part has its own values, and knows none of the others: [`Coordinator`] takes the mail, asks the parts, and sends what they
//! answer.

mod announced;
mod applicants;
mod auto;
mod clients;
mod counts;
mod empty_databases;
mod entry;
mod failures;
mod held;
mod holders;
mod homes;
mod invariants;
mod limits;
mod panicked;
mod pools;
mod processes;
mod renewals;
mod rules;
mod server_logins;
mod server_requests;
mod sharing;
#[cfg(test)]
mod sharing_tests;
mod sizes;
mod stopping;
mod tokens;
mod unused;
mod upstreams;

use std::sync::Arc;
use std::time::Duration;

use applicants::{log_database, refuse};
use clients::Clients;
use entry::Entry;
use homes::Homes;
use limits::Limits;
use machine::action::Actions;
use machine::event::Event;
use machine::mail::{
    Applicant, Application, Counted, Failure, Grant, Mail, Place, Refusal, Stop, ToCoordinator, ToDoor, ToWorker,
};
use machine::{Proved, Settings, Upstreams, Violation};
use pools::Pools;
use processes::Processes;
use queueing::board::Board;
use queueing::limiting::Limit;
use queueing::refusals::News;
use queueing::sizing::Sizing;
use renewals::Renewals;
use server_logins::ServerLogins;
use server_requests::{CapacityView, ServerRequest, ServerRequests};
use sizes::Sizes;
use tokens::{Obstacle, Tokens};
use units::limits::MAINTENANCE;
use units::{ConnId, Holder, PoolId, PoolKey, Serial, Time, WorkerId};
use unused::Unused;
use upstreams::Hosts;

/// The console is no pool: its sessions live on the first worker under this id.
pub const CONSOLE: PoolId = PoolId(0);

/// The coordinator of all workers of a process.
#[derive(Debug)]
pub struct Coordinator {
    settings: Arc<Settings>,
    pools: Pools,
    homes: Homes,
    clients: Clients,
    tokens: Tokens,
    logins: ServerLogins,
    requests: ServerRequests,
    sizes: Sizes,
    limits: Limits,
    unused: Unused,
    renewals: Renewals,
    /// The hosts of databases, which are this machine's; workers have copies.
    upstreams: Upstreams,
    /// The last number given to a client or a server.
    serial: Serial,
    /// Some pool has a min_pool_size, and when servers are opened next for that.
    maintains: bool,
    maintain_at: Time,
    stop: Option<Stop>,
    processes: Processes,
    /// When it has something to do by itself: asked twice a round, and found anew after each step.
    due: Option<Time>,
}

impl Coordinator {
    #[must_use]
    pub fn new(workers: u16, settings: Arc<Settings>) -> Coordinator {
        let mut coordinator = Coordinator {
            limits: Limits::new(&settings, workers),
            upstreams: Upstreams::new(&settings),
            settings,
            pools: Pools::default(),
            homes: Homes::new(workers),
            clients: Clients::default(),
            tokens: Tokens::default(),
            logins: ServerLogins::default(),
            requests: ServerRequests::default(),
            sizes: Sizes::default(),
            unused: Unused::default(),
            renewals: Renewals::new(workers),
            serial: Serial::default(),
            maintains: false,
            maintain_at: Time::ZERO,
            stop: None,
            processes: Processes::default(),
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
        self.pools.get(pool).map_or(0, |entry| entry.held.total())
    }

    /// The size that a pool may have now, without its reserve.
    #[must_use]
    pub fn size(&self, pool: PoolId) -> u32 {
        self.pools.get(pool).map_or(0, |entry| entry.size)
    }

    /// What finds a pool's size, if that is to be found.
    #[must_use]
    pub fn sizing(&self, pool: PoolId) -> Option<&Sizing> {
        Some(&self.pools.get(pool)?.auto.as_ref()?.sizing)
    }

    /// Pools known so far.
    pub fn pools(&self) -> impl Iterator<Item = (PoolId, &PoolKey)> {
        self.pools.live().map(|(id, entry)| (id, &entry.key))
    }

    /// Sessions placed and not departed.
    #[must_use]
    pub fn clients(&self) -> u32 {
        self.clients.count()
    }

    /// What is left of a limit, as far as is known here; `None`: there is no such limit.
    #[must_use]
    pub fn remaining(&self, limit: &Limit) -> Option<u32> {
        self.limits.remaining(limit)
    }

    /// Checks that the sums are those of the parts, and no limit is exceeded (I5, I12, I25).
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        invariants::check(self)
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
        self.pools.id_of(key).or_else(|| self.add_pool(key.clone()))
    }

    fn add_pool(&mut self, key: PoolKey) -> Option<PoolId> {
        let id = self.pools.next_id()?;
        let mut entry = Entry::new(key, self.homes.workers(), &self.settings);
        self.maintains |= entry.rules.min > 0;
        entry.homes = self.homes.choose(id, sizes::expected(&entry));
        self.pools.add(id, entry);
        Some(id)
    }

    /// A client that has logged in gets a home, or an error.
    fn place(&mut self, application: Application, actions: &mut Actions) {
        let Application { applicant, ref key, ref user, console, exempt, .. } = application;
        match self.admit(key, user, console, exempt) {
            Err(why) => refuse(applicant, why, actions),
            Ok(()) => _ = self.place_admitted(application, actions),
        }
    }

    /// A client that no limit stands in the way of gets a home, if only in the process in which it is. False: there are too many pools.
    fn place_admitted(&mut self, application: Application, actions: &mut Actions) -> bool {
        let Application { applicant, key, user, console, exempt: _, peer, class: _, proved } = application;
        let is_new = !console && self.pools.id_of(&key).is_none();
        let is_first = is_new && self.pools.by_database().of(&key.database) == 0;
        let pool = if console { Some(CONSOLE) } else { self.pool_of(&key) };
        let Some(pool) = pool else {
            refuse(applicant, Refusal::TooManyPools, actions);
            return false;
        };
        match applicant {
            Applicant::Process { process, ticket } => self.admit_to_member(process, ticket, (pool, user), actions),
            Applicant::Login { door, login } => {
                if is_first {
                    log_database(&self.settings, login, &key, peer, actions);
                }
                self.note_proved(pool, &proved, actions);
                let worker = self.place_session(pool, &user);
                let homes = self.pools[pool].homes.len() as u16;
                let (life, serial) = (self.renewals.life(worker), self.serial.advance());
                actions.post_to_door(door, ToDoor::Placed { login, pool, homes, worker, life, user, serial });
            }
        }
        true
    }

    /// Tells all homes of a pool if its user has another password now.
    fn note_proved(&mut self, pool: PoolId, proved: &Arc<Proved>, actions: &mut Actions) {
        if pool == CONSOLE || proved.is_empty() {
            return;
        }
        let entry = &mut self.pools[pool];
        if entry.marks.learn(proved.marks()) {
            let tell = |home: &WorkerId| {
                actions.post_to_worker(*home, ToWorker::OtherPassword { pool, proved: Arc::clone(proved) });
            };
            entry.homes.iter().for_each(tell);
        }
    }

    fn admit(&self, key: &PoolKey, user: &Arc<str>, console: bool, exempt: bool) -> Result<(), Refusal> {
        if self.stop.is_some() && !console {
            return Err(Refusal::ShuttingDown);
        }
        if !exempt {
            self.clients.admit(&self.settings, key, user)?;
        }
        Ok(())
    }

    /// Gives a session its home: among the pool's, the worker with the fewest of its sessions.
    fn place_session(&mut self, pool: PoolId, user: &Arc<str>) -> WorkerId {
        let entry = &mut self.pools[pool];
        let worker = entry.home_for_session();
        entry.session_came(worker.into(), user);
        self.homes.session_came(worker);
        self.unused.comes_into_use(pool, entry);
        self.clients.came(&entry.key.database, user);
        worker
    }

    fn departed(&mut self, pool: PoolId, holder: Holder, user: &Arc<str>) {
        let entry = &mut self.pools[pool];
        entry.session_left(holder, user);
        if let Holder::Worker(worker) = holder {
            self.homes.session_left(worker);
        }
        self.clients.left(&entry.key.database, user);
    }

    fn grant(&mut self, now: Time, pool: PoolId, holder: Holder, spare: bool, actions: &mut Actions) {
        debug_assert!(self.processes.knows(holder), "I12: tokens are granted to workers and members");
        let entry = &mut self.pools[pool];
        let reserve = entry.held.total() >= entry.size;
        entry.held.granted(now, holder);
        self.tokens.taken(pool, &entry.key);
        let host =
            self.logins.has_ramps(now).then(|| server_logins::host_of(&self.settings, &self.upstreams, &entry.key));
        self.logins.began(now, pool, holder, host.flatten());
        self.unused.comes_into_use(pool, entry);
        let (homes, key) = (entry.homes.len() as u16, entry.key.clone());
        let serial = self.serial.advance();
        let grant = ToWorker::Granted(Grant { pool, homes, key, spare, reserve, serial });
        holders::post(holder, &entry.key, grant, actions);
        sizes::show(pool, entry, actions);
    }

    fn freed(&mut self, pool: PoolId, holder: Holder) {
        let entry = &mut self.pools[pool];
        entry.held.freed(holder);
        self.tokens.freed(pool, &entry.key, entry.held.total());
        self.requests.answered(pool, holder);
    }

    /// A session or a token has come or gone.
    fn note_use(&mut self, now: Time, pool: PoolId) {
        self.unused.note(now, &self.settings, pool, &mut self.pools[pool]);
    }

    fn view(&self, now: Time) -> CapacityView<'_> {
        let Coordinator { settings, pools, tokens, logins, upstreams, .. } = self;
        CapacityView { settings, pools, tokens, logins, upstreams, now }
    }

    fn hosts<'a>(&'a mut self, now: Time, actions: &'a mut Actions) -> Hosts<'a> {
        let workers = self.homes.workers();
        let Coordinator { upstreams, logins, settings, .. } = self;
        Hosts { upstreams, logins, settings, workers, now, actions }
    }

    /// Grants what can be granted, first to the pool that is furthest behind, else in order of requests; then sees to it that
    /// pools give back what others have a right to.
    fn grant_requests(&mut self, now: Time, actions: &mut Actions) {
        if self.requests.is_calm() || self.processes.has_granter() {
            return;
        }
        if self.requests.are_many() {
            if self.requests.put_off(now) {
                return;
            }
            self.grant_in_order(now, actions);
            if !self.requests.is_contested() && self.logins.are_enough(now) {
                // Nothing can be granted, and nobody is to give anything back.
                return self.requests.served(now, true);
            }
        }
        let demand = self.grant_to_furthest_behind(now, actions);
        for pool in self.requests.at_their_size(&self.view(now)) {
            self.sizes.note_need(now, pool, &mut self.pools[pool]);
            self.processes.balance_soon(now);
        }
        let waits = self.requests.waits_at_cap(&self.view(now));
        self.requests.served(now, waits);
        for cap in self.requests.contested() {
            let (settings, pools, tokens) = (&self.settings, &self.pools, &self.tokens);
            let view = CapacityView { settings, pools, tokens, logins: &self.logins, upstreams: &self.upstreams, now };
            if let Some(from) = self.requests.seek(now, &cap, &demand, &view, actions)
                && let Some(holder) = self.pools[from].held.yields_next(now)
            {
                holders::post(holder, &self.pools[from].key, ToWorker::Recall { pool: from, busy: true }, actions);
            }
        }
    }

    /// Grants one after the other, each to the pool that is furthest behind then. Returns the requests that are left.
    fn grant_to_furthest_behind(&mut self, now: Time, actions: &mut Actions) -> server_requests::Demand {
        loop {
            let (settings, pools, tokens) = (&self.settings, &self.pools, &self.tokens);
            let view = CapacityView { settings, pools, tokens, logins: &self.logins, upstreams: &self.upstreams, now };
            let demand = self.requests.measure(now, &view);
            let Some(ServerRequest { pool, holder, .. }) = self.requests.next_grant(now, &view) else { return demand };
            self.grant(now, pool, holder, false, actions);
        }
    }

    /// Grants what no cap and no size is in the way of, in order of asking, as long as nothing is contended.
    fn grant_in_order(&mut self, now: Time, actions: &mut Actions) {
        if self.requests.is_contested() {
            return;
        }
        let requests = self.requests.take();
        let mut left = Vec::with_capacity(requests.len());
        for request in requests {
            let may = !self.logins.are_enough(now) && self.view(now).obstacle(&request) == Obstacle::None;
            match may {
                true => self.grant(now, request.pool, request.holder, false, actions),
                false => left.push(request),
            }
        }
        self.requests.put_back(left);
    }

    /// Retires what has been unused for long enough, and the oldest of what is too many.
    fn forget_unused(&mut self, now: Time, actions: &mut Actions) {
        let old = self.unused.take_old(now, |pool| self.pools[pool].life);
        self.requests.drop_of_unused(&old, &self.pools, actions);
        for pool in old {
            unused::tell_if_idle(now, &self.settings, &self.pools[pool], actions);
            self.sizes.forget(pool);
            let homes = self.pools.retire(pool);
            self.homes.leave(homes);
            homes.iter().for_each(|home| actions.post_to_worker(*home, ToWorker::Forget { pool }));
        }
    }

    /// Three times a second: opens what min_pool_size requires, one server a pool. Servers whose lifetime is about to end are
    /// not counted, if there is room for others beside them: they are replaced ahead of need.
    fn maintain(&mut self, now: Time, actions: &mut Actions) {
        if self.stop.is_some() || self.processes.has_granter() {
            return;
        }
        let short = self.pools.iter().filter(|(_, entry)| entry.is_short(now)).map(|(pool, _)| pool);
        for pool in short.collect::<Vec<_>>() {
            let entry = &self.pools[pool];
            if self.tokens.has_room(&self.settings, entry)
                && !self.view(now).is_ramp_full(&entry.key)
                && !self.logins.are_enough(now)
                && let Some(worker) = entry.poorest_home()
            {
                self.grant(now, pool, worker.into(), true, actions);
            }
        }
    }

    /// A request in a pool was refused, which may have been forgotten meanwhile.
    fn refused(&mut self, now: Time, news: News, actions: &mut Actions) {
        let period = self.settings.global.console.stats_period;
        if let Some(entry) = self.pools.get_mut(news.pool).filter(|entry| entry.is_live()) {
            entry.announced.tell(now, period, &entry.key, news, actions);
        }
    }

    /// A server of a pool could not be opened, which may have been forgotten meanwhile.
    fn open_failed(&mut self, now: Time, failure: Failure, actions: &mut Actions) {
        let pause = self.settings.global.servers.server_login_retry;
        if let Some(entry) = self.pools.get_mut(failure.pool).filter(|entry| entry.is_live()) {
            entry.failures.tell(now, pause, &entry.key, failure, actions);
        }
    }

    /// A home has reported what it has counted.
    fn counted(&mut self, now: Time, counted: Counted, actions: &mut Actions) {
        let pool = counted.pool;
        let has_requests = self.requests.has_requests(pool);
        if self.sizes.counted(now, counted, has_requests, &mut self.pools[pool], actions) {
            self.grant_requests(now, actions);
        }
    }

    fn configure(&mut self, now: Time, settings: Arc<Settings>, actions: &mut Actions) {
        self.settings = settings;
        self.upstreams.configure(&self.settings);
        // A machine that took the settings first has the decisions of before for lists that are new.
        for place in upstreams::readers(self.homes.workers()) {
            upstreams::tell_decisions(&self.upstreams, place, actions);
        }
        for (_, entry) in self.pools.iter_mut().filter(|(_, entry)| entry.is_live()) {
            entry.configure(&self.settings);
        }
        for (pool, entry) in self.pools.iter_mut().filter(|(_, entry)| entry.is_live()) {
            sizes::resize(pool, entry, actions);
        }
        self.maintains = self.pools.iter().any(|(_, entry)| entry.rules.min > 0);
        self.add_forced_pools();
        self.limits.configure(now, &self.settings, actions);
        self.serve_limits(now, actions);
        // What is configured by name, and for how long the rest is kept, may have changed.
        self.requests.drop_of_removed(now, &self.settings, &self.pools, actions);
        self.unused.list(now, &self.settings, self.pools.iter_mut());
        self.forget_unused(now, actions);
        self.grant_requests(now, actions);
    }

    /// Time has passed: requests that wait for a limit may go on.
    fn serve_limits(&mut self, now: Time, actions: &mut Actions) {
        for application in self.limits.serve(now, actions) {
            self.place(application, actions);
        }
        self.limits.report_logins(now, actions);
    }

    fn deadline_reached(&mut self, now: Time, actions: &mut Actions) {
        if now >= self.maintain_at {
            self.maintain_at = now + MAINTENANCE;
            self.maintain(now, actions);
        }
        if self.requests.is_due(now) {
            self.grant_requests(now, actions);
        }
        if self.processes.balance_at().is_some_and(|at| at <= now) {
            let blocked = self.requests.at_their_size(&self.view(now)).into_iter().collect();
            processes::balance(now, &mut self.processes, &self.requests, &mut self.pools, &blocked, actions);
        }
        self.sizes.look(now, &mut self.pools, actions);
        self.forget_unused(now, actions);
        self.serve_limits(now, actions);
    }

    /// Deals with mail. What another process decides that grants for this one goes there.
    fn take_mail(&mut self, now: Time, mail: ToCoordinator, actions: &mut Actions) {
        if let Some(mail) = self.pass_on(mail, actions) {
            self.delivered(now, mail, actions);
        }
    }

    fn delivered(&mut self, now: Time, mail: ToCoordinator, actions: &mut Actions) {
        match mail {
            ToCoordinator::Apply(application) => {
                let ready = self.limits.login_requested(now, &self.settings, *application, actions);
                ready.into_iter().for_each(|application| self.place(application, actions));
            }
            ToCoordinator::Withdrawn { applicant } => self.limits.login_withdrawn(applicant),
            ToCoordinator::RequestAllowance { limit, holder, count } => {
                self.limits.requested(now, &self.settings, &limit, (holder, count), actions);
            }
            ToCoordinator::Unspent { limit, holder, count, missing } => {
                self.limits.unspent(now, &limit, holder, (count, missing), actions);
            }
            ToCoordinator::RequestServer { pool, holder, reserve, classes } => {
                debug_assert!(self.processes.knows(holder), "I12: workers and members request servers");
                *self.pools[pool].at_work.of_mut(holder) = classes;
                self.requests.push(ServerRequest::new(pool, holder, reserve, now));
                self.grant_requests(now, actions);
                self.requests.share_report(&self.pools, pool, holder, actions);
            }
            ToCoordinator::Opened { pool, holder } => {
                self.logins.over(pool, holder, true);
                self.grant_requests(now, actions);
            }
            ToCoordinator::Freed { pool, holder, fresh } => {
                if fresh {
                    self.logins.over(pool, holder, false);
                }
                self.freed(pool, holder);
                self.note_use(now, pool);
                self.grant_requests(now, actions);
            }
            ToCoordinator::Refused(news) => self.refused(now, *news, actions),
            ToCoordinator::Failed(failure) => self.open_failed(now, *failure, actions),
            ToCoordinator::Upstream(observed) => self.hosts(now, actions).note(&observed),
            ToCoordinator::Hinted(hint) => self.hosts(now, actions).hinted(&hint),
            ToCoordinator::Probed(probed) => self.hosts(now, actions).probed(*probed),
            ToCoordinator::Moved { pool, from, to } => {
                self.moved(pool, from, to);
                self.note_use(now, pool);
            }
            ToCoordinator::Counted(counted) => self.counted(now, *counted, actions),
            ToCoordinator::NothingIdle { pool, holder, busy } => {
                // The worker was asked for an idle server, or to give one back.
                if !(busy && self.pools[pool].held.has_yielded(holder)) {
                    self.requests.answered(pool, holder);
                }
                self.grant_requests(now, actions);
            }
            ToCoordinator::StillNeeded { pool, holder, count, classes } => {
                let entry = &mut self.pools[pool];
                *entry.at_work.of_mut(holder) = classes;
                self.requests.confirm(now, (pool, &entry.key), holder, count, actions);
                self.grant_requests(now, actions);
            }
            ToCoordinator::Departed { holder, life, .. } if self.renewals.life(holder) != life => {} // They have departed with it.
            ToCoordinator::Departed { pool, holder, life: _, user } => {
                self.departed(pool, holder, &user);
                self.note_use(now, pool);
            }
            ToCoordinator::NewDoor { door } => upstreams::tell(&self.upstreams, Place::Door(door), actions),
            ToCoordinator::Renewed { worker, life } => self.renewed(now, worker, life, actions),
            ToCoordinator::LoansArrived { from, life, to } => self.loans_arrived(now, from, life, to, actions),
            ToCoordinator::Forgotten { pool, worker } => self.pools.forgotten(pool, worker),
            ToCoordinator::Empty { pool, names } => {
                empty_databases::empty(&mut self.pools, &self.settings, now, (pool, &names), actions);
            }
            ToCoordinator::Emptied { names } => empty_databases::emptied(&mut self.pools, &self.settings, &names),
            ToCoordinator::Upgrade(turn) => self.turn(now, *turn, actions),
            ToCoordinator::Process(from, said) => self.hear_process(now, from, *said, actions),
            ToCoordinator::Configure(settings) => self.configure(now, settings, actions),
            ToCoordinator::Stop(stop) => {
                self.stop = self.stop.max(Some(stop));
                stopping::finish(stop, self.homes.workers(), actions);
            }
        }
    }

    fn find_due(&self) -> Option<Time> {
        let maintain = self.maintains.then_some(self.maintain_at).into_iter().chain(self.processes.balance_at());
        let looks =
            [self.requests.serve_at(), self.unused.look_at(), self.sizes.next_look(&self.pools), self.limits.next_at()];
        maintain.chain(looks.into_iter().flatten()).min()
    }
}

impl machine::Machine for Coordinator {
    fn step(&mut self, now: Time, _board: &Board, event: Event<'_>, actions: &mut Actions) {
        match event {
            Event::Mail(Mail::ToCoordinator(mail)) => self.take_mail(now, mail, actions),
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

const _: () = assert!(MAINTENANCE.as_millis() < Duration::from_secs(1).as_millis());
