//! Reload, shutdown, and a worker's account of itself.

use std::sync::Arc;

use connections::databases::Database;
use connections::server::{Group, Server, State as ServerState};
use link::pool::Rules;
use link::session::{Session, State};
use link::surplus::SURPLUS;
use machine::action::Action;
use machine::mail::{Counted, Stop, ToCoordinator};
use machine::sabotage::{Fault, does};
use machine::{Settings, Turn};
use queueing::sizing::Account;
use queueing::waits::Asked;
use settings::PoolMode;
use units::{ConnId, PoolId, limits};

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
            pool.opening.keys = None;
            pool.life.removed = found.is_none();
            let changed = found.as_ref().is_none_or(|found| concerns_servers(found, &pool.database));
            if let Some(found) = found {
                pool.database = found;
            }
            pool.rules = Rules::new(&pool.key, &pool.database, &self.settings);
            let removed = pool.life.removed;
            // Its size may be given from now on.
            if let Some(waits) = &mut pool.measured.waits {
                waits.forget();
            }
            if pool.names.known.configure(pool.rules.follows() && self.settings.reads_catalogue, changed) {
                self.definitions.doubt_in(pool, turn.now);
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
        let removed = self.pool(session.pool).is_some_and(|pool| pool.life.removed);
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
            counted.transactions = pool.counts.totals.transactions;
            counted.transaction_us = pool.counts.totals.transaction_us;
            counted.wait_us = pool.counts.totals.wait_us;
            counted.waiting = pool.queue.len();
            counted.open = pool.open();
            counted.waits = pool.measured.waits.as_deref_mut().and_then(Asked::take);
        }
        let mail = ToCoordinator::Counted(Box::new(counted));
        turn.actions.post_to_coordinator(mail);
        if waits {
            self.want_waits(turn, id);
        }
    }

    pub(super) fn sized(&mut self, id: PoolId, account: Arc<Account>) {
        if let Some(pool) = self.pool_mut(id) {
            pool.measured.account = Some(account);
        }
    }

    /// The pool has become smaller: so many servers are too many here.
    pub(super) fn shrink(&mut self, turn: &mut Turn<'_>, pool: PoolId, count: u32) {
        let Some(entry) = self.pool_mut(pool) else { return };
        entry.servers.surplus = count;
        while let Some(entry) = self.pool_mut(pool).filter(|entry| entry.servers.surplus > 0) {
            let Some(idle) = entry.servers.idle.front().copied() else { return };
            entry.servers.surplus -= 1;
            self.close_server(turn, idle, SURPLUS);
        }
    }

    fn retire_servers(&mut self, turn: &mut Turn<'_>, which: impl Fn(&Server) -> bool, why: &'static str) {
        for conn in self.servers.ids() {
            let Some(server) = self.servers.get_mut(conn) else { continue };
            if !which(server) {
                continue;
            }
            server.end.close_needed = Some(why);
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
        let Some(server) = self.servers.get(conn).filter(|server| server.is_clean() && !server.gate.is_shut) else {
            return false;
        };
        let (Some(why), Some(session)) = (server.end.close_needed, server.session()) else { return false };
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

    #[must_use]
    pub fn backlog_total(&self) -> usize {
        let sessions =
            self.sessions.iter().map(|(_, session)| session.flow.backlog().len() + session.incoming.inbox.len());
        let servers = self.servers.iter().map(|(_, server)| server.flow.backlog().len() + server.incoming.inbox.len());
        sessions.chain(servers).sum::<usize>() + self.caches.buffers.capacity()
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
