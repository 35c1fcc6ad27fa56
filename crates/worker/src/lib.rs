//! A worker: owns sessions, servers and pools, and decides about them alone.
//!
//! [`Worker`] takes an event and calls the function that decides about it. Then it does what follows from the decision,
//! before the next event. The decisions are functions on the [owners](tables::owners) of the worker's state that they touch, in
//! folders that use only those above them:
//!
//! | folder | what it decides |
//! |---|---|
//! | `tables` | nothing: the owners of connections, pools, limiters and timers, the agenda, and read-only views |
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

use connections::flow::Flow;
use link::caches::Caches;
use link::server::CloseReason;
use machine::action::{Action, Actions};
use machine::event::Event;
use machine::mail::{Exchange, Mail, ToWorker};
use machine::pids::PidKey;
use machine::snapshot::{Look, ObjectSizes, QueryCounts};
use machine::{Settings, Snapshot, Violation};
use queueing::board::Board;
pub use tables::view::View;
use units::deadline::Owner;
use units::{ConnId, Kind, Life, PoolId, Time, WorkerId};

use crate::events::{
    arrivals, departures, due, forgotten_pools, loans_received, orders, placement, reloads, renewals, rounds,
    server_logins, sockets, stops,
};
use crate::limits::{admission, classes, permits};
use crate::servers::{capacity, closed_servers, empty_databases, listener, loans, wait_samples};
use crate::sessions::{
    cancel_requests, console, definitions, ends, faults, hosts, links, lost_servers, reports, silent_hosts, welcome,
};
use crate::tables::agenda::{Agenda, Next};
use crate::tables::followups::Followup;
use crate::tables::owners::{Plan, Pools};
use crate::tables::stages::Stage;
use crate::tables::step::Step;
use crate::tables::stopping::Stopping;
use crate::tables::{Tables, suspension, timers};

/// One worker.
#[derive(Debug)]
pub struct Worker {
    plan: Plan,
    caches: Caches,
    agenda: Agenda,
    tables: Tables,
    /// The life that the coordinator has not heard of yet: what it sends is meant for the worker before.
    unnoted: Option<Life>,
}

impl Worker {
    /// An empty worker. `seed` must be unpredictable: cancel secrets and nonces are drawn from it.
    #[must_use]
    pub fn new(id: WorkerId, workers: u16, settings: Arc<Settings>, seed: [u8; 32]) -> Worker {
        assert!(id.0 < workers && workers <= WorkerId::COUNT_MAX);
        Worker {
            tables: Tables::new(id, &settings, seed),
            caches: Caches::new(&settings, seed),
            agenda: Agenda::default(),
            plan: Plan { id, life: Life::default(), settings, stopping: Stopping::default() },
            unnoted: None,
        }
    }

    /// Sets the secret of the process, which all its machines have: the names of prepared statements on servers and the process ids of clients are made
    /// with it.
    pub fn set_secret(&mut self, secret: &[u8; 32]) {
        self.caches.catalog.set_secret(secret);
        self.tables.servers.cancels.pid_key = PidKey::of_secret(secret);
    }

