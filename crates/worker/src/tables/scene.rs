//! For tests of rules: tables with one pool, in which servers and sessions are put as a case wants them.

use std::sync::Arc;

use connections::databases::{Address, Database, Host};
use connections::encryption::Encryption;
use link::caches::Caches;
use link::server::{Group, Identity as ServerIdentity, Server};
use link::session::{Newcomer, Session, WaitFor};
use machine::arrival::Identity;
use machine::observe::Peer;
use machine::pids::PidKey;
use machine::{Action, Actions, CancelSecret, Settings};
use queueing::board::{Board, Cell};
use queueing::classes::DEFAULT;
use units::{ConnId, Life, PoolId, PoolKey, Serial, Time, WorkerId};

use crate::tables::agenda::Agenda;
use crate::tables::owners::Plan;
use crate::tables::step::Step;
use crate::tables::stopping::Stopping;
use crate::tables::view::View;
use crate::tables::{Tables, timers};

pub(crate) const POOL: PoolId = PoolId(0);
/// The worker whose tables these are, and the other home of its pool.
pub(crate) const HERE: WorkerId = WorkerId(0);
pub(crate) const THERE: WorkerId = WorkerId(1);

pub(crate) struct Scene {
    pub(crate) tables: Tables,
    pub(crate) plan: Plan,
    pub(crate) caches: Caches,
    pub(crate) agenda: Agenda,
    pub(crate) board: Board,
    pub(crate) actions: Actions,
    pub(crate) now: Time,
    next_serial: i32,
}

impl Scene {
    pub(crate) fn new(change: impl FnOnce(&mut Settings)) -> Scene {
        let mut settings = Settings { workers: 2, ..Settings::default() };
        change(&mut settings);
        let settings = Arc::new(settings);
        let mut tables = Tables::new(HERE, &settings, [1; 32]);
        let host = Address { host: Host::Name("db".to_owned()), port: 5432 };
        let database = Arc::new(Database::new("d", vec![host]));
        tables.pools.add(POOL, PoolKey { database: "d".into(), user: "u".into() }, 2, database, &settings);
        Scene {
            tables,
            caches: Caches::new(&settings, [1; 32]),
            plan: Plan { id: HERE, life: Life::default(), settings, stopping: Stopping::default() },
            agenda: Agenda::default(),
            board: Board::new(2),
            actions: Actions::new(),
            now: Time(1_000_000_000),
            next_serial: 1,
        }
    }

    /// Changes the settings, as far as the pool's rules follow them.
    pub(crate) fn configure(&mut self, change: impl FnOnce(&mut Settings)) {
        change(Arc::make_mut(&mut self.plan.settings));
        self.tables.pools[POOL].configure(&self.plan.settings);
    }

    /// Runs a rule.
    pub(crate) fn run<T>(&mut self, rule: impl FnOnce(&mut Tables, &mut Step<'_>) -> T) -> T {
        let machine = machine::Step { now: self.now, board: &self.board, actions: &mut self.actions };
        let mut step = Step { machine, plan: &self.plan, caches: &mut self.caches, agenda: &mut self.agenda };
        let done = rule(&mut self.tables, &mut step);
        while let Some(timer) = step.agenda.next_timer() {
            timers::arm(&mut self.tables, &step, timer);
        }
        done
    }

    pub(crate) fn view(&self) -> View<'_> {
        self.tables.view(&self.plan, &self.caches)
    }

    /// What rules have asked for since this was called last.
    pub(crate) fn asked(&mut self) -> Vec<Action> {
        self.actions.take()
    }

    /// The board shows that a session has waited there since then; or that none waits, and so many servers are idle.
    pub(crate) fn show(&mut self, waiting_since: Time, idle: u32) {
        self.board.set(POOL, THERE, Cell { waiting_since, idle, ..Cell::CALM });
    }

    /// A server that became idle then.
    pub(crate) fn idle_server(&mut self, idle_since: Time) -> ConnId {
        let (tables, serial) = (&mut self.tables, Serial(self.next_serial));
        self.next_serial += 1;
        let pool = &mut tables.pools.table[POOL];
        let address = Arc::new(pool.take_host(&tables.pools.upstreams, idle_since));
        let parameters = Arc::new(self.caches.tracked.empty());
        let database = Arc::clone(pool.database());
        let encryption = Encryption::new(&self.plan.settings.global.tls, &address);
        let identity = |name| ServerIdentity::new((serial, name), &address, encryption, database, 0, idle_since);
        let make = |name| Server::connecting(idle_since, POOL, identity(name), parameters);
        let conn = tables.servers.insert_with(make);
        pool.servers_mut().enter(Group::Opening);
        let server = &mut tables.servers[conn];
        server.log_in();
        pool.turn(idle_since, conn, server, Server::free, self.agenda.unpublished());
        conn
    }

    pub(crate) fn session(&mut self) -> ConnId {
        self.session_with(CancelSecret::Short([0; 4]))
    }

    /// A session whose client has this secret for cancel requests.
    pub(crate) fn session_with(&mut self, cancel_secret: CancelSecret) -> ConnId {
        let now = self.now;
        let parameters = Arc::new(self.caches.tracked.empty());
        let serial = Serial(self.next_serial);
        self.next_serial += 1;
        let make = |name| {
            let peer = Peer::Unix { pid: 1, uid: 1 };
            let (database, user) = ("d".into(), "u".into());
            let identity = Identity {
                serial,
                name,
                database,
                user,
                peer,
                encryption: None,
                connected_at: now,
                cancel_secret,
                pid_key: PidKey::default(),
                replication: None,
            };
            let identity = Arc::new(identity);
            let (pool, tracker, console) = (POOL, None, None);
            let newcomer =
                Newcomer { pool, identity, parameters, tracker, console, reports_limits: false, deadline_ms: 0 };
            let mut session = Session::new(now, newcomer);
            session.let_in(now);
            session
        };
        let conn = self.tables.sessions.insert_with(make);
        self.tables.pools[POOL].counts_mut().session_came();
        conn
    }

    /// A session that has waited for a server since then.
    pub(crate) fn waiter(&mut self, since: Time) -> ConnId {
        let conn = self.session();
        self.begin_waiting(conn, since);
        conn
    }

    /// A session has waited for a server since then.
    pub(crate) fn begin_waiting(&mut self, conn: ConnId, since: Time) {
        let ticket = self.tables.pools[POOL].queue_mut().push(DEFAULT, conn, since, since);
        self.tables.sessions[conn].wait(since, WaitFor::Server, ticket, false);
    }
}
