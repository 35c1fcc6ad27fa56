//! A worker: owns sessions, servers and pools, and decides about them alone.
//!
//! [`Worker`] takes an event and calls the function that decides about it. Then it does what follows from the decision,
//! before the next event. The decisions are functions on the worker's tables, in folders that use only those above
//! them:
//!
//! | folder | what it decides |
//! |---|---|
//! | `tables` | nothing: connections and pools, the agenda, deadlines, and read-only views of them |
//! | `chaos` | what tests do to servers on purpose |
//! | `servers` | how servers become free, are queried, lent, listened on and closed |
//! | `limits` | which transactions may begin within the limits of their class, which wait, and which are refused |
//! | `sessions` | how sessions arrive, wait, are linked to a server, cancelled, and end |
//! | `events` | what each kind of event leads to: placing a free server, logins, answers, deadlines, reloads, shutdown |
//! | `traffic` | bytes of clients and servers |
//!
//! Nothing recurses: what a decision means for other parts is put on the agenda, and done before the step ends.

mod chaos;
mod events;
mod invariants;
mod limits;
mod servers;
mod sessions;
mod tables;
mod traffic;

use std::sync::Arc;
pub use tables::view::View;

use connections::flow::Flow;
use link::server::CloseReason;
use link::server_login;
use machine::action::{Action, Actions};
use machine::event::Event;
use machine::mail::{Exchange, Mail, ToWorker};
use machine::pids::PidKey;
use machine::snapshot::{Look, ObjectSizes, QueryCounts};
use machine::{DatabaseOrders, Settings, Snapshot, Step, Violation};
use queueing::board::Board;
use units::deadline::Owner;
use units::{ConnId, Kind, Life, PoolId, Time, WorkerId};

use crate::chaos::chaos;
use crate::events::{
    arrivals, departures, due, forgotten_pools, loans_received, orders, placement, reloads, renewals, rounds,
    server_logins, sockets, stops,
};
use crate::limits::limiters::Limiters;
use crate::limits::{admission, classes, permits};
use crate::servers::{capacity, closed_servers, empty_databases, listener, loans, wait_samples};
use crate::sessions::{
    cancel_requests, console, definitions, ends, faults, hosts, links, lost_servers, reports, welcome,
};
use crate::tables::agenda::Next;
use crate::tables::followups::Followup;
use crate::tables::halves::Halves;
use crate::tables::open_definitions::OpenDefinitions;
use crate::tables::{Tables, suspension, timers};

/// One worker.
#[derive(Debug)]
pub struct Worker {
    tables: Tables,
    limiters: Limiters,
    definitions: OpenDefinitions,
    halves: Halves,
    /// The life that the coordinator has not heard of yet: what it sends is meant for the worker before.
    unnoted: Option<Life>,
}

impl Worker {
    /// An empty worker. `seed` must be unpredictable: cancel secrets and nonces are drawn from it.
    #[must_use]
    pub fn new(id: WorkerId, workers: u16, settings: Arc<Settings>, seed: [u8; 32]) -> Worker {
        assert!(id.0 < workers && workers <= WorkerId::COUNT_MAX);
        Worker {
            limiters: Limiters::new(&settings),
            tables: Tables::new(id, settings, seed),
            definitions: OpenDefinitions::default(),
            halves: Halves::default(),
            unnoted: None,
        }
    }

    /// Sets the secret of the process, which all its machines have: the names of prepared statements on servers and the process ids of clients are made
    /// with it.
    pub fn set_secret(&mut self, secret: &[u8; 32]) {
        self.tables.caches.catalog.set_secret(secret);
        self.tables.cancels.pid_key = PidKey::of_secret(secret);
    }