    /// A read-only view of it.
    #[inline]
    #[must_use]
    pub fn view(&self) -> View<'_> {
        self.tables.view(&self.plan, &self.caches)
    }

    /// Checks every invariant that one worker can know.
    ///
    /// # Errors
    /// The first that does not hold.
    pub fn check(&self) -> Result<(), Violation> {
        let Tables { sessions, servers, pools, .. } = &self.tables;
        invariants::check(sessions, servers, pools, &self.plan, self.agenda.is_empty())
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
        faults::clients_to_notify(&self.tables.sessions, &self.tables.servers, asked, served)
    }

    /// This worker at this moment, with what `look` asks for.
    #[must_use]
    pub fn snapshot(&self, now: Time, look: Look) -> Snapshot {
        self.tables.snapshot(&self.plan, &self.caches, now, look)
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
        deal_with: impl FnOnce(&mut Tables, &mut Step<'_>),
    ) {
        debug_assert!(actions.is_empty(), "the actions of the last step were not carried out");
        let Worker { plan, caches, agenda, tables, .. } = self;
        tables.clock.steps += 1;
        let mut step = Step { machine: machine::Step { now, board, actions }, plan, caches, agenda };
        deal_with(tables, &mut step);
        tables.run_followups(&mut step);
        if plan.stopping.has_begun() {
            stops::finish_if_done(&tables.sessions, &tables.servers, &mut plan.stopping, actions);
        }
    }

    /// The plan is the same for a whole step: what an event changes of it is changed first. `None`: nothing else is to be
    /// done about the event, or the agenda has it.
    fn change_plan<'e>(&mut self, event: Event<'e>) -> Option<Event<'e>> {
        let mail = match event {
            Event::Mail(Mail::ToWorker(to, mail)) => {
                if self.unnoted.is_some() && mail.is_by_coordinator() {
                    return None;
                }
                match mail {
                    ToWorker::RenewalNoted { .. }
                    | ToWorker::Configure(_)
                    | ToWorker::HandOver
                    | ToWorker::EndWhatStays
                    | ToWorker::GoOn
                    | ToWorker::Stop(_) => mail,
                    mail => return Some(Event::Mail(Mail::ToWorker(to, mail))),
                }
            }
            Event::Renewed { life, lost } => {
                self.unnoted = Some(life);
                self.plan.life = life;
                return Some(Event::Renewed { life, lost });
            }
            event => return Some(event),
        };
        let walk = &mut self.tables.clock.walk;
        walk.note_change();
        match mail {
            ToWorker::RenewalNoted { life } => self.unnoted = self.unnoted.filter(|unnoted| *unnoted != life),
            ToWorker::Configure(settings) => {
                let before = std::mem::replace(&mut self.plan.settings, settings);
                self.agenda.then(Stage::Reload(before));
            }
            ToWorker::HandOver if self.plan.stopping.hands_over() => {}
            ToWorker::HandOver => {
                self.plan.stopping.hand_over();
                walk.begin();
            }
            ToWorker::EndWhatStays => {
                self.plan.stopping.end_what_stays();
                walk.begin();
            }
            ToWorker::GoOn => self.plan.stopping.go_on(),
            ToWorker::Stop(stop) => {
                if self.plan.stopping.begin(stop) {
                    walk.begin();
                    self.agenda.then(Stage::Stop);
                }
            }
            _ => unreachable!("other mail changes no plan"),
        }
        None
    }
}

impl Tables {
    /// This worker at this moment, with what `look` asks for.
    fn snapshot(&self, plan: &Plan, caches: &Caches, now: Time, look: Look) -> Snapshot {
        let view = self.view(plan, caches);
        Snapshot {
            worker: Some(plan.id),
            now,
            pools: view.pools_shown(now),
            clients: view.clients_shown(look),
            servers: view.servers_shown(now, look),
            queries: queries_shown(&self.pools, caches, look),
            lends: self.pools.lends,
            console_logins: self.sessions.console_logins,
            rotations: self.servers.chaos.as_ref().map(|chaos| chaos.rotations()).unwrap_or_default(),
            limits: self.limiters.class_counts(),
            statements: self.limiters.statement_counts(permits::taken_permits(&self.sessions, &self.servers)),
            refusals: self.pools.refusals.counts(|pool| self.pools.get(pool).map(|pool| pool.key().clone())).collect(),
            past: self.pools.past().collect(),
            sessions: self.sessions.len() as u32,
            steps: self.clock.steps,
            sizes: if look == Look::Connections { view.object_sizes() } else { ObjectSizes::default() },
            suspension: suspension::counts(&self.sessions, &self.servers, plan),
            hosts: self.pools.upstreams.iter().map(|(host, upstream)| (host.clone(), upstream)).collect(),
            primaries: self
                .pools
                .upstreams
                .primaries()
                .iter()
                .map(|(hosts, one)| (Arc::clone(hosts), one.clone()))
                .collect(),
        }
    }

    #[inline(always)]
    fn received(&mut self, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
        self.clock.note_event(step.now);
        match conn.kind() {
            Kind::Client => self.client_received(step, conn, bytes),
            Kind::Server => self.server_received(step, conn, bytes),
            Kind::Cancel => cancel_requests::canceller_answered(
                &self.sessions,
                &mut self.servers,
                &mut self.pools,
                step,
                conn,
                bytes,
            ),
            Kind::Login | Kind::Lookup | Kind::Peer => {}
        }
    }

