//! How sessions and servers end. Whoever is closed is told why, unless it left by itself or half a message is under way.

use connections::server::{Chore, Server, State as ServerState};
use link::server_questions::question_syncs;
use link::session::{Session, State};
use machine::Turn;
use machine::action::Action;
use machine::event::Hangup;
use machine::mail::ToCoordinator;
use machine::observe::{Level, Topic};
use machine::sabotage::{Fault, does};
use session_state::state::Pins;
use units::{ConnId, limits};
use wire::backend::{ErrorResponse, Status};
use wire::frontend::{CopyFail, Query};
use wire::{SqlState, backend, frontend, sqlstate};

use crate::Worker;

impl Worker {
    pub(super) fn client_hung_up(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        if self.sessions.get(conn).is_some_and(|session| matches!(session.state, State::Leaving { .. })) {
            self.bury(turn, conn, false);
            return;
        }
        self.client_left(turn, conn, "client unexpected eof");
    }

    /// The client is gone, or has said goodbye.
    pub(super) fn client_left(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str) {
        if self.sessions.get(conn).is_none() {
            return;
        }
        self.tell_of_end(turn, conn, why);
        self.depart(turn, conn);
        self.bury(turn, conn, false);
    }

    /// A client has been told all there is to tell: it is closed once it has read that.
    pub(super) fn dismiss(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str) {
        self.tell_of_end(turn, conn, why);
        self.depart(turn, conn);
        self.see_off(turn, conn);
    }

    /// The client is told FATAL, and closed once it has read what it is owed.
    pub(super) fn refuse_session(&mut self, turn: &mut Turn<'_>, conn: ConnId, code: SqlState, text: &str) {
        let last = ErrorResponse { severity: "FATAL", code, message: text, detail: None, hint: None };
        self.refuse_session_as(turn, conn, &last);
    }

    /// In these words, but by FATAL.
    pub(super) fn refuse_session_as(&mut self, turn: &mut Turn<'_>, conn: ConnId, told: &ErrorResponse<'_>) {
        let text = told.message;
        let Some(session) = self.sessions.get(conn) else { return };
        if matches!(session.state, State::Leaving { .. }) {
            return;
        }
        // In the midst of a server's message there is no place for one of ours, nor behind its FATAL.
        let server = session.server().and_then(|id| self.servers.get(id));
        let is_within = |server: &Server| server.incoming.skip > 0 && server.incoming.skip_forward;
        let speakable = server.is_none_or(|server| !server.end.last_words_told && !is_within(server));
        self.tell_of_end(turn, conn, text);
        self.depart(turn, conn);
        if speakable {
            self.view().tell_of_session(
                turn,
                conn,
                Level::Warning,
                Topic::PoolerErrors,
                format!("pooler error: {text}"),
            );
            let last = ErrorResponse { severity: "FATAL", ..*told };
            turn.actions.send_new(conn, |out| last.encode(out));
        }
        self.see_off(turn, conn);
    }

    /// A session has been told its last words: it is closed when they are written. Whether the socket took them shows
    /// only when the actions of this step have been carried out.
    pub(super) fn see_off(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        session.incoming.inbox = Vec::new();
        session.state = State::Leaving { until: turn.now + limits::FAREWELL };
        turn.actions.watch(conn, &mut session.flow, false);
        self.agenda.close(conn);
        self.arm_session(conn);
    }

    /// The end of a round: who has read its last words is closed.
    pub(super) fn bury_leaving(&mut self, turn: &mut Turn<'_>) {
        while let Some(conn) = self.agenda.next_to_close() {
            let written = self.sessions.get(conn).is_some_and(|session| session.flow.is_clear());
            if written {
                self.bury(turn, conn, true);
            }
        }
    }

    fn tell_of_end(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str) {
        let Some(session) = self.sessions.get(conn) else { return };
        if !turn.actions.hears(Level::Log, Topic::Disconnections) {
            return;
        }
        let age = turn.now.since(session.identity.connected_at).as_secs();
        let text = format!("closing because: {why} (age={age}s)");
        self.view().tell_of_session(turn, conn, Level::Log, Topic::Disconnections, text);
    }