    /// A read-only view of it.
    #[inline]
    #[must_use]
    pub fn view(&self) -> View<'_> {
        self.tables.view()
    }

    /// Checks every invariant that one worker can know.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        invariants::check(&self.tables)
    }

    /// The error for clients of a worker that has panicked.
    #[must_use]
    pub fn last_words() -> Vec<u8> {
        faults::last_words()
    }

    /// After a panic in a step: the clients that can be sent an error. `asked`: the step's actions, none of which was
    /// done; `served`: the connection that the step was about.
    #[must_use]
    pub fn clients_to_notify(&self, asked: &[Action], served: Option<ConnId>) -> Vec<ConnId> {
        faults::clients_to_notify(&self.tables, asked, served)
    }

    /// This worker at this moment, with what `look` asks for.
    #[must_use]
    pub fn snapshot(&self, now: Time, look: Look) -> Snapshot {
        let view = self.tables.view();
        Snapshot {
            worker: Some(self.tables.id),
            now,
            pools: view.pools_shown(now),
            clients: view.clients_shown(look),
            servers: view.servers_shown(now, look),
            queries: queries_shown(&self.tables, look),
            lends: self.tables.counts.lends,
            console_logins: self.tables.counts.console_logins,
            rotations: self.tables.chaos.as_ref().map(|chaos| chaos.rotations()).unwrap_or_default(),
            limits: self.limiters.class_counts(),
            statements: self
                .limiters
                .statement_counts(permits::taken_permits(&self.tables.sessions, &self.tables.servers)),
            refusals: self
                .tables
                .refusals
                .counts(|pool| self.tables.pools.get(pool).map(|pool| pool.key().clone()))
                .collect(),
            past: self.tables.pools.past().collect(),
            sessions: self.tables.sessions.len() as u32,
            steps: self.tables.counts.steps,
            sizes: if look == Look::Connections { view.object_sizes() } else { ObjectSizes::default() },
            suspension: suspension::counts(&self.tables),
            hosts: self.tables.upstreams.iter().map(|(host, upstream)| (host.clone(), upstream)).collect(),
        }
    }

    /// Pools whose rows of the board this worker wants read anew each round.
    #[must_use]
    pub fn shared_pools(&self) -> &[PoolId] {
        self.tables.pools.shared()
    }

    /// One step: deals with an event, and then with what follows from it.
    #[inline(always)]
    fn take_step(
        &mut self,
        now: Time,
        board: &Board,
        actions: &mut Actions,
        deal_with: impl FnOnce(&mut Worker, &mut Step<'_>),
    ) {
        debug_assert!(actions.is_empty(), "the actions of the last step were not carried out");
        self.tables.counts.steps += 1;
        let mut step = Step { now, board, actions };
        deal_with(self, &mut step);
        self.run_followups(&mut step);
        if self.tables.stopping.has_begun() {
            stops::finish_if_done(&mut self.tables, &mut step);
        }
    }

    #[inline(always)]
    fn received(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
        self.tables.stopping.walk.note_change();
        match conn.kind() {
            Kind::Client => self.client_received(step, conn, bytes),
            Kind::Server => self.server_received(step, conn, bytes),
            Kind::Cancel => cancel_requests::canceller_answered(&mut self.tables, step, conn, bytes),
            Kind::Login | Kind::Lookup | Kind::Peer => {}
        }
    }

    fn dispatch(&mut self, step: &mut Step<'_>, event: Event<'_>) {
        // A deadline is noted where one is reached: the walk has some of its own.
        if !matches!(event, Event::RoundEnded | Event::DeadlineReached) {
            self.tables.stopping.walk.note_change();
        }
        match event {
            Event::Received { conn, bytes } => self.received(step, conn, bytes),
            Event::Hangup { conn, why } => sockets::hung_up(&mut self.tables, &mut self.limiters, step, conn, why),
            Event::Blocked { conn } => sockets::blocked(&mut self.tables, step, conn),
            Event::Drained { conn, count } => sockets::drained(&mut self.tables, step, conn, count),
            Event::Opened { conn, ends } => match conn.kind() {
                Kind::Server => server_logins::server_opened(&mut self.tables, step, conn, ends),
                Kind::Cancel => cancel_requests::canceller_opened(&mut self.tables, step, conn),
                Kind::Client | Kind::Login | Kind::Lookup | Kind::Peer => {}
            },
            Event::OpenFailed { conn, why } => match conn.kind() {
                Kind::Server => {
                    lost_servers::server_open_failed(&mut self.tables, step, conn, CloseReason::NotOpened { why })
                }
                Kind::Cancel => cancel_requests::canceller_done(&mut self.tables, step, conn),
                Kind::Client | Kind::Login | Kind::Lookup | Kind::Peer => {}
            },
            Event::Weighed { .. } | Event::Answered { .. } => {}
            Event::Secured { conn, outcome } => match conn.kind() {
                Kind::Server => server_logins::server_secured(&mut self.tables, step, conn, outcome),
                Kind::Cancel => cancel_requests::canceller_secured(&mut self.tables, step, conn, outcome),
                Kind::Client | Kind::Login | Kind::Lookup | Kind::Peer => {}
            },
            Event::Computed { conn, done } => server_logins::login_computed(&mut self.tables, step, conn, done),
            Event::Mail(Mail::ToWorker(_, mail)) => self.delivered(step, mail),
            Event::Mail(other) => unreachable!("mail is delivered where it is addressed: {other:?}"),
            Event::Renewed { life, lost } => {
                self.unnoted = Some(life);
                renewals::begin(&mut self.tables, step, life, lost.map(|lost| *lost));
            }
            Event::Returned(mail) => loans_received::returned(&mut self.tables, step, mail),
            Event::DeadlineReached => self.deadline_reached(step),
            Event::RoundEnded => {
                if self.tables.stopping.walks() {
                    departures::look_who_leaves(&mut self.tables, &mut self.limiters, &mut self.halves, step);
                    self.follow_up_all(step);
                }
                rounds::round_ended(&mut self.tables, step);
            }
        }
    }

    fn delivered(&mut self, step: &mut Step<'_>, mail: ToWorker) {
        if self.unnoted.is_some() && mail.is_by_coordinator() {
            return;
        }
        match mail {
            ToWorker::RenewalNoted { life } => self.unnoted = self.unnoted.filter(|unnoted| *unnoted != life),
            ToWorker::Renewed { worker, life } => {
                renewals::renewed(&mut self.tables, &mut self.definitions, step, worker, life)
            }
            ToWorker::Arrive(arrival) => welcome::arrived(&mut self.tables, &mut self.definitions, step, *arrival),
            ToWorker::Cancel { pid, secret, ticket } => {
                cancel_requests::cancel_requested(&mut self.tables, &mut self.limiters, step, (pid, &secret), ticket)
            }
            ToWorker::Granted(grant) => server_logins::granted(&mut self.tables, &mut self.definitions, step, grant),
            ToWorker::Recall { pool, busy } => closed_servers::recalled(&mut self.tables, step, pool, busy),
            ToWorker::Inquire { pool } => capacity::inquired(&self.tables, step, pool),
            ToWorker::Dropped { pool, count, reserve } => capacity::dropped(&mut self.tables, pool, count, reserve),
            ToWorker::ShareReport { pool, with } => reports::share(&self.tables, step, pool, with),
            ToWorker::Report(told) => reports::told(&mut self.tables, step, &told),
            ToWorker::Forget { pool } => forgotten_pools::forget(&mut self.tables, step, pool),
            ToWorker::Vacate { pool } => empty_databases::vacate(&mut self.tables, step, pool),
            ToWorker::OtherPassword { pool, proved } => reloads::take_password(&mut self.tables, step, pool, proved),
            ToWorker::Count { pool, with_wait_events: waits } => {
                wait_samples::count(&mut self.tables, step, pool, waits)
            }
            ToWorker::Upstream(observed) => hosts::told(&mut self.tables, step, &observed),
            ToWorker::Sized { pool, account } => wait_samples::sized(&mut self.tables, pool, account),
            ToWorker::Allow(allowance) => {
                admission::allowed(&mut self.tables, &mut self.limiters, step, &allowance.0, &allowance.1)
            }
            ToWorker::LoginsCounted(counts) => self.limiters.logins = counts,
            ToWorker::CallBack(call) => {
                permits::called_back(&mut self.tables, &mut self.limiters, step, &call.0, &call.1)
            }
            ToWorker::Shrink { pool, count } => closed_servers::shrink(&mut self.tables, step, pool, count),
            ToWorker::Exchange(Exchange::Lend(lent)) => {
                loans_received::lent_to_us(&mut self.tables, &mut self.definitions, step, *lent)
            }
            ToWorker::Received { pool, life } => loans::lend_received(&mut self.tables, pool, life),
            ToWorker::Exchange(Exchange::Beg { pool, from }) => loans::begged(&mut self.tables, step, pool, from),
            ToWorker::Configure(settings) => self.configure(step, settings),
            ToWorker::HandOver => self.tables.stopping.hand_over(),
            ToWorker::EndWhatStays => self.tables.stopping.end_what_stays(),
            ToWorker::GoOn => self.tables.stopping.go_on(),
            ToWorker::TakeIn(arrived) => arrivals::take_in(&mut self.tables, &mut self.definitions, step, *arrived),
            ToWorker::Defines { definition, session } => {
                definitions::note_definition(&mut self.tables, &mut self.definitions, step, definition, session)
            }
            ToWorker::Noted { definition, session, by } => {
                definitions::definition_noted(&mut self.tables, step, session, &definition, by)
            }
            ToWorker::Settled { server, lost } => {
                self.definitions.settle(self.tables.pools.iter_mut(), step.now, server, lost)
            }
            ToWorker::Stop(stop) => stops::stop(&mut self.tables, stop),
            ToWorker::KillClient { conn, serial } => orders::kill_client(&mut self.tables, conn, serial),
            ToWorker::KillQuery { conn, serial } => {
                cancel_requests::kill_query(&mut self.tables, &mut self.limiters, step, conn, serial)
            }
            ToWorker::Look { ticket, look } => {
                let snapshot = Box::new(self.snapshot(step.now, look));
                step.actions.push(Action::Report { ticket, snapshot });
            }
            ToWorker::Answer { conn, bytes, close } => {
                console::console_answered(&mut self.tables, step, conn, &bytes, close)
            }
        }
    }

    /// Works off the agenda until it is empty.
    #[inline]
    fn run_followups(&mut self, step: &mut Step<'_>) {
        while let Some(next) = self.tables.agenda.next() {
            match next {
                Next::Followup(followup) => self.follow_up(step, followup),
                Next::Place(server) => self.place(step, server),
                Next::Reconsider(session) => self.reconsider(step, session),
                Next::Feed(pool) => placement::feed(&mut self.tables, &mut self.limiters, step, pool),
            }
        }
    }

    /// Works off the agenda's followups at once.
    fn follow_up_all(&mut self, step: &mut Step<'_>) {
        while let Some(followup) = self.tables.agenda.next_followup() {
            self.follow_up(step, followup);
        }
    }

    fn follow_up(&mut self, step: &mut Step<'_>, followup: Followup) {
        match followup {
            Followup::End(conn, end) => {
                ends::end_session(&mut self.tables, &mut self.limiters, &mut self.halves, step, conn, *end)
            }
            Followup::GoOn(conn) if links::leaves_reverted(&mut self.tables, step, conn) => {}
            Followup::GoOn(conn) => self.requests_from_inbox(step, conn),
            Followup::Release(permits) => {
                admission::release_permits(&mut self.tables, &mut self.limiters, step, *permits)
            }
            Followup::Admit(before) => admission::open(&mut self.tables, &mut self.limiters, step, before),
            Followup::AdmitToPin(pool) => admission::admit_to_pin(&mut self.tables, &mut self.limiters, step, pool),
            Followup::ListenerLost(pool, why) => listener::listener_lost(&mut self.tables, step, pool, *why),
            Followup::Settle { pool, server, lost } => {
                definitions::settle_definitions_of(&mut self.tables, &mut self.definitions, step, pool, server, lost)
            }
        }
    }

    /// Takes new settings. Servers of databases that changed are closed when they are released. Clients of databases
    /// that were removed get an error.
    fn configure(&mut self, step: &mut Step<'_>, settings: Arc<Settings>) {
        if settings.global.tests != self.tables.settings.global.tests {
            self.tables.chaos = chaos(&settings, self.tables.id.0);
        }
        let before = std::mem::replace(&mut self.tables.settings, settings);
        self.tables.upstreams.configure(&self.tables.settings);
        let mut servers = reloads::servers_by_pool(&self.tables);
        self.tables.caches.statistics.configure(&self.tables.settings);
        self.tables.caches.slow_lines.configure(&self.tables.settings);
        reloads::take_up(&mut self.tables);
        for id in self.tables.pools.ids() {
            // Ids are common to all workers: this pool may not exist here.
            let Some(pool) = self.tables.pools.get_mut(id) else { continue };
            let own = servers.remove(&id).unwrap_or_default();
            let found = self.tables.settings.database(&pool.key().database);
            match found {
                Some(_) => pool.restore(),
                None => pool.remove(),
            }
            let other_password = reloads::has_another_password(pool, &self.tables.settings, &before);
            if other_password {
                pool.opening_mut().prove(Arc::default());
            }
            let (ordered, asked_for_base) = (pool.rules().orders(), server_login::asks_for_base(pool, &before));
            let concerned = reloads::are_concerned(pool, found.as_deref(), &self.tables.settings);
            let changed = concerned || other_password;
            if let Some(found) = found {
                pool.take_entry(found);
            }
            pool.configure(&self.tables.settings);
            // Its size may be fixed from now on.
            pool.measured_mut().forget_wait_sample();
            let reads_catalogue = pool.rules().follows() && self.tables.settings.reads_catalogue;
            if pool.known_mut().configure(reads_catalogue, changed) {
                self.definitions.doubt_in(pool, step.now);
            }
            if changed {
                pool.entry_changed(other_password);
                let why = match concerned {
                    _ if pool.is_removed() => CloseReason::DatabaseRemoved,
                    true => CloseReason::DatabaseChanged,
                    false => CloseReason::PasswordChanged,
                };
                closed_servers::retire_servers(&mut self.tables, step, own, |_| true, &why);
            } else {
                reloads::retire_outdated(&mut self.tables, step, id, own, (&before, asked_for_base));
            }
            self.obey(step, id, ordered);
            self.tables.agenda.feed(id);
            timers::arm_pool(&mut self.tables, step, id);
            // More sessions may be pinned now.
            self.tables.agenda.admit_to_pin(id);
            self.follow_up_all(step);
        }
        classes::reclassify(&mut self.tables, &before);
        admission::configure_limits(&mut self.tables, &mut self.limiters, step);
        for conn in self.tables.sessions.ids() {
            reloads::reconfigure_session(&mut self.tables, conn);
            self.follow_up_all(step);
        }
        for conn in self.tables.servers.ids() {
            closed_servers::close_fast(&mut self.tables, step, conn);
            self.follow_up_all(step);
        }
        orders::suspend_or_resume(&mut self.tables, step, before.orders.suspension);
        self.follow_up_all(step);
        orders::close_servers_unsent(&mut self.tables, step, before.orders.suspension);
        for conn in self.tables.servers.ids() {
            timers::arm_server(&mut self.tables, conn);
        }
    }

    /// Carries out what was ordered for a pool's database since its orders were `before`.
    fn obey(&mut self, step: &mut Step<'_>, id: PoolId, before: DatabaseOrders) {
        if orders::is_killed(&self.tables, id, before) {
            orders::kill_sessions(&mut self.tables, id);
            self.follow_up_all(step);
            orders::kill_servers(&mut self.tables, step, id);
        }
        orders::close_free(&mut self.tables, step, id);
    }

    fn deadline_reached(&mut self, step: &mut Step<'_>) {
        admission::tidy_limits(&mut self.tables, &mut self.limiters, step);
        self.follow_up_all(step);
        while let Some((at, owner)) = self.tables.deadlines.pop_due(step.now) {
            self.tables.stopping.walk.note_change();
            match owner {
                Owner::Conn(conn) => match conn.kind() {
                    Kind::Client => due::session_due(&mut self.tables, &mut self.limiters, step, conn, at),
                    Kind::Server => due::server_due(&mut self.tables, step, conn, at),
                    Kind::Cancel => due::canceller_due(&mut self.tables, step, conn, at),
                    Kind::Login | Kind::Lookup | Kind::Peer => {}
                },
                Owner::Pool(pool) => due::pool_due(&mut self.tables, step, pool, at),
            }
            self.follow_up_all(step);
        }
    }
}

