//! Reload, shutdown, and a worker's account of itself.

use std::sync::Arc;
use std::time::Duration;

use connections::databases::Database;
use connections::server::{Chore, Group, Server, State as ServerState};
use link::pool::{Pool, Rules};
use link::session::{Session, State};
use link::surplus::SURPLUS;
use machine::action::Action;
use machine::mail::{Counted, Stop, ToCoordinator};
use machine::pids::virtual_pid;
use machine::sabotage::{Fault, does};
use machine::snapshot::{ClientSnapshot, FidelitySnapshot, PoolSnapshot, ServerSnapshot, Snapshot};
use machine::{Settings, Turn};
use queueing::sizing::Account;
use queueing::waits::Asked;
use session_state::parameters::Tracked;
use session_state::state::Pins;
use settings::PoolMode;
use units::{ConnId, PoolId, Time, limits};

use crate::Worker;
use crate::chaos::Chaos;
use crate::linking::DATABASE_REMOVED;

impl Worker {
    /// New settings hold from now on. Servers of databases that changed are closed when they are released, and clients of
    /// databases that are gone are told so.
    pub(super) fn configure(&mut self, turn: &mut Turn<'_>, settings: Arc<Settings>) {
        if settings.global.tests != self.settings.global.tests {
            self.chaos = Chaos::new(&settings, self.id.0);
        }
        let before = std::mem::replace(&mut self.settings, settings);
        for id in self.pools.ids() {
            let Some(pool) = self.pools.get_mut(id) else { continue };
            let found = self.settings.database(&pool.key.database);
            // Passwords may have changed with the rest.
            pool.keys = None;
            pool.removed = found.is_none();
            let changed = found.as_ref().is_none_or(|found| concerns_servers(found, &pool.database));
            if let Some(found) = found {
                pool.database = found;
            }
            pool.rules = Rules::new(&pool.key, &pool.database, &self.settings);
            let removed = pool.removed;
            // Its size may be given from now on.
            if let Some(waits) = &mut pool.waits {
                waits.forget();
            }
            if pool.known.configure(pool.rules.follows() && self.settings.reads_catalogue, changed) {
                self.doubt_open_definitions(turn.now, id);
            }
            if changed {
                let why = if removed { DATABASE_REMOVED } else { "database configuration changed" };
                self.retire_servers(turn, |server| server.pool == id, why);
            }
            self.agenda.feed(id);
            self.arm_pool(turn, id);
            // There may be room now.
            self.admit_to_pin(turn, id);
        }
        self.reclassify(&before);
        self.configure_gates(turn);
        for conn in self.sessions.ids() {
            self.reconfigure_session(turn, conn);
        }
        for conn in self.servers.ids() {
            self.close_fast(turn, conn);
        }
        for conn in self.servers.ids() {
            self.arm_server(conn);
        }
    }

    /// A shorter time-out holds at once; a session whose database is gone, and that is not linked, is closed.
    fn reconfigure_session(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let removed = self.pool(session.pool).is_some_and(|pool| pool.removed);
        let free = matches!(session.state, State::Idle { .. } | State::Waiting { .. } | State::Welcoming { .. });
        if removed && free && !does(&self.settings, Fault::RemoveSilently) {
            self.refuse_session(turn, conn, wire::sqlstate::ADMIN_SHUTDOWN, DATABASE_REMOVED);
        } else {
            self.arm_session(conn);
        }
    }

    /// The coordinator looks for the pool's best size.
    pub(super) fn count(&mut self, turn: &mut Turn<'_>, id: PoolId, waits: bool) {
        let mut counted = Counted {
            pool: id,
            worker: self.id,
            at: turn.now,
            transactions: 0,
            transaction_us: 0,
            wait_us: 0,
            waiting: 0,
            open: 0,
            waits: None,
        };
        if let Some(pool) = self.pool_mut(id) {
            counted.transactions = pool.totals.transactions;
            counted.transaction_us = pool.totals.transaction_us;
            counted.wait_us = pool.totals.wait_us;
            counted.waiting = pool.queue.len();
            counted.open = pool.open();
            counted.waits = pool.waits.as_deref_mut().and_then(Asked::take);
        }
        let mail = ToCoordinator::Counted(Box::new(counted));
        turn.actions.post_to_coordinator(mail);
        if waits {
            self.want_waits(turn, id);
        }
    }

