//! Who gets a server, and what happens to a server that is free.
//!
//! Waiters are served first in, first out; a server that is released goes to exactly one of them, or to a stranger on
//! another worker who has waited clearly longer, or becomes idle.

use std::sync::Arc;

use connections::Verdict;
use connections::server::{Chore, Group, Overdue, Server, State as ServerState};
use link::checking::{Leaves, may_leave};
use link::lone_query::LoneQuery;
use link::pool::Pool;
use link::session::{Admission, Line, Session, State};
use machine::action::Source;
use machine::{Settings, Turn};
use queueing::commented::Commented;
use queueing::queue::Waiter;
use queueing::waits::Asked;
use settings::{Fidelity, PoolMode};
use units::{ConnId, PoolId, Time};
use wire::frontend::tag;

use crate::Worker;

/// What clients of a database are told that a reload has taken away, as in PgBouncer.
pub(super) const DATABASE_REMOVED: &str = "database removed";

impl Worker {
    /// Moves a server to another state, and its pool's counts with it.
    pub(super) fn turn_server(&mut self, turn: &mut Turn<'_>, conn: ConnId, state: ServerState) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        let armed = match state {
            ServerState::Linked(_) => true,
            ServerState::Idle => is_armed_idle(turn.now, server, pool, &self.settings),
            _ => false,
        };
        pool.turn(turn.now, conn, server, state, self.agenda.unpublished());
        if !armed {
            self.arm_server(conn);
        }
    }

    /// A session needs a server for `bytes` from `at`: at once if one is idle, else it waits.
    #[inline(always)]
    pub(super) fn acquire_for(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8], source: Source, at: usize) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        session.request_at = turn.now;
        let (pool, class, is_admitted) =
            (session.pool, session.claim.class, matches!(session.claim.admission, Admission::In { .. }));
        if self.stopping.refuses_new_work() {
            self.refuse_session(turn, conn, wire::sqlstate::ADMIN_SHUTDOWN, "server shutting down");
            return;
        }
        let (class, commented) = match is_admitted || self.settings.classes.is_single() {
            // Who has come through the gates of its class is not of another behind them.
            true => (class, Commented::Unread),
            false => self.classify(conn, &bytes[at..]),
        };
        // Whoever waits already comes first.
        let may_take = |pool: &Pool| pool.queue.admits(class) && !pool.names.known.is_awaited();
        let (may_take, bounded) =
            self.pool(pool).map_or((false, false), |pool| (may_take(pool), pool.rules.max_pinned > 0));
        if bounded && self.must_wait_to_pin(turn, conn, &bytes[at..]) {
            self.stash(turn, conn, &bytes[at..]);
            self.hurry(turn, conn, &bytes[at..], commented);
            return;
        }
        let server = if may_take { self.take_idle(turn, pool, Some(conn)) } else { None };
        let server = server.map(|server| self.rotate(turn, pool, conn, server));
        match server {
            Some(server) => match self.link(turn, conn, server) {
                true => self.requests(turn, conn, bytes, source, at),
                false => self.stash(turn, conn, &bytes[at..]),
            },
            None => {
                // Who waits is not read any more once it has enough at hand.
                self.wait(turn, conn, Line::Server);
                self.stash(turn, conn, &bytes[at..]);
                self.hurry(turn, conn, &bytes[at..], commented);
                self.bound_line(turn, conn);
            }
        }
    }

    /// Deals with a Query of a session without a server that has nothing else at hand, if the server that was used last is as
    /// it wants one. False: nothing was done.
    pub(super) fn begin_query(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) -> bool {
        let is_special = self.stopping.has_begun() || self.chaos.is_some() || !self.settings.classes.is_single();
        let is_query = bytes.first() == Some(&tag::QUERY);
        if !is_query || is_special || !self.gates.is_none() || self.settings.global.servers.server_round_robin {
            return false;
        }
        let Some(session) = self.sessions.get_mut(conn).filter(|session| !session.incoming.skipping) else {
            return false;
        };
        let Some(pool) = self.pools.get_mut(session.pool) else { return false };
        let Some(&server_id) = pool.servers.idle.back() else { return false };
        let Some(server) = self.servers.get_mut(server_id) else { return false };
        let may_take =
            pool.queue.admits(session.claim.class) && !pool.names.known.is_awaited() && pool.rules.max_pinned == 0;
        let is_alike = session.confirmed && Arc::ptr_eq(&session.parameters, &server.kept.parameters);
        let flows = session.flow.is_reading() && session.flow.is_clear() && server.flow.is_reading();
        let is_fresh = !is_stale(turn.now, server.work.since, &self.settings)
            && expired(turn.now, server, pool, &self.settings).is_none();
        if !may_take || !is_alike || !flows || !is_fresh || server.kept.session_state.is_some() {
            return false;
        }
        let mut query = LoneQuery { session, server_id, server, pool, bytes, source: Source::Chunk, at: 0 };
        let Some(text) = query.text() else { return false };
        self.halves.forget(conn);
        query.session.request_at = turn.now;
        let (session, server) = ((conn, &mut *query.session), (server_id, &mut *query.server));
        join(turn.now, &self.settings, session, server, query.pool, self.agenda.unpublished());
        if query.is_harmless(text, &mut self.caches) {
            query.send(turn.now, turn.actions);
            if cfg!(feature = "sabotage") {
                self.release_if_done(turn, server_id);
            }
        } else {
            // Its text was read, and is read once more for what follows from it.
            self.read_requests(turn, conn, bytes, Source::Chunk, 0, false);
        }
        true
    }

    pub(super) fn wait(&mut self, turn: &mut Turn<'_>, conn: ConnId, line: Line) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(pool) = self.pools.get_mut(session.pool) else { return };
        pool.line_grows(turn.now, session.claim.class);
        let ticket = pool.queue.push(session.claim.class, conn, turn.now, turn.now);
        let since = session.asked_at().unwrap_or(turn.now);
        session.state = State::Waiting { since, ticket, notified: false, line, deadline_ms: 0 };
        self.agenda.feed(pool.id);
        if pool.exchange.homes > 1 {
            self.agenda.publish(pool.id);
        }
        let (id, is_armed, rests) = (pool.id, pool.rules.is_armed(session, turn.now), !pool.servers.resting.is_empty());
        if !is_armed {
            self.arm_session(conn);
        }
        if rests {
            self.end_a_rest(turn, id);
        }
    }

    /// An idle server that may be used as it is. One that has been idle for long is checked first: it comes later.
    pub(super) fn take_idle(&mut self, turn: &mut Turn<'_>, pool: PoolId, session: Option<ConnId>) -> Option<ConnId> {
        loop {
            let round_robin = self.settings.global.servers.server_round_robin;
            let pool = self.pool(pool)?;
            let conn = if round_robin { *pool.servers.idle.front()? } else { self.view().fitting(pool, session)? };
            let server = self.servers.get(conn)?;
            if let Some(why) = expired(turn.now, server, pool, &self.settings) {
                self.close_server(turn, conn, why);
                continue;
            }
            if !is_stale(turn.now, server.work.since, &self.settings) {
                return Some(conn);
            }
            let Some(check) = self.settings.global.servers.server_check_query.0.clone() else { return Some(conn) };
            let fresh = pool.servers.idle.iter().copied().find(|&other| {
                self.servers.get(other).is_some_and(|other| {
                    !is_stale(turn.now, other.work.since, &self.settings) && other.end.close_needed.is_none()
                })
            });
            if fresh.is_none() {
                self.start_chore(turn, conn, Chore::Check, check.as_bytes());
            }
            return fresh;
        }
    }

    /// Idle servers that may not be handed out unchecked, and people who wait: as many are checked as are waited for.
    pub(super) fn rouse(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        loop {
            let Some(pool) = self.pool(id) else { return };
            let returning = pool.count(Group::Returning);
            if pool.servers.idle.is_empty() || pool.queue.wanted() <= returning || self.stopping.refuses_new_work() {
                return;
            }
            if let Some(&idle) = pool.servers.idle.back()
                && self.must_learn(turn, id, idle)
            {
                return;
            }
            match self.take_idle(turn, id, None) {
                Some(server) => self.place(turn, server),
                None if self.pool(id).is_some_and(|pool| pool.count(Group::Returning) > returning) => {}
                None => return,
            }
        }
    }

    /// A server and a session belong to each other from now on (I1). Returns whether its messages may go there at once.
    pub(super) fn link(&mut self, turn: &mut Turn<'_>, conn: ConnId, server_id: ConnId) -> bool {
        if self.chaos.is_some() {
            self.observe_link(turn, conn, server_id);
        }
        let (Some(session), Some(server)) = (self.sessions.get_mut(conn), self.servers.get_mut(server_id)) else {
            return false;
        };
        let Some(pool) = self.pools.get_mut(session.pool) else { return false };
        let is_unknown = matches!(session.state, State::Welcoming { .. } | State::Waiting { line: Line::Login, .. });
        let begins = !session.confirmed && !is_unknown;
        join(turn.now, &self.settings, (conn, session), (server_id, server), pool, self.agenda.unpublished());
        if self.gates.has_seats() {
            self.gates.linked(turn.now, conn);
        }
        let mut begun_with = None;
        let same = Arc::ptr_eq(&session.parameters, &server.kept.parameters);
        if !same || !session.confirmed || session.tracker.is_some() || server.kept.session_state.is_some() {
            begun_with = begins.then(|| Arc::clone(&session.parameters));
            let replays = link::replaying::replay(turn, session, server_id, server, &self.caches.tracked);
            pool.counts.fidelity.replays += u64::from(replays);
            begun_with = begun_with.filter(|_| !replays);
        }
        let paused = !session.flow.is_reading() || !session.flow.is_clear() || !server.flow.is_reading();
        let is_open = !server.is_gated();
        let Some(begun_with) = begun_with else {
            if paused {
                self.balance_session(turn, conn);
            }
            return is_open;
        };
        link::replaying::confirm(turn, (conn, session), server, pool, &self.caches.tracked, &begun_with);
        if paused {
            self.balance_session(turn, conn);
        }
        self.servers.get(server_id).is_some_and(|server| !server.is_gated())
    }

    /// A session whose reading may have been paused for want of a server.
    pub(super) fn balance_if_paused(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let server_reads =
            session.server().and_then(|id| self.servers.get(id)).is_none_or(|server| server.flow.is_reading());
        if !session.flow.is_reading() || !session.flow.is_clear() || !server_reads {
            self.balance_session(turn, conn);
        }
    }

    /// The client's messages go on when what they waited for has been answered.
    pub(super) fn open_gate(&mut self, turn: &mut Turn<'_>, server_id: ConnId, conn: ConnId) {
        if self.view().waits_for_listener(conn) {
            return;
        }
        let Some(server) = self.servers.get_mut(server_id) else { return };
        if server.gate.is_shut && server.has_answered() {
            (server.gate.is_shut, server.gate.flushed) = (false, false);
            self.requests_from_inbox(turn, conn);
        }
    }

    /// Lets a linked server go if its client's transaction is over and nothing is owed (I3). Returns whether it is let
    /// go; its session is then armed.
    pub(super) fn release_if_done(&mut self, turn: &mut Turn<'_>, server_id: ConnId) -> bool {
        let Some(server) = self.servers.get_mut(server_id) else { return false };
        let ServerState::Linked(conn) = server.state else { return false };
        let Some(pool) = self.pools.get_mut(server.pool) else { return false };
        let Some(session) = self.sessions.get_mut(conn) else { return false };
        let is_gated = server.gate.is_shut && !(pool.wants_listener() && session.waits_for_listener());
        if pool.rules.mode == PoolMode::Session || is_gated {
            return server.end.close_needed.is_some() && self.close_fast(turn, server_id);
        }
        let lasted = turn.now.micros_since(server.work.since);
        if !server.is_clean() && !machine::sabotage::releases_early(&self.settings, server) || session.is_torn() {
            return false;
        }
        let mut seat = false;
        if session.tracker.is_some() || pool.rules.fidelity == Fidelity::Strict {
            match may_leave(turn, session, server_id, server, pool) {
                Leaves::No => return false,
                Leaves::Yes => {}
                Leaves::ASeat => seat = true,
            }
        }
        pool.observe_service(lasted);
        session.state = State::Idle { since: turn.now };
        let resets =
            self.settings.global.servers.server_reset_query_always || server.traces.soiled || server.traces.listens;
        let is_watched = self.gates.has_seats() || self.chaos.is_some() || session.claim.admission != Admission::Not;
        let has_ears = session.tracker.as_ref().is_some_and(|tracker| tracker.notifications.ears().is_some());
        let is_read = session.flow.is_reading() && session.flow.is_clear();
        let is_armed = pool.rules.is_armed(session, turn.now) && !pool.life.removed;
        if seat || resets || is_watched || has_ears || !is_read || !is_armed || !server.is_free_at_once() {
            self.let_go(turn, conn, server_id, seat);
            return true;
        }
        if !session.incoming.inbox.is_empty() {
            self.agenda.reconsider(conn);
        }
        (server.gate.is_shut, server.gate.flushed, server.statements.verdict, server.transaction.began_at) =
            (false, false, Verdict::None, None);
        if let Some(why) = pool.takes_back() {
            server.end.close_needed = Some(why);
        }
        let is_armed = is_armed_idle(turn.now, server, pool, &self.settings);
        pool.take_back(turn.now, server_id, server, self.agenda.unpublished());
        self.agenda.place(server_id);
        if !is_armed {
            self.arm_server(server_id);
        }
        true
    }

    /// What is left to do where a session has let its server go, and something is special about one of them.
    #[inline(never)]
    fn let_go(&mut self, turn: &mut Turn<'_>, conn: ConnId, server_id: ConnId, seat: bool) {
        let Some(session) = self.sessions.get(conn) else { return };
        let Some(pool) = self.pool(session.pool) else { return };
        let limited = session.claim.admission != Admission::Not || self.gates.has_seats();
        let has_ears = session.tracker.as_ref().is_some_and(|tracker| tracker.notifications.ears().is_some());
        let (id, removed, is_armed) = (pool.id, pool.life.removed, pool.rules.is_armed(session, turn.now));
        let paused = !session.flow.is_reading() || !session.flow.is_clear();
        let has_more = !session.incoming.inbox.is_empty();
        if seat {
            self.admit_to_pin(turn, id);
        }
        if has_more {
            self.agenda.reconsider(conn);
        }
        if paused {
            self.balance_session(turn, conn);
        }
        if has_ears {
            self.tell_unread(turn, conn);
        }
        if limited {
            self.leave_gates(turn, conn);
        }
        if removed {
            self.refuse_session(turn, conn, wire::sqlstate::ADMIN_SHUTDOWN, DATABASE_REMOVED);
        }
        if removed || !is_armed {
            self.arm_session(conn);
        }
        let used = self.servers.get(server_id).is_some_and(|server| server.traces.soiled || server.traces.listens);
        if self.settings.global.servers.server_reset_query_always || used {
            self.reset_or_free(turn, server_id);
        } else {
            self.free(turn, server_id);
        }
    }

    /// A clean server has no work: it is settled at the end of the step.
    pub(super) fn free(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        (server.gate.is_shut, server.gate.flushed, server.statements.verdict) = (false, false, Verdict::None);
        server.transaction.began_at = None;
        if server.cancel.under_way > 0 || !server.is_clean() || !server.flow.is_clear() {
            // A cancel is under way, or half a message was read (a notice, a parameter, perhaps its last words), or its
            // socket has not taken all of what it will ignore.
            if !matches!(server.state, ServerState::Held) {
                self.turn_server(turn, server_id, ServerState::Held);
            }
            return;
        }
        if std::mem::take(&mut server.traces.tainted) {
            server.traces.soiled = true;
            return self.reset_or_free(turn, server_id);
        }
        if std::mem::take(&mut server.traces.is_unsettled) {
            // Announced, and never sent.
            let id = server.pool;
            self.tell_settled(turn, id, server_id, false);
        }
        if self.gates.has_seats() {
            self.leave_seat(turn, server_id);
        }
        if self.chaos.is_some() {
            let is_busy = |server: &Server| !matches!(server.state, ServerState::Idle);
            if self.servers.get(server_id).is_some_and(is_busy) && self.unrest(turn, server_id) {
                return;
            }
        }
        let Some(server) = self.servers.get_mut(server_id) else { return };
        if matches!(server.state, ServerState::Idle) {
            return;
        }
        if let Some(why) = self.pools.get_mut(server.pool).and_then(Pool::takes_back) {
            server.end.close_needed = Some(why);
        }
        if server.ledger.is_doubtful() {
            server.end.close_needed = Some("copy protocol left in doubt");
        }
        if !server.flow.is_reading() {
            turn.actions.watch(server_id, &mut server.flow, true);
        }
        self.turn_server(turn, server_id, ServerState::Idle);
        self.agenda.place(server_id);
    }

    /// Finds work for an idle server: the oldest waiter here, or a stranger who has waited clearly longer.
    pub(super) fn place(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get(server_id) else { return };
        if server.state.group() != Group::Idle {
            return;
        }
        let Some(pool) = self.pool(server.pool) else { return };
        let id = pool.id;
        if let Some(why) = expired(turn.now, server, pool, &self.settings) {
            self.close_server(turn, server_id, why);
            return;
        }
        let is_asked =
            pool.names.known.is_awaited() || pool.names.known.is_overdue(turn.now) || pool.measured.waits.is_some();
        if (is_asked || pool.exchange.homes > 1 || pool.listener.is_some() || self.stopping.has_begun())
            && self.is_taken(turn, id, server_id)
        {
            return;
        }
        let (waiter, line) = loop {
            let Some(pool) = self.pools.get_mut(id) else { return };
            let fault = machine::sabotage::misserves(&self.settings);
            let Some(Waiter { session: waiter, .. }) = machine::sabotage::pop(&mut pool.queue, turn.now, fault) else {
                let asks = pool.names.known.wants(turn.now, pool.servers.idle.len() > 1);
                if (asks || pool.life.vacant_until > turn.now) && !self.leaves_vacant(turn, id, server_id) {
                    self.ask_for_names(turn, server_id);
                }
                return;
            };
            if pool.rules.reserve_pool_size > 0 && pool.queue.is_hungry() {
                self.agenda.feed(id);
            }
            if pool.exchange.homes > 1 {
                self.agenda.publish(id);
            }
            let (line, deadline_ms) = match self.sessions.get(waiter).map(|session| &session.state) {
                Some(&State::Waiting { line, deadline_ms, .. }) => (line, deadline_ms),
                _ => (Line::Server, 0),
            };
            if deadline_ms == 0 || !self.is_too_late(turn, waiter) {
                break (waiter, line);
            }
        };
        let server_id = self.rotate(turn, id, waiter, server_id);
        if self.pool(id).is_some_and(|pool| pool.queue.is_hungry() && !pool.servers.idle.is_empty()) {
            // Idle for long, and not checked: more people wait than checks are under way.
            self.agenda.feed(id);
        }
        if line == Line::Login {
            self.welcome_linked(turn, waiter, server_id);
        } else if self.link(turn, waiter, server_id) {
            self.requests_from_inbox(turn, waiter);
        }
    }

    /// An idle server is put to another use than serving who waits here.
    #[inline(never)]
    fn is_taken(&mut self, turn: &mut Turn<'_>, id: PoolId, server_id: ConnId) -> bool {
        if self.stopping.refuses_new_work() {
            return true;
        }
        let (Some(server), Some(pool)) = (self.servers.get(server_id), self.pool(id)) else { return true };
        let (is_awaited, is_sampled) =
            (pool.names.known.is_awaited(), pool.measured.waits.as_deref().is_some_and(Asked::is_wanted));
        if pool.wants_listener() {
            // The client for whom it was checked takes another idle server (I6).
            self.agenda.feed(id);
            self.become_listener(turn, server_id);
            return true;
        }
        // It was lent for those who waited here when it came. What each worker knows of the other is a moment old: both could
        // think that the other one comes first, and servers would travel for ever.
        let came_for = |at: Time| pool.queue.oldest().is_some_and(|waiter| waiter.since <= at);
        let stays = server.work.travelled_at.is_some_and(came_for) && !machine::sabotage::lends_on(&self.settings);
        if pool.exchange.homes > 1
            && !stays
            && let Some((to, since)) = self.view().stranger(turn.now, turn.board, pool)
        {
            self.lend(turn, server_id, to, since);
            return true;
        }
        if is_awaited && self.must_learn(turn, id, server_id) || is_sampled && self.ask_for_waits(turn, server_id) {
            return true;
        }
        let asks = self.must_ask_for_names(turn, id, server_id);
        if asks {
            self.agenda.feed(id);
        }
        asks
    }
}

