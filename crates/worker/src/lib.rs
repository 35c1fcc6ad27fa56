//! A worker: owns sessions, servers and pools, and decides about them alone.
//!
//! | file | what it decides |
//! |---|---|
//! | `announcing` | which pools learn what a client defines, and when |
//! | `requests` | what is done with a client's bytes, by what its session is doing |
//! | `pinning` | how many sessions may keep their servers, and who waits to |
//! | `server_bytes` | who reads a server's bytes, and what follows |
//! | `limiting` | who begins a transaction within the limits of its class, and who waits to |
//! | `holding` | the same, of who keeps its server between transactions |
//! | `linking` | who gets a server, and what happens to a server that is free |
//! | `lending` | which servers go to another worker of their pool |
//! | `chores` | what a server needs before it is free |
//! | `replaying` | what a server is told so that it is as its session believes |
//! | `listening` | one server that listens for all sessions of its pool |
//! | `opening` | when to ask for capacity, and how a server logs in |
//! | `closing` | how sessions and servers end |
//! | `welcoming` | how a session that has logged in is let in |
//! | `cancelling` | which CancelRequest reaches which query |
//! | `refusing` | how a request is refused that no server has seen |
//! | `hurry` | who can wait for so long and no longer |
//! | `overdue` | how long a query takes, and what becomes of one that takes too long |
//! | `cataloguing` | when a server is asked what its database's names hide |
//! | `sweeping` | which servers are cleared because of what was defined past the pooler |
//! | `sampling` | when a server is asked what the pool's servers wait for |
//! | `consoling` | sessions of the admin database |
//! | `due`, `timing` | when a session, a server or a pool is looked at next; what is done then |
//! | `forgetting` | when a pool that nobody uses is gone |
//! | `yielding` | what is given back because another pool's turn has come |
//! | `steering` | reload, shutdown |
//! | `view`, `showing` | what can be said of it without changing it: who would be served, lines for the log, the console's rows |
//! | `agenda`, `pools`, `stopping` | what is to be done next; its pools; how it is to end |
//!
//! Work that follows from a decision (a server is free, a session has more at hand, a pool may be hungry) is put on
//! three short lists and settled at the end of the step, so nothing recurses.

mod agenda;
mod announcing;
mod cancelling;
mod cancels;
mod cataloguing;
mod chaos;
mod chores;
mod classing;
mod closing;
mod consoling;
mod copying;
mod crowding;
mod dice;
mod due;
mod findings;
mod forgetting;
mod gates;
mod halves;
mod holding;
mod hurry;
mod invariants;
mod lending;
mod limiting;
mod linking;
mod listening;
mod open_definitions;
mod opening;
mod oracle;
mod overdue;
mod pinning;
mod poisoning;
mod pools;
mod refusing;
mod replaying;
mod requests;
mod resting;
mod sampling;
mod server_bytes;
mod showing;
mod steering;
mod stopping;
mod sweeping;
mod timing;
mod unlinked;
mod vacating;
mod view;
mod welcoming;
mod yielding;

use std::sync::Arc;

use agenda::{Agenda, Next};
use cancels::Cancels;
use chaos::Chaos;
use connections::flow::Flow;
use connections::server::{Server, State as ServerState};
use gates::Gates;
use halves::Halves;
use link::caches::Caches;
use link::pool::Pool;
use link::session::{Session, State as SessionState};
use machine::action::{Action, Actions};
use machine::event::{Event, Hangup};
use machine::mail::{Exchange, Mail, ToWorker};
use machine::sabotage::{Fault, does};
use machine::{Settings, Snapshot, Turn};
use open_definitions::OpenDefinitions;
use pools::Pools;
use queueing::board::Board;
use queueing::refusals::Refusals;
use session_state::state::Ears;
use stopping::Stopping;
use units::deadline::Deadlines;
use units::random::Random;
use units::table::Table;
use units::{ConnId, Kind, PoolId, Time, WorkerId, limits};

pub use view::View;

/// What it counts of itself.
#[derive(Debug, Default)]
struct Counts {
    steps: u64,
    /// Servers lent to other workers.
    lends: u64,
    /// Sessions that have departed and whose connections are not closed yet.
    departing: u32,
}

/// One worker.
#[derive(Debug)]
pub struct Worker {
    id: WorkerId,
    settings: Arc<Settings>,
    random: Random,
    sessions: Table<Session>,
    servers: Table<Server>,
    cancels: Cancels,
    pools: Pools,
    deadlines: Deadlines,
    definitions: OpenDefinitions,
    caches: Caches,
    agenda: Agenda,
    halves: Halves,
    stopping: Stopping,
    gates: Gates,
    refusals: Refusals,
    /// Only in tests of tests.
    chaos: Option<Box<Chaos>>,
    counts: Counts,
}