fn queries_shown(tables: &Tables, look: Look) -> Vec<QueryCounts> {
    if look != Look::Statements {
        return Vec::new();
    }
    let key = |pool| tables.pools.get(pool).map(|pool| pool.key().clone());
    tables.caches.statistics.counts(key).collect()
}

impl machine::Machine for Worker {
    fn step(&mut self, now: Time, board: &Board, event: Event<'_>, actions: &mut Actions) {
        self.take_step(now, board, actions, |worker, step| worker.dispatch(step, event));
    }

    fn receive(&mut self, now: Time, board: &Board, conn: ConnId, bytes: &[u8], actions: &mut Actions) {
        self.take_step(now, board, actions, |worker, step| worker.received(step, conn, bytes));
    }

    fn backlog(&self, conn: ConnId) -> &[u8] {
        self.tables.flow(conn).map_or(&[], Flow::backlog)
    }

    fn keep(&mut self, conn: ConnId, bytes: &[u8]) {
        let mut buffer = self.tables.caches.buffers.take();
        if let Some(flow) = self.tables.flow_mut(conn) {
            flow.keep(bytes, || std::mem::take(&mut buffer));
        }
        self.recycle(buffer);
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.tables.settings.orders.is_suspended() {
            return None;
        }
        let next = self.tables.deadlines.next();
        let others = [self.limiters.next_at(), self.tables.stopping.walks_at()];
        others.into_iter().flatten().fold(next, |next, at| Some(next.map_or(at, |next| next.min(at))))
    }

    fn awaits_round_end(&self) -> bool {
        self.tables.stopping.walks()
            || !self.tables.pools.shared().is_empty()
            || self.tables.agenda.awaits_round_end()
            || self.tables.cancels.are_awaited()
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.tables.caches.buffers.put_back(buffer);
    }
}
