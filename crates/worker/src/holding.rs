//! A session that keeps its server between transactions, at the gates of its class: what of its messages goes on to that
//! server, and what is held until it may.
//!
//! Promises: it is spoken to between its server's messages only; what PostgreSQL would not begin a transaction for needs no
//! leave. Does not decide who may go: `limiting` does.

use connections::server::{Overdue, Server};
use link::ending::checked_header;
use link::session::{Admission, Rest, Session};
use link::unlinked::{Begun, Unlinked};
use machine::Turn;
use machine::action::Source;
use queueing::refusals::Reason;
use units::{ConnId, limits};
use wire::backend::{ErrorResponse, Status};
use wire::frontend::tag;
use wire::{HEADER_LEN, sqlstate};

use crate::cancelling::BY_REQUEST;
use crate::gates::Outcome;
use crate::hurry::waited;
use crate::limiting::Goes;
use crate::{Worker, hurry};

impl Worker {
    /// A session keeps its server: is its transaction over?
    pub(super) fn note_transaction_end(&mut self, conn: ConnId, server: ConnId) {
        let over = self.servers.get(server).is_some_and(is_between_transactions);
        let torn = self.sessions.get(conn).is_some_and(Session::is_torn);
        let is_in =
            self.sessions.get(conn).is_some_and(|session| matches!(session.claim.admission, Admission::In { .. }));
        if over && !torn && is_in {
            // Its slots stay with its server.
            if let Some(session) = self.sessions.get_mut(conn) {
                session.claim.admission = Admission::Not;
            }
        }
    }

    /// A session that keeps its server has more at hand.
    pub(super) fn go_on_linked(&mut self, turn: &mut Turn<'_>, conn: ConnId, server: ConnId) {
        let attends = self.view().waits_for_listener(conn);
        let waits =
            self.sessions.get(conn).is_some_and(|session| matches!(session.claim.admission, Admission::Waits { .. }));
        let Some(server) = self.servers.get_mut(server) else { return };
        // A cancel that is under way could strike what comes next.
        let is_struck = server.cancel.overdue == Overdue::Answered;
        if server.gate.is_shut && !attends && !waits && !is_struck && is_between_transactions(server) {
            server.gate.is_shut = false;
            self.requests_from_inbox(turn, conn);
        }
    }

    /// A linked session's messages, from `at`, where its last batch was refused by a limit that a reload has taken away since.
    #[cold]
    pub(super) fn pass_over_refused(
        &mut self,
        turn: &mut Turn<'_>,
        conn: ConnId,
        bytes: &[u8],
        source: Source,
        at: usize,
    ) {
        if let Some(at) = self.gate_linked(turn, conn, bytes, at) {
            self.requests(turn, conn, bytes, source, at);
        }
    }

    /// A linked session's messages, from `at`: where they go on to its server. `None`: they are dealt with, or kept. Only who
    /// keeps its server from an earlier transaction comes to gates here, or to the end of a batch that was refused.
    pub(super) fn gate_linked(
        &mut self,
        turn: &mut Turn<'_>,
        conn: ConnId,
        bytes: &[u8],
        mut at: usize,
    ) -> Option<usize> {
        loop {
            let session = self.sessions.get_mut(conn)?;
            let server_id = session.server()?;
            let server = self.servers.get_mut(server_id)?;
            let is_over = server.ledger.is_clear() && server.transaction.status == Status::Idle;
            let discards = session.incoming.skip == 0 || session.incoming.rest == Rest::Discard;
            if matches!(session.claim.admission, Admission::Waits { .. }) {
                // Something else has opened the gate.
                return self.hold_linked(turn, conn, server_id, &bytes[at..]);
            }
            let is_in = matches!(session.claim.admission, Admission::In { .. });
            if !session.incoming.skipping && (is_in || !is_over || !discards) {
                return Some(at);
            }
            if !is_between_transactions(server) || !session.incoming.inbox.is_empty() {
                // Its server is within a message, or its own message began while the transaction before was under way.
                self.agenda.reconsider(conn);
                return self.hold_linked(turn, conn, server_id, &bytes[at..]);
            }
            let mut held = Unlinked { conn, session, mapped: false, actions: turn.actions };
            match held.read_refused(&bytes[at..]) {
                Ok(Begun::Needs(count)) => at += count,
                Ok(Begun::Incomplete(count)) => return self.hold_linked(turn, conn, server_id, &bytes[at + count..]),
                Err(ending) => {
                    self.end_by_request(turn, conn, ending);
                    return None;
                }
            }
            if self.gates.is_none() {
                return Some(at);
            }
            let rest = &bytes[at..];
            let header = match checked_header(rest) {
                Ok(Some(header)) => header,
                Ok(None) if !rest.is_empty() => return self.hold_linked(turn, conn, server_id, rest),
                // It is told by whoever reads it.
                Ok(None) | Err(_) => return Some(at),
            };
            match header.tag {
                tag::TERMINATE => return Some(at),
                tag::SYNC | tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => {
                    // As of a session without a server. A client may learn late that its COPY failed.
                    held.pass_over(header);
                    at += HEADER_LEN;
                    server.transaction.query_at = turn.now;
                    continue;
                }
                _ => {}
            }
            if rest.len() < header.total_len().min(limits::CHUNK_LEN_MAX) {
                return self.hold_linked(turn, conn, server_id, rest);
            }
            match self.enter_gates(turn, conn, rest) {
                Goes::On => return Some(at),
                Goes::Later => return self.hold_linked(turn, conn, server_id, rest),
                Goes::PassedOver => {}
            }
        }
    }