    pub(super) fn sized(&mut self, id: PoolId, account: Arc<Account>) {
        if let Some(pool) = self.pool_mut(id) {
            pool.sizing = Some(account);
        }
    }

    /// The pool has become smaller: so many servers are too many here.
    pub(super) fn shrink(&mut self, turn: &mut Turn<'_>, pool: PoolId, count: u32) {
        let Some(entry) = self.pool_mut(pool) else { return };
        entry.surplus = count;
        while let Some(entry) = self.pool_mut(pool).filter(|entry| entry.surplus > 0) {
            let Some(idle) = entry.idle.front().copied() else { return };
            entry.surplus -= 1;
            self.close_server(turn, idle, SURPLUS);
        }
    }

    fn retire_servers(&mut self, turn: &mut Turn<'_>, which: impl Fn(&Server) -> bool, why: &'static str) {
        for conn in self.servers.ids() {
            let Some(server) = self.servers.get_mut(conn) else { continue };
            if !which(server) {
                continue;
            }
            server.close_needed = Some(why);
            if matches!(server.state.group(), Group::Idle) || matches!(server.state, ServerState::Listening) {
                self.close_server(turn, conn, why);
            } else {
                self.close_fast(turn, conn);
            }
        }
    }

    /// With server_fast_close, a server that is to be closed does not wait for its client in session mode either, only for
    /// the transaction. The client is closed too: it would go on without what it has set. Says whether it was done.
    //= pgbouncer config.md#server_fast_close
    pub(super) fn close_fast(&mut self, turn: &mut Turn<'_>, conn: ConnId) -> bool {
        if !self.settings.global.servers.server_fast_close {
            return false;
        }
        let Some(server) = self.servers.get(conn).filter(|server| server.is_clean() && !server.gated) else {
            return false;
        };
        let (Some(why), Some(session)) = (server.close_needed, server.session()) else { return false };
        let in_session_mode = self.pool(server.pool).is_some_and(|pool| pool.rules.mode == PoolMode::Session);
        let torn = self.sessions.get(session).is_some_and(Session::is_torn);
        if !in_session_mode || torn {
            return false;
        }
        self.close_server(turn, conn, why);
        self.refuse_session(turn, session, wire::sqlstate::ADMIN_SHUTDOWN, why);
        true
    }

    pub(super) fn stop(&mut self, turn: &mut Turn<'_>, stop: Stop) {
        if !self.stopping.begin(stop) {
            return;
        }
        if !self.stopping.refuses_new_work() {
            return;
        }
        for conn in self.sessions.ids() {
            let queued = self
                .sessions
                .get(conn)
                .is_some_and(|session| matches!(session.state, State::Waiting { .. } | State::Welcoming { .. }));
            if queued {
                self.refuse_session(turn, conn, wire::sqlstate::ADMIN_SHUTDOWN, "server shutting down");
            }
        }
    }

    /// Tells once that a shutdown has nothing left to wait for here.
    pub(super) fn finish_if_done(&mut self, turn: &mut Turn<'_>) {
        let Some(stop) = self.stopping.awaits() else { return };
        let done = match stop {
            Stop::Immediate => true,
            Stop::WaitForServers => self.servers.iter().all(|(_, server)| server.session().is_none()),
            Stop::WaitForClients => {
                self.sessions.iter().all(|(_, session)| matches!(session.state, State::Console { .. }))
            }
        };
        if done {
            self.stopping.finish();
            turn.actions.push(Action::Finished);
        }
    }

