//! Every timer of a worker: computed from states, looked at only when one may be due.

use std::time::Duration;

use connections::server::{Chore, State as ServerState};
use link::session::{Line, State};
use machine::Turn;
use units::deadline::Owner;
use units::{ConnId, Kind, PoolId, Time, limits};
use wire::backend::ErrorResponse;
use wire::sqlstate;

use crate::Worker;
use crate::due::Due;
use crate::pinning::PINNED;
use crate::welcoming::write_notice;

impl Worker {
    pub(super) fn deadline_reached(&mut self, turn: &mut Turn<'_>) {
        self.tidy_gates(turn);
        while let Some((at, owner)) = self.deadlines.pop_due(turn.now) {
            match owner {
                Owner::Conn(conn) => match conn.kind() {
                    Kind::Client => self.session_due(turn, conn, at),
                    Kind::Server => self.server_due(turn, conn, at),
                    Kind::Cancel => self.canceller_due(turn, conn, at),
                    Kind::Login => {}
                },
                Owner::Pool(pool) => self.pool_due(turn, pool, at),
            }
        }
    }

    /// Sees to it that a session is looked at when its time is up.
    pub(super) fn arm_session(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let Some((at, _)) = self.view().session_deadline(session) else { return };
        if let Some(session) = self.sessions.get_mut(conn) {
            self.deadlines.arm(Owner::Conn(conn), &mut session.armed, at);
        }
    }

    /// As [`Worker::arm_session`], on a query's way: nothing to do where no timeout is set and nothing stalls.
    pub(super) fn arm_linked(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let Some(pool) = self.pool(session.pool) else { return };
        if pool.rules.times_links() || session.is_torn() || !session.flow.is_clear() {
            self.arm_session(conn);
        }
    }

