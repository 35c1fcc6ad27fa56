//! Which CancelRequest reaches which query (I4).
//!
//! A cancel travels on a connection of its own and strikes whatever its backend is then doing. So it is sent only while
//! the key's owner has an answer owed, and the server is not handed to anybody else until PostgreSQL has closed that
//! connection, which it does after the signal is sent. A cancel whose end was not seen makes its server unusable.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-CANCELING-REQUESTS

use connections::server::{Answerer, State as ServerState};
use link::session::{Line, State};
use machine::Turn;
use machine::action::Action;
use machine::sabotage::{Fault, does};
use units::ConnId;

use crate::Worker;
use crate::cancels::take_back;
use crate::gates::Outcome;

/// As PostgreSQL words it.
pub(super) const BY_REQUEST: &str = "canceling statement due to user request";

impl Worker {
    /// A CancelRequest came to a door, with a key that names this worker.
    pub(super) fn cancel_requested(&mut self, turn: &mut Turn<'_>, pid: i32, secret: i32) {
        let conn = match machine::pids::from_virtual_pid(pid) {
            Some((owner, slot)) if owner == self.id.0 => self.sessions.id_at(slot),
            Some(_) => None,
            None => self.cancels.key_of(pid, secret),
        };
        let Some(conn) = conn else { return };
        let Some(session) = self.sessions.get(conn) else { return };
        let half = if does(&self.settings, Fault::HalfASecret) { 0xffff } else { -1 };
        if (session.secret ^ secret) & half != 0 {
            return;
        }
        match session.state {
            State::Linked { server } => {
                if !self.end_linked_wait(turn, conn, Outcome::Cancelled) {
                    self.cancel_linked(turn, conn, server, BY_REQUEST);
                }
            }
            // It has not been told its key.
            State::Waiting { line: Line::Login, .. } => {}
            State::Waiting { .. } => self.cancel_waiting(turn, conn),
            State::Idle { .. } if machine::sabotage::forwards_late_cancel(&self.settings) => {
                let linked = self.servers.iter().find(|(_, server)| server.session().is_some());
                if let Some((stranger, _)) = linked {
                    self.start_cancel(turn, stranger);
                }
            }
            State::Idle { .. } | State::Welcoming { .. } | State::Console { .. } | State::Leaving { .. } => {}
        }
    }

    /// `words`: for a query that no server has seen.
    pub(super) fn cancel_linked(&mut self, turn: &mut Turn<'_>, conn: ConnId, server_id: ConnId, words: &str) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        match server.ledger.owner() {
            Some(Answerer::Client) => self.start_cancel(turn, server_id),
            // PostgreSQL tells that our Parse is complete only together with the query's end.
            Some(Answerer::Prepare) if server.ledger.owing() != (0, false) => self.start_cancel(turn, server_id),
            // Its query is behind something of ours, which is not to be struck.
            Some(_) if server.ledger.owing() != (0, false) => server.cancel.is_wanted = true,
            Some(_) if server.gate.is_shut => {
                if let Some(session) = self.sessions.get_mut(conn)
                    && take_back(turn, conn, session, words)
                {
                    self.arm_session(conn);
                }
            }
            Some(_) | None => {}
        }
    }

    /// Something of ours has been answered: is it the turn of a query that is to be cancelled?
    pub(super) fn cancel_if_wanted(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        if server.cancel.is_wanted && server.ledger.owner() == Some(Answerer::Client) {
            server.cancel.is_wanted = false;
            self.start_cancel(turn, server_id);
        }
    }

    /// The query has not been sent to any server: it is taken back here.
    fn cancel_waiting(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if !take_back(turn, conn, session, BY_REQUEST) {
            return;
        }
        let State::Waiting { ticket, line, .. } = session.state else { return };
        session.state = State::Idle { since: turn.now };
        let more = !session.incoming.inbox.is_empty();
        if let Some(pool) = self.pools.get_mut(session.pool) {
            pool.leave_line(line, session.claim.class, ticket);
            if pool.exchange.homes > 1 {
                self.agenda.publish(pool.id);
            }
        }
        self.leave_gates(turn, conn);
        self.unseat(turn, conn);
        self.arm_session(conn);
        if more {
            // Whether there is room for more to read is seen once it is known what of this waits again.
            self.agenda.reconsider(conn);
        } else {
            self.balance_if_paused(turn, conn);
        }
    }

    /// Sends a cancel to a server's backend.
    pub(super) fn start_cancel(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        let Some(conn) = self.cancels.start(turn, server_id, server) else { return };
        if let Some(pool) = self.pools.get_mut(server.pool) {
            pool.counts.cancels += 1;
        }
        self.arm_canceller(turn, conn);
    }

    pub(super) fn canceller_opened(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(canceller) = self.cancels.get_mut(conn) else { return };
        let server = self.servers.get(canceller.server);
        if !server.is_some_and(|server| canceller.send(turn, conn, server, &self.settings)) {
            self.canceller_done(turn, conn);
        }
    }

    /// PostgreSQL has closed the connection, or it never stood: the cancel is over.
    pub(super) fn canceller_done(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(canceller) = self.cancels.remove(conn) else { return };
        turn.actions.push(Action::Close { conn, last_words: false });
        if let Some(pool) = self.pool_mut(canceller.pool) {
            pool.counts.cancels -= 1;
        }
        let Some(server) = self.servers.get_mut(canceller.server) else { return };
        server.cancel.under_way -= 1;
        match server.state {
            ServerState::Held if server.cancel.under_way == 0 => {
                // If more than the cancel held it, the wait for that begins now.
                server.work.since = turn.now;
                self.free(turn, canceller.server);
                self.arm_server(canceller.server);
            }
            ServerState::Draining { .. } => self.drain_progress(turn, canceller.server),
            ServerState::Linked(session) if server.cancel.under_way == 0 => {
                self.strikes_no_more(turn, canceller.server, session);
            }
            _ => {}
        }
    }

    /// PostgreSQL did not take the cancel in time. If it was sent, it may strike at any time: its server is given up.
    pub(super) fn canceller_late(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(canceller) = self.cancels.get_mut(conn) else { return };
        let doubtful = canceller.sent.then_some(canceller.server);
        if let Some(server) = doubtful.and_then(|id| self.servers.get_mut(id)) {
            server.end.close_needed = Some("cancel_wait_timeout");
        }
        self.canceller_done(turn, conn);
    }

    /// A server that lost its client goes on answering: it is asked to stop.
    pub(super) fn cancel_drain(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        let ServerState::Draining { cancelled, .. } = &mut server.state else { return };
        if !std::mem::replace(cancelled, true) {
            self.start_cancel(turn, server_id);
        }
    }
}
