//! Every timer of a worker: computed from states, looked at only when one may be due.

use std::time::Duration;

use connections::server::{Chore, State as ServerState};
use link::pool::Pool;
use link::session::{Line, Session, State};
use machine::Turn;
use machine::sabotage::{Fault, does};
use session_state::state::Wait;
use units::deadline::Owner;
use units::{ConnId, Kind, PoolId, Time, limits};
use wire::backend::{ErrorResponse, Status};
use wire::sqlstate;

use crate::Worker;
use crate::pinning::PINNED;
use crate::welcoming::write_notice;

/// What a session's time is up for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Due {
    Refuse(&'static str),
    NotifyWaiting,
    ListenAlone,
    DeadlinePassed,
    WaitedTooLong,
    CancelQuery,
    GiveUpQuery,
    Farewell,
}

/// The earliest of some moments that may not be set.
#[derive(Default)]
struct Earliest(Option<(Time, Due)>);

impl Earliest {
    fn add(&mut self, from: Time, after: Option<Duration>, due: Due) {
        let Some(after) = after else { return };
        let at = from + after;
        if self.0.is_none_or(|(earliest, _)| at < earliest) {
            self.0 = Some((at, due));
        }
    }
}

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
        let Some((at, _)) = self.session_deadline(session) else { return };
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

    fn session_deadline(&self, session: &Session) -> Option<(Time, Due)> {
        let pool = self.pool(session.pool);
        let rules = pool.map(|pool| &pool.rules);
        let mut earliest = Earliest::default();
        if let Some(Wait::ToSend { since }) = session.tracker.as_ref().map(|tracker| tracker.notifications.wait())
            && pool.is_some_and(Pool::wants_listener)
        {
            // One that has no server would wait for one to listen alone, and keep it: whichever comes is better used as the listener.
            // While pgweir stops none comes, and it is told so.
            if session.server().is_some() || self.stopping.has_begun() {
                earliest.add(since, Some(limits::LISTENER_WAIT), Due::ListenAlone);
            } else {
                earliest.add(since, rules?.query_wait_timeout, Due::Refuse("query_wait_timeout"));
            }
        }
        match session.state {
            State::Welcoming { since } | State::Waiting { since, line: Line::Login, .. } => {
                earliest.add(since, rules?.query_wait_timeout, Due::Refuse("query_wait_timeout"));
            }
            State::Waiting { since, notified, deadline_ms, .. } => {
                let over = if rules?.follows() { Due::WaitedTooLong } else { Due::Refuse("query_timeout") };
                earliest.add(since, rules?.query_wait_timeout, Due::Refuse("query_wait_timeout"));
                earliest.add(since, rules?.query_timeout, over);
                let deadline = Duration::from_millis(deadline_ms.into());
                earliest.add(since, (deadline_ms > 0).then_some(deadline), Due::DeadlinePassed);
                let notify = self.settings.global.waiting.query_wait_notify.filter(|_| !notified);
                earliest.add(since, notify, Due::NotifyWaiting);
            }
            State::Idle { since } => {
                earliest.add(since, rules?.client_idle_timeout, Due::Refuse("client_idle_timeout"));
            }
            State::Linked { server } => match self.gates.wait_of(session) {
                Some(wait) => {
                    earliest.add(wait.since, rules?.query_wait_timeout, Due::Refuse("query_wait_timeout"));
                    let deadline = Duration::from_millis(wait.deadline_ms.into());
                    earliest.add(wait.since, (wait.deadline_ms > 0).then_some(deadline), Due::DeadlinePassed);
                }
                None => self.link_deadline(session, pool?, server, &mut earliest),
            },
            State::Leaving { until } => earliest.add(until, Some(Duration::ZERO), Due::Farewell),
            State::Console { .. } => {}
        }
        earliest.0
    }

    fn link_deadline(&self, session: &Session, pool: &Pool, server: ConnId, earliest: &mut Earliest) {
        let Some(server) = self.servers.get(server) else { return };
        let rules = &pool.rules;
        let torn = session.is_torn() && server.flow.is_clear();
        if torn || !session.flow.is_clear() {
            earliest.add(session.progress_at, Some(limits::STALL), Due::Refuse("client stalled"));
        }
        if server.ledger.depth() > 0 {
            match server.overdue_since() {
                Some(at) => earliest.add(at, self.settings.global.waiting.query_cancel_timeout, Due::GiveUpQuery),
                None if rules.follows() => earliest.add(server.query_at, rules.query_timeout, Due::CancelQuery),
                None => earliest.add(server.query_at, rules.query_timeout, Due::Refuse("query timeout")),
            }
        } else if server.status == Status::Idle && !server.ledger.is_open() {
            earliest.add(server.query_at, rules.client_idle_timeout, Due::Refuse("client_idle_timeout"));
        } else if !does(&self.settings, Fault::ForgiveIdleTransactions) {
            earliest.add(server.query_at, rules.idle_transaction_timeout, Due::Refuse("idle transaction timeout"));
        }
        if let Some(began) =
            server.transaction_at.filter(|_| server.ledger.depth() > 0 || server.status != Status::Idle)
        {
            earliest.add(began, rules.transaction_timeout, Due::Refuse("transaction timeout"));
        }
    }

    fn session_due(&mut self, turn: &mut Turn<'_>, conn: ConnId, at: Time) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if !session.armed.spend(at) {
            return;
        }
        let Some(session) = self.sessions.get(conn) else { return };
        let due = self.session_deadline(session).filter(|(when, _)| *when <= turn.now);
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
        let Some(limit) = self.pin_limit(conn) else { return self.refuse_session(turn, conn, code, words) };
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
        let detail = pool.and_then(|pool| pool.standing(turn.now, line, session.class, ticket));
        turn.actions.send_new(conn, |out| write_notice(&words, detail.as_deref(), out));
        self.arm_session(conn);
    }

    pub(super) fn arm_server(&mut self, conn: ConnId) {
        let Some((at, _)) = self.server_deadline(conn) else { return };
        if let Some(server) = self.servers.get_mut(conn) {
            self.deadlines.arm(Owner::Conn(conn), &mut server.armed, at);
        }
    }

    fn server_deadline(&self, conn: ConnId) -> Option<(Time, &'static str)> {
        let server = self.servers.get(conn)?;
        let rules = &self.pool(server.pool)?.rules;
        match server.state {
            ServerState::Connecting | ServerState::LoggingIn(_) | ServerState::Busy(Chore::Setup) => {
                Some((server.connected_at + self.settings.global.servers.server_connect_timeout?, "connect timeout"))
            }
            ServerState::Busy(Chore::First) => Some((server.since + limits::FIRST_NAMES, Chore::First.words())),
            ServerState::Busy(chore) => Some((server.since + limits::HOUSEKEEPING, chore.words())),
            ServerState::Draining { cancelled: false, .. } => Some((server.since + limits::DRAIN, "drain")),
            ServerState::Draining { .. } => Some((server.since + limits::HOUSEKEEPING, "client disconnect")),
            ServerState::Idle => {
                let surplus = self.pool(server.pool).is_some_and(Pool::has_surplus);
                let idle = self
                    .settings
                    .global
                    .servers
                    .server_idle_timeout
                    .filter(|_| surplus)
                    .map(|after| (server.since + after, "server idle timeout"));
                let counts = server.used || !rules.server_lifetime.is_zero();
                let life = counts.then(|| (server.connected_at + rules.server_lifetime, "server lifetime over"));
                idle.into_iter().chain(life).min()
            }
            ServerState::Listening if !server.ledger.is_clear() => {
                Some((server.query_at + limits::HOUSEKEEPING, "listen"))
            }
            ServerState::Listening => {
                let unused = self.pool(server.pool)?.listener.as_ref().is_none_or(|listener| listener.is_unused());
                unused.then_some((server.since + limits::LISTENER_IDLE, "nobody listens"))
            }
            // With cancels under way, the last of them ends the wait.
            ServerState::Held if server.cancels == 0 => Some((server.since + limits::HOUSEKEEPING, "half a message")),
            ServerState::Linked(_) | ServerState::Held => None,
        }
    }

    fn server_due(&mut self, turn: &mut Turn<'_>, conn: ConnId, at: Time) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        if !server.armed.spend(at) {
            return;
        }
        let Some((when, why)) = self.server_deadline(conn) else { return };
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
        if let Some(canceller) = self.cancellers.get_mut(conn) {
            let at = canceller.since.max(turn.now) + timeout;
            self.deadlines.arm(Owner::Conn(conn), &mut canceller.armed, at);
        }
    }

    fn canceller_due(&mut self, turn: &mut Turn<'_>, conn: ConnId, at: Time) {
        let Some(canceller) = self.cancellers.get_mut(conn) else { return };
        if canceller.armed.spend(at) {
            self.canceller_late(turn, conn);
        }
    }

    /// Sees to it that a pool is looked at when it may open servers again, or its reserve.
    pub(super) fn arm_pool(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let reserve_timeout = self.settings.global.pools.reserve_pool_timeout;
        let Some(pool) = self.pools.get_mut(id) else { return };
        if pool.homes == 1 && pool.rules.reserve_pool_size == 0 && pool.retry_at <= turn.now {
            // Nothing below would apply; lends are refused only between homes.
            return;
        }
        if pool.lends_refused_until > turn.now {
            self.deadlines.arm(Owner::Pool(id), &mut pool.armed, pool.lends_refused_until);
        }
        let hungry_since = pool.hungry_since();
        if pool.homes > 1 && hungry_since != Time::NEVER {
            // Once the oldest waiter has been patient for long enough, and again while it waits.
            let patience = pool.patience();
            let first = hungry_since + patience;
            let at = if first > turn.now { first } else { turn.now + patience };
            self.deadlines.arm(Owner::Pool(id), &mut pool.armed, at);
        }
        if pool.retry_at > turn.now {
            self.deadlines.arm(Owner::Pool(id), &mut pool.armed, pool.retry_at);
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
        let (id, class) = (session.pool, session.class);
        if let Some(pool) = self.pool_mut(id).filter(|_| waits_for_server) {
            pool.queue.refused(class);
        }
    }

    fn pool_due(&mut self, turn: &mut Turn<'_>, id: PoolId, at: Time) {
        let Some(pool) = self.pool_mut(id) else { return };
        if pool.armed.spend(at) {
            let shared = pool.homes > 1;
            if shared {
                pool.begged.clear();
                self.look_around(turn, id);
            }
            self.ask_for_reserve(turn, id);
            self.agenda.feed(id);
            if self.pool(id).is_some_and(|pool| pool.forgetting) {
                self.try_to_forget(turn, id);
            }
        }
    }
}