    fn session_due(&mut self, turn: &mut Turn<'_>, conn: ConnId, at: Time) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if !session.armed.spend(at) {
            return;
        }
        let Some(session) = self.sessions.get(conn) else { return };
        let due = self.view().session_deadline(session).filter(|(when, _)| *when <= turn.now);
        match due {
            None => self.arm_session(conn),
            Some((_, Due::Refuse(words))) => {
                self.gave_up_waiting(conn);
                self.refuse_overdue(turn, conn, words);
            }
            Some((_, Due::Farewell)) => self.bury(turn, conn, true),
            Some((_, Due::ListenAlone)) => self.listen_alone(turn, conn),
            Some((_, Due::DeadlinePassed)) => self.deadline_passed(turn, conn),
            Some((_, Due::WaitedTooLong)) => self.waited_too_long(turn, conn),
            Some((_, Due::CancelQuery)) => self.cancel_overdue(turn, conn),
            Some((_, Due::GiveUpQuery)) => self.give_up_overdue(turn, conn),
            Some((_, Due::NotifyWaiting)) => self.notify_waiting(turn, conn),
        }
    }

    /// A session's time is up.
    fn refuse_overdue(&mut self, turn: &mut Turn<'_>, conn: ConnId, words: &str) {
        let code = sqlstate::PROTOCOL_VIOLATION;
        let Some(limit) = self.view().pin_limit(conn) else { return self.refuse_session(turn, conn, code, words) };
        let message = &format!("{words}: {PINNED}");
        let last = ErrorResponse { severity: "FATAL", code, message, detail: Some(&limit), hint: None };
        self.refuse_session_as(turn, conn, &last);
    }

    fn notify_waiting(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        const WORDS: &str = "No server connection available in postgres backend, client being queued";
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let State::Waiting { notified, ticket, line, .. } = &mut session.state else { return };
        *notified = true;
        let (ticket, line) = (*ticket, *line);
        if line == Line::Limit {
            if let Some((words, detail)) = self.gates.standing(turn.now, ticket) {
                turn.actions.send_new(conn, |out| write_notice(&words, Some(&detail), out));
            }
            return self.arm_session(conn);
        }
        let words = if line == Line::Pin { format!("{PINNED}, client being queued") } else { WORDS.to_owned() };
        let pool = self.pools.get(session.pool);
        let detail = pool.and_then(|pool| pool.standing(turn.now, line, session.claim.class, ticket));
        turn.actions.send_new(conn, |out| write_notice(&words, detail.as_deref(), out));
        self.arm_session(conn);
    }

    pub(super) fn arm_server(&mut self, conn: ConnId) {
        let Some((at, _)) = self.view().server_deadline(conn) else { return };
        if let Some(server) = self.servers.get_mut(conn) {
            self.deadlines.arm(Owner::Conn(conn), &mut server.armed, at);
        }
    }

    fn server_due(&mut self, turn: &mut Turn<'_>, conn: ConnId, at: Time) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        if !server.armed.spend(at) {
            return;
        }
        let Some((when, why)) = self.view().server_deadline(conn) else { return };
        if when > turn.now {
            self.arm_server(conn);
            return;
        }
        let Some(server) = self.servers.get(conn) else { return };
        match server.state {
            ServerState::Draining { cancelled: false, .. } => {
                self.cancel_drain(turn, conn);
                self.arm_server(conn);
            }
            ServerState::Connecting | ServerState::LoggingIn(_) | ServerState::Busy(Chore::Setup) => {
                self.login_failed(turn, conn, why);
            }
            ServerState::Busy(Chore::First) => self.names_late(turn, conn),
            _ => self.close_server(turn, conn, why),
        }
    }

    pub(super) fn arm_canceller(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let timeout = self.settings.global.waiting.cancel_wait_timeout.unwrap_or(limits::HOUSEKEEPING);
        if let Some(canceller) = self.cancels.get_mut(conn) {
            let at = canceller.since.max(turn.now) + timeout;
            self.deadlines.arm(Owner::Conn(conn), &mut canceller.armed, at);
        }
    }

    fn canceller_due(&mut self, turn: &mut Turn<'_>, conn: ConnId, at: Time) {
        let Some(canceller) = self.cancels.get_mut(conn) else { return };
        if canceller.armed.spend(at) {
            self.canceller_late(turn, conn);
        }
    }

    /// Sees to it that a pool is looked at when it may open servers again, or its reserve.
    pub(super) fn arm_pool(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let reserve_timeout = self.settings.global.pools.reserve_pool_timeout;
        let Some(pool) = self.pools.get_mut(id) else { return };
        if pool.exchange.homes == 1 && pool.rules.reserve_pool_size == 0 && pool.opening.retry_at <= turn.now {
            // Nothing below would apply; lends are refused only between homes.
            return;
        }
        if pool.exchange.lends_refused_until > turn.now {
            self.deadlines.arm(Owner::Pool(id), &mut pool.armed, pool.exchange.lends_refused_until);
        }
        let hungry_since = pool.hungry_since();
        if pool.exchange.homes > 1 && hungry_since != Time::NEVER {
            // Once the oldest waiter has been patient for long enough, and again while it waits.
            let patience = pool.patience();
            let first = hungry_since + patience;
            let at = if first > turn.now { first } else { turn.now + patience };
            self.deadlines.arm(Owner::Pool(id), &mut pool.armed, at);
        }
        if pool.opening.retry_at > turn.now {
            self.deadlines.arm(Owner::Pool(id), &mut pool.armed, pool.opening.retry_at);
            return;
        }
        if let (Some(waiter), Some(timeout), true) = (pool.queue.oldest(), reserve_timeout, pool.lacks_reserve()) {
            let at = (waiter.since + timeout).max(turn.now + Duration::from_millis(1));
            self.deadlines.arm(Owner::Pool(id), &mut pool.armed, at);
        }
    }

    /// A session that waits for a server, if it does, gets none.
    fn gave_up_waiting(&mut self, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let waits_for_server = matches!(session.state, State::Waiting { line: Line::Server | Line::Login, .. });
        let (id, class) = (session.pool, session.claim.class);
        if let Some(pool) = self.pool_mut(id).filter(|_| waits_for_server) {
            pool.queue.refused(class);
        }
    }

    fn pool_due(&mut self, turn: &mut Turn<'_>, id: PoolId, at: Time) {
        let Some(pool) = self.pool_mut(id) else { return };
        if pool.armed.spend(at) {
            let shared = pool.exchange.homes > 1;
            if shared {
                pool.exchange.begged.clear();
                self.look_around(turn, id);
            }
            self.ask_for_reserve(turn, id);
            self.agenda.feed(id);
            if self.pool(id).is_some_and(|pool| pool.life.forgetting) {
                self.try_to_forget(turn, id);
            }
        }
    }
}