    /// Takes a session out of whatever it is in: the queue, its link, its pool's counts.
    fn depart(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        self.tell_of_rotation(turn, conn);
        if let Some(server) = self.sessions.get(conn).and_then(Session::server) {
            self.pass_seat_on(conn, server);
        }
        self.leave_gates(turn, conn);
        self.halves.forget(conn);
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let (pool, user) = (session.pool, session.identity.user.clone());
        let (torn, class) = (session.is_torn(), session.claim.class);
        let tracker = session.tracker.take();
        let seated = tracker.as_ref().is_some_and(|tracker| tracker.seated);
        if tracker.as_ref().is_some_and(|tracker| tracker.pins().any(Pins::BACKEND_PID)) {
            self.cancels.forget_key(conn);
        }
        let ears = tracker.as_ref().and_then(|tracker| tracker.notifications.ears());
        let interest: Option<Vec<Box<[u8]>>> = ears.map(|ears| ears.interest().map(Box::from).collect());
        match session.state {
            State::Linked { server } => {
                session.state = State::Leaving { until: turn.now };
                if let Some(server) = self.servers.get_mut(server) {
                    link::checking::part(server, tracker);
                }
                self.detach(turn, server, torn);
            }
            State::Waiting { ticket, line, .. } => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.leave_line(line, class, ticket);
                    if pool.exchange.homes > 1 {
                        self.agenda.publish(pool.id);
                    }
                }
            }
            State::Welcoming { .. } => {
                if let Some(pool) = self.pools.get_mut(pool) {
                    pool.welcome.waiting.retain(|&(waiting, _)| waiting != conn);
                    // Others have been shown that somebody waits here.
                    if pool.exchange.homes > 1 {
                        self.agenda.publish(pool.id);
                    }
                }
            }
            State::Idle { .. } | State::Console { .. } | State::Leaving { .. } => {}
        }
        if let Some(entry) = self.pools.get_mut(pool) {
            entry.counts.sessions -= 1;
            entry.pins.count -= u32::from(seated);
            if entry.exchange.homes > 1 && entry.excess() != entry.exchange.published.excess {
                self.agenda.publish(pool);
            }
        }
        if seated {
            self.admit_to_pin(turn, pool);
        }
        if let Some(names) = interest {
            self.listens_no_more(turn, pool, conn, &names);
        }
        self.counts.departing += 1;
        let departed = ToCoordinator::Departed { pool, worker: self.id, user };
        turn.actions.post_to_coordinator(departed);
    }

    /// The last of a session: its connection is closed and its id is free. `last_words`: it was told why.
    pub(super) fn bury(&mut self, turn: &mut Turn<'_>, conn: ConnId, last_words: bool) {
        if self.sessions.remove(conn).is_some() {
            self.counts.departing -= 1;
            turn.actions.push(Action::Close { conn, last_words });
        }
    }

    /// A linked server loses its client: whatever it owes is read and thrown away before it is used again.
    fn detach(&mut self, turn: &mut Turn<'_>, server_id: ConnId, torn: bool) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        if torn {
            self.close_server(turn, server_id, "client disconnect in the middle of a message");
            return;
        }
        if server.end.close_needed.is_some() {
            self.close_server(turn, server_id, "client disconnect");
            return;
        }
        server.gate.is_shut = false;
        server.incoming.skip_forward = false;
        if machine::sabotage::skips_drain(&self.settings) {
            server.ledger = connections::server::Ledger::default();
            server.transaction.status = Status::Idle;
            self.free(turn, server_id);
            return;
        }
        if server.is_clean() {
            self.reset_or_free(turn, server_id);
            return;
        }
        if !does(&self.settings, Fault::LeaveCopyOpen) {
            hush(server_id, server, turn);
        }
        server.ledger.disown();
        let calm = server.ledger.is_clear() && server.incoming.skip == 0 && server.incoming.inbox.is_empty();
        turn.actions.watch(server_id, &mut server.flow, true);
        if calm {
            self.start_chore(turn, server_id, Chore::Rollback, b"ROLLBACK");
        } else {
            self.turn_server(turn, server_id, ServerState::Draining { read: 0, cancelled: false });
        }
    }

    pub(super) fn server_hung_up(&mut self, turn: &mut Turn<'_>, conn: ConnId, _why: Hangup) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        server.end.gone = true;
        let why = match server.state {
            ServerState::Connecting | ServerState::LoggingIn(_) => "server conn crashed during login",
            _ => "server conn crashed?",
        };
        self.break_server(turn, conn, why);
    }

    /// A server that cannot be used any more, through no wish of ours.
    pub(super) fn break_server(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str) {
        let Some(server) = self.servers.get(conn) else { return };
        match server.state {
            ServerState::Connecting | ServerState::LoggingIn(_) | ServerState::Busy(Chore::Setup) => {
                self.login_failed(turn, conn, why);
            }
            ServerState::Linked(_) => self.server_lost(turn, conn, sqlstate::CONNECTION_FAILURE, why),
            _ => self.close_server(turn, conn, why),
        }
    }

    /// A linked server is gone. A session outside of a transaction with one simple question asked outlives it: it is told of
    /// that question, and may ask the next. What was sent is never sent again: whether it took effect is not known. A
    /// session in a transaction, or with more under way, ends: what it sends next would run outside of its transaction.
    pub(super) fn server_lost(&mut self, turn: &mut Turn<'_>, conn: ConnId, code: SqlState, why: &str) {
        let Some(server) = self.servers.get(conn) else { return };
        let ServerState::Linked(session) = server.state else { return self.break_server(turn, conn, why) };
        let in_answer = server.incoming.skip > 0 && server.incoming.skip_forward;
        let told = server.end.last_words_told;
        let answer_failed = server.transaction.answer_failed;
        let outlives = self.view().outlives(server, session);
        let kept =
            self.sessions.get(session).and_then(|session| session.tracker.as_ref()).map(|tracker| tracker.pins());
        let kept: Vec<&str> = kept.into_iter().flat_map(|pins| pins.words()).collect();
        let why: &str =
            &if kept.is_empty() { why.to_owned() } else { format!("{why} (lost with it: {})", kept.join(", ")) };
        self.close_server(turn, conn, why);
        if let Some(answers) = outlives {
            let error = (!answer_failed).then_some((code, why));
            self.outlive_server(turn, session, answers, error);
        } else if told || in_answer {
            // Told already, or in the midst of a message that nobody can finish.
            self.dismiss(turn, session, why);
        } else {
            self.refuse_session(turn, session, code, why);
        }
    }

    pub(super) fn drain_progress(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        if !matches!(server.state, ServerState::Draining { .. }) {
            return;
        }
        // Its COPY may have begun, or its batch failed, only after the client had gone.
        if !does(&self.settings, Fault::LeaveCopyOpen) {
            hush(conn, server, turn);
        }
        if let Some(server) = self.servers.get_mut(conn) {
            question_syncs(turn, conn, server);
        }
        let Some(server) = self.servers.get_mut(conn) else { return };
        let ServerState::Draining { read, .. } = server.state else { return };
        if !server.ledger.is_clear() || server.incoming.skip > 0 || !server.incoming.inbox.is_empty() {
            if read > limits::DRAIN_LEN_MAX {
                self.cancel_drain(turn, conn);
            }
            return;
        }
        if server.cancel.under_way > 0 {
            // A cancel under way might strike what we ask next.
            return;
        }
        match server.transaction.status {
            Status::Idle => self.reset_or_free(turn, conn),
            Status::InTransaction | Status::Failed => self.start_chore(turn, conn, Chore::Rollback, b"ROLLBACK"),
        }
    }

    /// `error`: for the request under way, if its client has had none yet.
    fn outlive_server(&mut self, turn: &mut Turn<'_>, conn: ConnId, answers: usize, error: Option<(SqlState, &str)>) {
        // Its transaction is over, or will not be.
        self.leave_gates(turn, conn);
        let Some(session) = self.sessions.get_mut(conn) else { return };
        session.state = State::Idle { since: turn.now };
        if let Some(names) = &mut session.statements.names {
            names.undo_all();
        }
        if let Some(tracker) = &mut session.tracker {
            tracker.lost();
        }
        if let Some(unnamed) = &mut session.statements.unnamed {
            unnamed.skipped_all();
            unnamed.batch_ended();
            if answers > 0 {
                // What the request has left of it is not known; an older one must not take its place.
                unnamed.forget();
            }
        }
        if answers > 0 {
            turn.actions.send_new(conn, |out| {
                if let Some((code, message)) = error {
                    ErrorResponse { severity: "ERROR", code, message, detail: None, hint: None }.encode(out);
                }
                backend::encode_ready(out, Status::Idle);
            });
        }
        if !session.incoming.inbox.is_empty() {
            self.agenda.reconsider(conn);
        }
        self.unseat(turn, conn);
        self.tell_unread(turn, conn);
        self.arm_session(conn);
        self.balance_if_paused(turn, conn);
    }

    /// Closes a server and gives its token back. Its session, if any, is the caller's to tell.
    pub(super) fn close_server(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str) {
        let told = self.view().words_of_end(turn, conn, why);
        self.view().tell_of_server(turn, conn, Level::Log, Topic::Disconnections, told);
        self.remove_server(turn, conn, why);
    }

    /// As [`Worker::close_server`], without a line in the log.
    pub(super) fn remove_server(&mut self, turn: &mut Turn<'_>, conn: ConnId, why: &str) {
        let Some(server) = self.servers.get(conn) else { return };
        let (id, group) = (server.pool, server.state.group());
        let Some(mut server) = self.servers.remove(conn) else { return };
        let listened = matches!(server.state, ServerState::Listening);
        let greeted = !matches!(server.state, ServerState::Connecting | ServerState::LoggingIn(_));
        if greeted && !server.end.gone && server.flow.is_clear() && server.is_clean() {
            turn.actions.send_new(conn, frontend::encode_terminate);
        }
        turn.actions.push(Action::Close { conn, last_words: false });
        if let Some(pool) = self.pools.get_mut(id) {
            pool.closed(why);
            pool.leave(group);
            pool.settle(turn.now, &mut server);
            pool.servers.idle.retain(|&idle| idle != conn);
            pool.names.known.lost(conn, turn.now);
            if let Some(waits) = &mut pool.measured.waits {
                waits.lost(conn, turn.now);
            }
            if pool.exchange.homes > 1 {
                self.agenda.publish(id);
            }
        }
        let freed =
            ToCoordinator::Freed { pool: id, worker: self.id, fresh: group == connections::server::Group::Opening };
        turn.actions.post_to_coordinator(freed);
        if server.traces.is_unsettled {
            self.tell_settled(turn, id, conn, true);
        }
        self.agenda.feed(id);
        self.forget_database(turn.now, id);
        self.leave_seat(turn, conn);
        if listened {
            self.listener_lost(turn, id, why);
        }
    }

    /// In statement mode a transaction of several statements is refused, as in PgBouncer.
    pub(super) fn refuse_transaction_block(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        const WORDS: &str = "transaction blocks not allowed in statement pooling mode";
        let session = self.servers.get(conn).and_then(Server::session);
        self.close_server(turn, conn, WORDS);
        if let Some(session) = session {
            self.refuse_session(turn, session, sqlstate::PROTOCOL_VIOLATION, WORDS);
        }
    }
}