/// Whether a server that is idle from now on is looked at early enough anyway: mostly so after its first transaction.
#[inline]
fn is_armed_idle(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> bool {
    settings.global.servers.server_idle_timeout.is_some_and(|idle| {
        server.armed.is_by(now + idle) && server.armed.is_by(server.identity.connected_at + pool.rules.server_lifetime)
    })
}

/// A session gets a server: what that changes about them and their pool, whatever the session has set.
#[inline]
fn join(
    now: Time,
    settings: &Settings,
    (conn, session): (ConnId, &mut Session),
    (server_id, server): (ConnId, &mut Server),
    pool: &mut Pool,
    restless: &mut Vec<PoolId>,
) {
    assert!(server.is_clean() && server.cancel.under_way == 0, "I3: only a clean server is handed out");
    debug_assert!(server.session().is_none(), "I1: a server has one session at most");
    if machine::sabotage::does(settings, machine::sabotage::Fault::KeepStatements) {
        pool.names.generation = 0;
    }
    pool.lend_to(now, server_id, server, conn, restless);
    pool.charge(now, session.claim.class, session.claim.origin, server);
    pool.names.known.aged(now);
    pool.counts.totals.server_assignments += 1;
    pool.counts.totals.wait_us += session.waited_us(now);
    session.state = State::Linked { server: server_id };
    session.progress_at = now;
    server.work.used = true;
    server.work.travelled_at = None;
    server.kept.sequences.linked();
    (server.cancel.is_wanted, server.cancel.overdue) = (false, Overdue::No);
    server.transaction.query_at = now;
    server.transaction.began_at = Some(now);
    server.end.last_words_told = false;
    server.transaction.local_rights = false;
    #[cfg(feature = "sabotage")]
    {
        server.transaction.status_seen = false;
    }
}

/// Idle for so long that it is asked whether it still lives.
#[inline]
pub(super) fn is_stale(now: Time, idle_since: Time, settings: &Settings) -> bool {
    now > idle_since + settings.global.servers.server_check_delay
}

/// Why a server that is free is closed rather than used again.
#[inline]
pub(super) fn expired(now: Time, server: &Server, pool: &Pool, settings: &Settings) -> Option<&'static str> {
    if let Some(why) = server.end.close_needed {
        return Some(why);
    }
    if settings.global.tests.chaos_close && server.work.used {
        return Some("chaos_close");
    }
    let lifetime = pool.rules.server_lifetime;
    // A lifetime of zero is over after the first use.
    let counts = server.work.used || !lifetime.is_zero();
    (counts && now >= server.identity.connected_at + lifetime).then_some("server lifetime over")
}