impl Worker {
    /// An empty worker. `seed` must be unpredictable: cancel secrets and nonces are drawn from it.
    #[must_use]
    pub fn new(id: WorkerId, workers: u16, settings: Arc<Settings>, seed: [u8; 32]) -> Worker {
        assert!(id.0 < workers && workers <= WorkerId::COUNT_MAX);
        Worker {
            id,
            chaos: Chaos::new(&settings, id.0),
            caches: Caches::new(&settings, seed),
            gates: Gates::new(&settings),
            refusals: Refusals::default(),
            settings,
            random: Random::new(seed),
            sessions: Table::new(Kind::Client, id.0),
            servers: Table::new(Kind::Server, id.0),
            cancels: Cancels::new(id.0),
            pools: Pools::default(),
            deadlines: Deadlines::default(),
            definitions: OpenDefinitions::default(),
            halves: Halves::default(),
            stopping: Stopping::default(),
            agenda: Agenda::default(),
            counts: Counts::default(),
        }
    }

    /// What the names of prepared statements on servers depend on: to be the same for all workers, and told to nobody.
    pub fn set_secret_of_names(&mut self, secret: &[u8; 32]) {
        self.caches.catalog.set_secret(secret);
    }

    /// What can be said of it without changing it.
    #[inline]
    #[must_use]
    pub fn view(&self) -> View<'_> {
        View {
            id: self.id,
            settings: &self.settings,
            sessions: &self.sessions,
            servers: &self.servers,
            pools: &self.pools,
            gates: &self.gates,
            stopping: &self.stopping,
        }
    }

    /// This worker at this moment; `detail` adds every client and server.
    #[must_use]
    pub fn snapshot(&self, now: Time, detail: bool) -> Snapshot {
        let view = self.view();
        Snapshot {
            worker: Some(self.id),
            now,
            pools: view.pools_shown(now),
            clients: if detail { view.clients_shown() } else { Vec::new() },
            servers: if detail { view.servers_shown(now) } else { Vec::new() },
            lends: self.counts.lends,
            rotations: self.chaos.as_ref().map(|chaos| chaos.rotations()).unwrap_or_default(),
            limits: self.gates.class_counts(),
            statements: self.gates.statement_counts(),
            refusals: self.refusals.counts(|pool| self.pools.get(pool).map(|pool| pool.key.clone())).collect(),
            steps: self.counts.steps,
        }
    }

    /// Pools whose rows of the board this worker wants read anew each round.
    #[must_use]
    pub fn shared_pools(&self) -> &[PoolId] {
        self.pools.shared()
    }

    /// One step: what has happened is dealt with, and then what follows from it.
    #[inline(always)]
    fn take_turn(
        &mut self,
        now: Time,
        board: &Board,
        actions: &mut Actions,
        deal_with: impl FnOnce(&mut Worker, &mut Turn<'_>),
    ) {
        debug_assert!(actions.is_empty(), "the actions of the last step were not carried out");
        self.counts.steps += 1;
        let mut turn = Turn { now, board, actions };
        deal_with(self, &mut turn);
        self.settle(&mut turn);
        if self.stopping.has_begun() {
            self.finish_if_done(&mut turn);
        }
    }

    #[inline(always)]
    fn received(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        match conn.kind() {
            Kind::Client => self.client_received(turn, conn, bytes),
            Kind::Server => self.server_received(turn, conn, bytes),
            Kind::Cancel | Kind::Login => {}
        }
    }

    fn dispatch(&mut self, turn: &mut Turn<'_>, event: Event<'_>) {
        match event {
            Event::Received { conn, bytes } => self.received(turn, conn, bytes),
            Event::Hangup { conn, why } => self.hung_up(turn, conn, why),
            Event::Blocked { conn } => self.blocked(turn, conn),
            Event::Drained { conn, count } => self.drained(turn, conn, count),
            Event::Opened { conn, ends } => match conn.kind() {
                Kind::Server => self.server_opened(turn, conn, ends),
                Kind::Cancel => self.canceller_opened(turn, conn),
                Kind::Client | Kind::Login => {}
            },
            Event::OpenFailed { conn, why } => match conn.kind() {
                Kind::Server => self.server_open_failed(turn, conn, &why),
                Kind::Cancel => self.canceller_done(turn, conn),
                Kind::Client | Kind::Login => {}
            },
            Event::Computed { conn, done } => self.login_computed(turn, conn, done),
            Event::Mail(Mail::ToWorker(_, mail)) => self.delivered(turn, mail),
            Event::Mail(other) => unreachable!("mail is delivered where it is addressed: {other:?}"),
            Event::Returned(mail) => self.returned(turn, mail),
            Event::DeadlineReached => self.deadline_reached(turn),
            Event::RoundEnded => self.round_ended(turn),
        }
    }

    fn delivered(&mut self, turn: &mut Turn<'_>, mail: ToWorker) {
        match mail {
            ToWorker::Arrive(arrival) => self.arrived(turn, *arrival),
            ToWorker::Cancel { pid, secret } => self.cancel_requested(turn, pid, secret),
            ToWorker::Granted(grant) => self.granted(turn, grant),
            ToWorker::Recall { pool, busy } => self.recalled(turn, pool, busy),
            ToWorker::Inquire { pool } => self.inquired(turn, pool),
            ToWorker::Dropped { pool, count, reserve } => self.dropped(pool, count, reserve),
            ToWorker::Forget { pool } => self.forget(turn, pool),
            ToWorker::Vacate { pool } => self.vacate(turn, pool),
            ToWorker::Count { pool, waits } => self.count(turn, pool, waits),
            ToWorker::Sized { pool, account } => self.sized(pool, account),
            ToWorker::Allow(allowance) => self.allowed(turn, &allowance.0, &allowance.1),
            ToWorker::LoginsCounted(counts) => self.gates.logins = counts,
            ToWorker::CallBack(call) => self.called_back(turn, &call.0, &call.1),
            ToWorker::Shrink { pool, count } => self.shrink(turn, pool, count),
            ToWorker::Exchange(Exchange::Lend(lent)) => self.lent_to_us(turn, *lent),
            ToWorker::Received { pool } => self.lend_received(pool),
            ToWorker::Exchange(Exchange::Beg { pool, from }) => self.begged(turn, pool, from),
            ToWorker::Configure(settings) => self.configure(turn, settings),
            ToWorker::Defines { definition, session } => self.hear_of_definition(turn, definition, session),
            ToWorker::Noted { definition, session } => self.definition_noted(turn, session, &definition),
            ToWorker::Settled { server, lost } => {
                self.definitions.settle(self.pools.iter_mut(), turn.now, server, lost)
            }
            ToWorker::Stop(stop) => self.stop(turn, stop),
            ToWorker::Look { ticket, detail } => {
                let snapshot = Box::new(self.snapshot(turn.now, detail));
                turn.actions.push(Action::Report { ticket, snapshot });
            }
            ToWorker::Answer { conn, bytes, close } => self.console_answered(turn, conn, &bytes, close),
        }
    }

    fn returned(&mut self, turn: &mut Turn<'_>, mail: Exchange) {
        match mail {
            Exchange::Lend(lent) => self.lend_returned(turn, *lent),
            // Whoever is begged sees our hunger on the board at its next release.
            Exchange::Beg { pool, from: _ } => self.agenda.publish(pool),
        }
    }

    fn hung_up(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: Hangup) {
        match conn.kind() {
            Kind::Client => self.client_hung_up(turn, conn),
            Kind::Server => self.server_hung_up(turn, conn, why),
            Kind::Cancel => self.canceller_done(turn, conn),
            Kind::Login => {}
        }
    }

    /// Does what follows from the decisions so far, until nothing follows any more.
    #[inline]
    fn settle(&mut self, turn: &mut Turn<'_>) {
        while let Some(next) = self.agenda.next() {
            match next {
                Next::Place(server) => self.place(turn, server),
                Next::Reconsider(session) => self.reconsider(turn, session),
                Next::Feed(pool) => self.feed(turn, pool),
            }
        }
    }

    fn flow(&self, conn: ConnId) -> Option<&Flow> {
        match conn.kind() {
            Kind::Client => self.sessions.get(conn).map(|session| &session.flow),
            Kind::Server => self.servers.get(conn).map(|server| &server.flow),
            Kind::Cancel => self.cancels.get(conn).map(|canceller| &canceller.flow),
            Kind::Login => None,
        }
    }

    fn flow_mut(&mut self, conn: ConnId) -> Option<&mut Flow> {
        match conn.kind() {
            Kind::Client => self.sessions.get_mut(conn).map(|session| &mut session.flow),
            Kind::Server => self.servers.get_mut(conn).map(|server| &mut server.flow),
            Kind::Cancel => self.cancels.get_mut(conn).map(|canceller| &mut canceller.flow),
            Kind::Login => None,
        }
    }

    fn pool(&self, id: PoolId) -> Option<&Pool> {
        self.pools.get(id)
    }

    fn pool_mut(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.pools.get_mut(id)
    }

    /// The socket did not take everything: whoever feeds it is not read until it has.
    fn blocked(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        match conn.kind() {
            Kind::Client => {
                self.balance_session(turn, conn);
                self.arm_linked(conn);
            }
            Kind::Server => self.balance_server(turn, conn),
            Kind::Cancel | Kind::Login => {
                if let Some(flow) = self.flow_mut(conn) {
                    turn.actions.watch(conn, flow, true);
                }
            }
        }
    }

    fn drained(&mut self, turn: &mut Turn<'_>, conn: ConnId, count: usize) {
        let Some(flow) = self.flow_mut(conn) else { return };
        if let Some(buffer) = flow.drained(count) {
            machine::Machine::recycle(self, buffer);
        }
        if let Some(session) = self.sessions.get_mut(conn) {
            session.progress_at = turn.now;
            let left = session.flow.is_clear() && matches!(session.state, SessionState::Leaving { .. });
            if left {
                self.bury(turn, conn, true);
                return;
            }
            let has_news =
                session.tracker.as_ref().and_then(|tracker| tracker.notifications.ears()).is_some_and(Ears::has_news);
            if has_news {
                self.tell_unread(turn, conn);
            } else if session.flow.is_clear() && matches!(session.state, SessionState::Console { .. }) {
                self.console_received(turn, conn);
            }
        }
        self.blocked(turn, conn);
    }

    /// Sets what is read of a session and of its server, from who waits for whom.
    fn balance_session(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let roomy = session.incoming.inbox.len() < limits::CHUNK_LEN_MAX;
        let clear = session.flow.is_clear();
        // Who does not read our own answers (to Sync, Close) is not asked for more questions (I10).
        let heard = session.flow.backlog().len() < 2 * limits::CHUNK_LEN_MAX;
        let (read, server) = match session.state {
            SessionState::Idle { .. } => (heard && (roomy || !session.waits_for_listener()), None),
            SessionState::Welcoming { .. } | SessionState::Waiting { .. } | SessionState::Console { .. } => {
                (roomy && heard, None)
            }
            SessionState::Leaving { .. } => (false, None),
            SessionState::Linked { server } => match self.servers.get_mut(server) {
                Some(link) => {
                    let deep = link.ledger.depth() >= limits::OWED_MAX;
                    // A message that must be whole before it is sent may be longer than a chunk.
                    let gated = link.is_gated();
                    (heard && link.flow.is_clear() && !deep && (roomy || !gated), Some((server, link)))
                }
                None => (roomy, None),
            },
        };
        turn.actions.watch(conn, &mut session.flow, read);
        if let Some((id, link)) = server {
            turn.actions.watch(id, &mut link.flow, clear || does(&self.settings, Fault::ReadOn));
        }
    }

    fn balance_server(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        match server.state {
            ServerState::Linked(session) => self.balance_session(turn, session),
            ServerState::Held if server.flow.is_clear() => {
                turn.actions.watch(conn, &mut server.flow, true);
                self.free(turn, conn);
            }
            _ => turn.actions.watch(conn, &mut server.flow, true),
        }
    }
}