    /// This worker at this moment; `detail` adds every client and server.
    #[must_use]
    pub fn snapshot(&self, now: Time, detail: bool) -> Snapshot {
        let mut pools: Vec<PoolSnapshot> = self.pools.iter().map(|pool| snapshot_of(pool, now)).collect();
        let mut place = vec![usize::MAX; self.pools.ids().count()];
        for (index, pool) in pools.iter().enumerate() {
            place[pool.id.0 as usize] = index;
        }
        let mut count = |id: units::id::PoolId, add: &mut dyn FnMut(&mut PoolSnapshot)| {
            if let Some(pool) = place.get(id.0 as usize).and_then(|&index| pools.get_mut(index)) {
                add(pool);
            }
        };
        for (_, session) in self.sessions.iter() {
            count(session.pool, &mut |pool| match session.state {
                State::Idle { .. } | State::Linked { .. } => pool.cl_active += 1,
                // For a server, or at a limit.
                State::Waiting { since, .. } | State::Welcoming { since } => {
                    pool.cl_waiting += 1;
                    pool.maxwait_us = pool.maxwait_us.max(now.micros_since(since));
                }
                State::Console { .. } | State::Leaving { .. } => {}
            });
        }
        for (_, server) in self.servers.iter() {
            let stale = now.since(server.since) > self.settings.global.servers.server_check_delay;
            count(server.pool, &mut |pool| match server_state(server, stale) {
                "active" | "listening" => pool.sv_active += 1,
                "being_canceled" => pool.sv_being_canceled += 1,
                "idle" => pool.sv_idle += 1,
                "used" => pool.sv_used += 1,
                "tested" => pool.sv_tested += 1,
                _ => pool.sv_login += 1,
            });
        }
        // Who is only being told farewell is no client any more.
        let clients = self.sessions.iter().filter(|(_, session)| detail && !session.is_leaving());
        let clients = clients.map(|(id, session)| self.client_snapshot(id, session));
        let servers =
            self.servers.iter().filter(|_| detail).filter_map(|(id, server)| self.server_snapshot(now, id, server));
        let (clients, servers) = (clients.collect(), servers.collect());
        Snapshot {
            worker: Some(self.id),
            now,
            pools,
            clients,
            servers,
            lends: self.lends,
            rotations: self.rotations(),
            limits: self.gates.class_counts(),
            statements: self.gates.statement_counts(),
            refusals: self.refusals.counts(|pool| self.pool(pool).map(|pool| pool.key.clone())).collect(),
            steps: self.steps,
        }
    }

    /// As the client knows it.
    fn told_pid(&self, conn: ConnId, session: &Session) -> i32 {
        let real = session.tracker.as_ref().is_some_and(|tracker| tracker.pins().any(Pins::BACKEND_PID));
        let server = session.server().filter(|_| real).and_then(|server| self.servers.get(server));
        server.map_or_else(|| virtual_pid(conn), |server| server.backend_pid)
    }

    fn client_snapshot(&self, conn: ConnId, session: &Session) -> ClientSnapshot {
        let pool = self.pool(session.pool);
        let key = pool.map(|pool| pool.key.clone()).unwrap_or_else(|| units::id::PoolKey {
            database: session.identity.database.clone(),
            user: session.identity.user.clone(),
        });
        let (state, waiting_since) = match session.state {
            State::Idle { .. } => ("idle", None),
            State::Linked { .. } | State::Console { .. } => ("active", None),
            State::Waiting { since, .. } | State::Welcoming { since } => ("waiting", Some(since)),
            // Not looked at.
            State::Leaving { .. } => ("idle", None),
        };
        let name = session.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default();
        ClientSnapshot {
            serial: session.identity.serial,
            name: session.identity.name,
            conn,
            key,
            user: session.identity.user.clone(),
            state,
            peer: session.identity.peer,
            connected_at: session.identity.connected_at,
            request_at: session.request_at,
            waiting_since,
            link: session.server(),
            link_name: session.server().and_then(|server| self.servers.get(server)).map(|server| server.name),
            application_name: String::from_utf8_lossy(name).into_owned(),
            prepared_statements: session.names.as_ref().map_or(0, |names| names.len() as u32),
            pid: self.told_pid(conn, session),
            fidelity: pool.filter(|pool| pool.rules.mode != PoolMode::Session).map(|pool| pool.rules.fidelity),
            class: session.class,
            pin: session.tracker.as_ref().and_then(|tracker| tracker.pinning.snapshot()),
        }
    }