    fn dispatch(&mut self, step: &mut Step<'_>, event: Event<'_>) {
        let Tables { sessions, servers, pools, clock, .. } = self;
        // A deadline is noted where one is reached: the walk has some of its own.
        if !matches!(event, Event::RoundEnded | Event::DeadlineReached) {
            clock.note_event(step.now);
        }
        match event {
            Event::Received { conn, bytes } => self.received(step, conn, bytes),
            Event::Hangup { conn, why } => sockets::hung_up(sessions, servers, pools, step, conn, why),
            Event::Blocked { conn } => sockets::blocked(sessions, servers, pools, step, conn),
            Event::Drained { conn, count } => sockets::drained(sessions, servers, pools, step, conn, count),
            Event::Opened { conn, ends } => match conn.kind() {
                Kind::Server => server_logins::server_opened(sessions, servers, pools, step, conn, ends),
                Kind::Cancel => cancel_requests::canceller_opened(sessions, servers, pools, step, conn),
                Kind::Client | Kind::Login | Kind::Lookup | Kind::Peer => {}
            },
            Event::OpenFailed { conn, why } => match conn.kind() {
                Kind::Server => lost_servers::server_open_failed(
                    sessions,
                    servers,
                    pools,
                    step,
                    conn,
                    CloseReason::NotOpened { why },
                ),
                Kind::Cancel => cancel_requests::canceller_done(sessions, servers, pools, step, conn),
                Kind::Client | Kind::Login | Kind::Lookup | Kind::Peer => {}
            },
            Event::Weighed { .. } | Event::Answered { .. } => {}
            Event::Secured { conn, outcome } => match conn.kind() {
                Kind::Server => server_logins::server_secured(sessions, servers, pools, step, conn, outcome),
                Kind::Cancel => cancel_requests::canceller_secured(sessions, servers, pools, step, conn, outcome),
                Kind::Client | Kind::Login | Kind::Lookup | Kind::Peer => {}
            },
            Event::Computed { conn, done } => server_logins::login_computed(sessions, servers, pools, step, conn, done),
            Event::Mail(Mail::ToWorker(_, mail)) => self.delivered(step, mail),
            Event::Mail(other) => unreachable!("mail is delivered where it is addressed: {other:?}"),
            Event::Renewed { life: _, lost } => {
                renewals::begin(sessions, servers, step, lost.map(|lost| *lost));
            }
            Event::Returned(mail) => loans_received::returned(servers, pools, step, mail),
            Event::DeadlineReached => self.deadline_reached(step),
            Event::RoundEnded => {
                if step.plan.stopping.walks() {
                    departures::look_who_leaves(self, step);
                    return step.agenda.then(Stage::EndRound);
                }
                rounds::round_ended(sessions, servers, pools, step);
            }
        }
    }

    fn delivered(&mut self, step: &mut Step<'_>, mail: ToWorker) {
        let Tables { sessions, servers, pools, limiters, .. } = self;
        match mail {
            ToWorker::Renewed { worker, life } => renewals::renewed(sessions, pools, step, worker, life),
            ToWorker::Arrive(arrival) => welcome::arrived(sessions, servers, pools, step, *arrival),
            ToWorker::Cancel { pid, secret, ticket } => {
                cancel_requests::cancel_requested(sessions, servers, pools, step, (pid, &secret), ticket)
            }
            ToWorker::Granted(grant) => server_logins::granted(sessions, servers, pools, step, grant),
            ToWorker::Recall { pool, busy } => closed_servers::recalled(servers, pools, step, pool, busy),
            ToWorker::Inquire { pool } => capacity::inquired(pools, step, pool),
            ToWorker::Dropped { pool, count, reserve } => capacity::dropped(pools, step, pool, count, reserve),
            ToWorker::ShareReport { pool, with } => reports::share(pools, step, pool, with),
            ToWorker::Report(told) => reports::told(sessions, servers, pools, step, &told),
            ToWorker::Forget { pool } => forgotten_pools::forget(sessions, pools, step, pool),
            ToWorker::Vacate { pool } => empty_databases::vacate(servers, pools, step, pool),
            ToWorker::OtherPassword { pool, proved } => {
                reloads::take_password(sessions, servers, pools, step, pool, proved)
            }
            ToWorker::Count { pool, with_wait_events: waits } => wait_samples::count(servers, pools, step, pool, waits),
            ToWorker::Upstream(observed) => hosts::told(pools, step, &observed),
            ToWorker::Primary(decision) => hosts::decided(sessions, servers, pools, step, &decision),
            ToWorker::Sized { pool, account } => wait_samples::sized(pools, pool, account),
            ToWorker::Allow(allowance) => admission::allowed(self, step, &allowance.0, &allowance.1),
            ToWorker::LoginsCounted(counts) => limiters.logins = counts,
            ToWorker::CallBack(call) => permits::called_back(limiters, step, &call.0, &call.1),
            ToWorker::Shrink { pool, count } => closed_servers::shrink(servers, pools, step, pool, count),
            ToWorker::Exchange(Exchange::Lend(lent)) => {
                loans_received::lent_to_us(sessions, servers, pools, step, *lent)
            }
            ToWorker::Received { pool, life } => loans::lend_received(pools, step, pool, life),
            ToWorker::Exchange(Exchange::Beg { pool, from }) => loans::begged(servers, pools, step, pool, from),
            ToWorker::TakeIn(arrived) => arrivals::take_in(sessions, servers, pools, step, *arrived),
            ToWorker::Defines { definition, session } => definitions::note_definition(pools, step, definition, session),
            ToWorker::Noted { definition, session, by } => {
                definitions::definition_noted(sessions, servers, step, session, &definition, by)
            }
            ToWorker::Settled { server, lost } => pools.settle_definitions(step.now, server, lost),
            ToWorker::RenewalNoted { .. }
            | ToWorker::Configure(_)
            | ToWorker::HandOver
            | ToWorker::EndWhatStays
            | ToWorker::GoOn
            | ToWorker::Stop(_) => unreachable!("the plan has been changed by it"),
            ToWorker::KillClient { conn, serial } => orders::kill_client(sessions, step, conn, serial),
            ToWorker::KillQuery { conn, serial } => {
                cancel_requests::kill_query(sessions, servers, pools, step, conn, serial)
            }
            ToWorker::Look { ticket, look } => {
                let snapshot = Box::new(self.snapshot(step.plan, step.caches, step.now, look));
                step.actions.push(Action::Report { ticket, snapshot });
            }
            ToWorker::Answer { conn, bytes, close } => console::console_answered(sessions, step, conn, &bytes, close),
        }
    }