impl machine::Machine for Worker {
    fn step(&mut self, now: Time, board: &Board, event: Event<'_>, actions: &mut Actions) {
        self.take_turn(now, board, actions, |worker, turn| worker.dispatch(turn, event));
    }

    fn receive(&mut self, now: Time, board: &Board, conn: ConnId, bytes: &[u8], actions: &mut Actions) {
        self.take_turn(now, board, actions, |worker, turn| worker.received(turn, conn, bytes));
    }

    fn backlog(&self, conn: ConnId) -> &[u8] {
        self.flow(conn).map_or(&[], Flow::backlog)
    }

    fn keep(&mut self, conn: ConnId, bytes: &[u8]) {
        let mut buffer = self.caches.buffers.take();
        if let Some(flow) = self.flow_mut(conn) {
            flow.keep(bytes, || std::mem::take(&mut buffer));
        }
        self.recycle(buffer);
    }

    fn next_deadline(&self) -> Option<Time> {
        let next = self.deadlines.next();
        match self.gates.next_at() {
            None => next,
            Some(at) => Some(next.map_or(at, |next| next.min(at))),
        }
    }

    fn awaits_round_end(&self) -> bool {
        !self.pools.shared().is_empty() || self.agenda.awaits_round_end()
    }

    fn recycle(&mut self, buffer: Vec<u8>) {
        self.caches.buffers.put_back(buffer);
    }
}