    fn server_snapshot(&self, now: Time, conn: ConnId, server: &Server) -> Option<ServerSnapshot> {
        let pool = self.pool(server.pool)?;
        let stale = now.since(server.since) > self.settings.global.servers.server_check_delay;
        let name = server.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default();
        Some(ServerSnapshot {
            serial: server.serial,
            name: server.name,
            local: server.local,
            conn,
            pool: pool.id,
            key: pool.key.clone(),
            state: server_state(server, stale),
            address: Arc::clone(&server.address),
            connected_at: server.connected_at,
            request_at: server.query_at,
            link: server.session(),
            link_name: server.session().and_then(|conn| self.sessions.get(conn)).map(|session| session.identity.name),
            remote_pid: server.backend_pid,
            application_name: String::from_utf8_lossy(name).into_owned(),
            prepared_statements: server.prepared.len() as u32,
            close_needed: server.close_needed.is_some(),
        })
    }

    /// How much longer than one's own waiter a stranger must have waited to be served first (I7), here and now.
    #[must_use]
    pub fn patience(&self, pool: units::id::PoolId) -> Option<Duration> {
        self.pool(pool).map(Pool::patience)
    }

    /// Whether a pool's first clients wait until it is known what its database's names hide.
    #[must_use]
    pub fn awaits_names(&self, pool: units::id::PoolId) -> bool {
        self.pool(pool).is_some_and(|pool| pool.known.is_awaited())
    }

    #[must_use]
    pub fn backlog_total(&self) -> usize {
        let sessions = self.sessions.iter().map(|(_, session)| session.flow.backlog().len() + session.inbox.len());
        let servers = self.servers.iter().map(|(_, server)| server.flow.backlog().len() + server.inbox.len());
        sessions.chain(servers).sum::<usize>() + self.spare.capacity()
    }
}

const _: () = assert!(limits::POOLS_MAX < u32::MAX as usize);

/// Whether a change of a database's entry makes its servers wrong.
pub(super) fn concerns_servers(new: &Database, old: &Database) -> bool {
    new.hosts != old.hosts
        || new.dbname != old.dbname
        || new.forced_user != old.forced_user
        || new.password != old.password
        || new.connect_query != old.connect_query
        || new.startup != old.startup
}

fn server_state(server: &Server, stale: bool) -> &'static str {
    match server.state {
        ServerState::Linked(_) if server.cancels > 0 => "being_canceled",
        ServerState::Linked(_) | ServerState::Draining { .. } => "active",
        ServerState::Listening => "listening",
        ServerState::Held => "being_canceled",
        ServerState::Idle if stale => "used",
        ServerState::Idle => "idle",
        ServerState::Busy(Chore::Setup) | ServerState::Connecting | ServerState::LoggingIn(_) => "new",
        ServerState::Busy(_) => "tested",
    }
}

fn snapshot_of(pool: &Pool, now: Time) -> PoolSnapshot {
    let oldest =
        [pool.queue.oldest_of_all(), pool.pin_queue.front()].into_iter().flatten().map(|waiter| waiter.since).min();
    PoolSnapshot {
        id: pool.id,
        key: pool.key.clone(),
        mode: pool.rules.mode,
        cl_active: 0,
        cl_waiting: 0,
        cl_active_cancel_req: pool.cancels,
        cl_waiting_cancel_req: 0,
        sv_active: 0,
        sv_active_cancel: pool.cancels,
        sv_being_canceled: 0,
        sv_idle: 0,
        sv_used: 0,
        sv_tested: 0,
        sv_login: 0,
        maxwait_us: oldest.map_or(0, |since| now.micros_since(since)),
        totals: pool.totals,
        fidelity: FidelitySnapshot {
            fidelity: (pool.rules.mode != PoolMode::Session).then_some(pool.rules.fidelity),
            names: pool.known.names(),
            pinned: pool.pinned,
            waiting: pool.pin_queue.len(),
            counts: pool.fidelity,
        },
        classes: pool.queue.counts(now).collect(),
        sizing: pool.sizing.clone(),
        long: pool.experience.counts().collect(),
    }
}