    /// Works off the agenda until it is empty.
    #[inline]
    fn run_followups(&mut self, step: &mut Step<'_>) {
        while let Some(next) = step.agenda.next() {
            match next {
                Next::LeaveLimits(departure) => permits::has_left(&mut self.limiters, step, departure),
                Next::Followup(followup) => self.follow_up(step, followup),
                Next::Arm(timer) => timers::arm(self, step, timer),
                Next::Stage(stage) => self.go_on(step, stage),
                Next::Place(server) => self.place(step, server),
                Next::Reconsider(session) => self.reconsider(step, session),
                Next::Feed(pool) => placement::feed(&mut self.sessions, &mut self.servers, &mut self.pools, step, pool),
            }
        }
    }

    fn go_on(&mut self, step: &mut Step<'_>, stage: Stage) {
        let Tables { sessions, servers, pools, clock, .. } = self;
        match stage {
            Stage::EndRound => rounds::round_ended(sessions, servers, pools, step),
            Stage::Deadlines => self.next_deadline_reached(step),
            Stage::Stop => stops::refuse_waiting(sessions, step),
            Stage::Reload(before) => reloads::begin(servers, pools, step, before),
            Stage::Pools(reload) => reloads::reload_next_pool(sessions, servers, pools, step, reload),
            Stage::Limits(before) => {
                classes::reclassify(sessions, servers, pools, step, &before);
                admission::configure_limits(self, step);
                step.agenda.then(Stage::Sessions(before, self.sessions.ids().into_iter()));
            }
            Stage::KillServers(pool) => {
                orders::kill_servers(servers, pools, step, pool);
                reloads::finish_pool(servers, pools, step, pool);
            }
            Stage::Sessions(before, rest) => reloads::reload_next_session(sessions, servers, pools, step, before, rest),
            Stage::Servers(before, rest) => reloads::reload_next_server(sessions, servers, pools, step, before, rest),
            Stage::Suspend(before) => {
                orders::suspend_or_resume(sessions, servers, clock, step, before.orders.suspension);
                step.agenda.then(Stage::CloseUnsent(before));
            }
            Stage::CloseUnsent(before) => {
                orders::close_servers_unsent(servers, pools, step, before.orders.suspension);
                reloads::arm_servers(servers, step);
            }
        }
    }