/// Brings a server whose client vanished to where it answers by itself: ends its COPY, sends the missing Sync.
pub(super) fn hush(server_id: ConnId, server: &mut Server, turn: &mut Turn<'_>) {
    use connections::server::{Answerer, Expect};
    let extended = server.ledger.is_extended();
    if server.ledger.is_copy_open() {
        server.ledger.sent(Answerer::Nobody, Expect::CopyEnd);
        turn.actions.send_new(server_id, |out| CopyFail { message: b"client disconnected" }.encode(out));
        if extended {
            server.ledger.sent(Answerer::Nobody, Expect::Sync);
            turn.actions.send_new(server_id, frontend::encode_sync);
        }
        return;
    }
    if server.ledger.is_open() {
        if !server.ledger.is_skipping() {
            // Its client has not asked for a commit, and a Sync alone would be one. Inside of a batch ROLLBACK undoes it,
            // with a warning; if something of the batch fails, it is skipped, up to the Sync.
            server.ledger.sent(Answerer::Nobody, Expect::Query);
            turn.actions.send_new(server_id, |out| Query { text: b"ROLLBACK" }.encode(out));
        }
        server.ledger.sent(Answerer::Nobody, Expect::Sync);
        turn.actions.send_new(server_id, frontend::encode_sync);
    }
}