    /// Keeps what a linked session has sent, until it may go on. Always `None`.
    fn hold_linked(&mut self, turn: &mut Turn<'_>, conn: ConnId, server: ConnId, bytes: &[u8]) -> Option<usize> {
        let admission = self.sessions.get(conn).map(|session| session.claim.admission);
        let waits = matches!(admission, Some(Admission::Waits { .. }));
        if let Some(server) = self.servers.get_mut(server).filter(|_| waits || !bytes.is_empty()) {
            server.gate.is_shut = true;
        }
        self.stash(turn, conn, bytes);
        None
    }

    /// Who waits with its server waits no more. False: it does not.
    pub(super) fn end_linked_wait(&mut self, turn: &mut Turn<'_>, conn: ConnId, outcome: Outcome) -> bool {
        let Some(session) = self.sessions.get(conn).filter(|session| session.server().is_some()) else { return false };
        let Admission::Waits { ticket } = session.claim.admission else { return false };
        let Some(wait) = self.gates.leave_line(turn.now, ticket) else { return false };
        if let Some(session) = self.sessions.get_mut(conn) {
            session.claim.admission = Admission::Halfway { since: wait.since };
        }
        self.settle_linked(conn, outcome);
        // Whoever was behind it may need less.
        self.open(turn, wait.before);
        true
    }

    /// What has become of its wait is told as soon as its server has said what it is saying.
    pub(super) fn settle_linked(&mut self, conn: ConnId, outcome: Outcome) {
        self.gates.outcomes.insert(conn, outcome);
        self.agenda.reconsider(conn);
    }

    /// It is told now, with the messages that have waited at hand.
    pub(super) fn conclude(&mut self, turn: &mut Turn<'_>, conn: ConnId, outcome: Outcome, messages: &[u8]) -> Goes {
        if let Outcome::Passed = outcome {
            self.pass_in(turn, conn);
            return Goes::On;
        }
        self.give_up_passing(turn, conn);
        match outcome {
            Outcome::Passed => {}
            Outcome::Refused(told) => self.refuse_for_now(turn, conn, &told, messages),
            Outcome::Late { since, deadline_ms } => {
                let detail = waited(turn.now, since, deadline_ms);
                self.count_refusal(turn, conn, Reason::Deadline, hurry::WORDS);
                self.refuse_batch(turn, conn, &hurry::told(hurry::WORDS, &detail), messages);
            }
            Outcome::Cancelled => {
                let (code, message) = (sqlstate::QUERY_CANCELED, BY_REQUEST);
                let error = ErrorResponse { severity: "ERROR", code, message, detail: None, hint: None };
                self.refuse_batch(turn, conn, &error, messages);
            }
        }
        Goes::PassedOver
    }
}

fn is_between_transactions(server: &Server) -> bool {
    server.ledger.is_clear() && server.is_between_messages() && server.transaction.status == Status::Idle
}