    fn follow_up(&mut self, step: &mut Step<'_>, followup: Followup) {
        let Tables { sessions, servers, pools, clock, .. } = self;
        match followup {
            Followup::End(conn, end) => {
                // Without sessions the pool's last server can move.
                clock.walk.note_change();
                ends::end_session(sessions, servers, pools, step, conn, *end);
            }
            Followup::GoOn(conn) if links::leaves_reverted(sessions, servers, pools, step, conn) => {}
            Followup::GoOn(conn) => self.requests_from_inbox(step, conn),
            Followup::HostChanged(host) => hosts::host_changed(sessions, servers, pools, step, &host),
            Followup::Release(permits) => admission::release_permits(self, step, *permits),
            Followup::Admit(before) => admission::open(self, step, before),
            Followup::AdmitToPin(pool) => admission::admit_to_pin(sessions, servers, pools, step, pool),
            Followup::ListenerLost(pool, why) => listener::listener_lost(sessions, servers, pools, step, pool, *why),
            Followup::Settle { pool, server, lost } => {
                definitions::settle_definitions_of(pools, step, pool, server, lost)
            }
        }
    }

    fn deadline_reached(&mut self, step: &mut Step<'_>) {
        admission::tidy_limits(self, step);
        if self.clock.look_at.is_some_and(|at| at <= step.now) {
            let Tables { sessions, servers, pools, clock, .. } = self;
            clock.look_at = silent_hosts::look(sessions, servers, pools, step);
        }
        step.agenda.then(Stage::Deadlines);
    }

    /// The next deadline that has passed, if there is one.
    fn next_deadline_reached(&mut self, step: &mut Step<'_>) {
        let Tables { sessions, servers, pools, clock, .. } = self;
        let Some((at, owner)) = clock.deadlines.pop_due(step.now) else { return };
        clock.note_event(step.now);
        match owner {
            Owner::Conn(conn) => match conn.kind() {
                Kind::Client => due::session_due(self, step, conn, at),
                Kind::Server => due::server_due(self, step, conn, at),
                Kind::Cancel => due::canceller_due(sessions, servers, pools, step, conn, at),
                Kind::Login | Kind::Lookup | Kind::Peer => {}
            },
            Owner::Pool(pool) => due::pool_due(sessions, servers, pools, step, pool, at),
        }
        step.agenda.then(Stage::Deadlines);
    }
}

fn queries_shown(pools: &Pools, caches: &Caches, look: Look) -> Vec<QueryCounts> {
    if look != Look::Statements {
        return Vec::new();
    }
    let key = |pool| pools.get(pool).map(|pool| pool.key().clone());
    caches.statistics.counts(key).collect()
}

impl machine::Machine for Worker {
    fn step(&mut self, now: Time, board: &Board, event: Event<'_>, actions: &mut Actions) {
        let event = match event {
            Event::Mail(_) | Event::Renewed { .. } => self.change_plan(event),
            event => return self.take_step(now, board, actions, |tables, step| tables.dispatch(step, event)),
        };
        self.take_step(now, board, actions, |tables, step| {
            if let Some(event) = event {
                tables.dispatch(step, event);
            }
        });
    }

    fn receive(&mut self, now: Time, board: &Board, conn: ConnId, bytes: &[u8], actions: &mut Actions) {
        self.take_step(now, board, actions, |tables, step| tables.received(step, conn, bytes));
    }

    fn backlog(&self, conn: ConnId) -> &[u8] {
        self.tables.flow(conn).map_or(&[], Flow::backlog)
    }

    fn keep(&mut self, conn: ConnId, bytes: &[u8]) {
        let mut buffer = self.caches.buffers.take();
        if let Some(flow) = tables::flow_mut(&mut self.tables.sessions, &mut self.tables.servers, conn) {
            flow.keep(bytes, || std::mem::take(&mut buffer));
        }
        self.recycle(buffer);
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.plan.settings.orders.is_suspended() {
            return None;
        }
        let Tables { clock, limiters, .. } = &self.tables;
        let next = match (clock.deadlines.next(), clock.look_at) {
            (Some(next), Some(look_at)) => Some(next.min(look_at)),
            (next, None) => next,
            (None, look_at) => look_at,
        };
        if limiters.next_at().is_none() && !self.plan.stopping.walks() {
            return next;
        }
        let walk_at = clock.walk.next_at().filter(|_| self.plan.stopping.walks());
        let others = [limiters.next_at(), walk_at];
        others.into_iter().flatten().fold(next, |next, at| Some(next.map_or(at, |next| next.min(at))))
    }

    fn awaits_round_end(&self) -> bool {
        self.plan.stopping.walks()
            || !self.tables.pools.shared().is_empty()
            || self.agenda.awaits_round_end()
            || self.tables.servers.cancels.are_awaited()
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.caches.buffers.put_back(buffer);
    }
}
