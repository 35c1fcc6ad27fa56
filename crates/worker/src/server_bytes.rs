//! Bytes of a server: who reads them, and what is done once they are read.

use connections::server::{Overdue, State};
use link::answers::Answers;
use link::findings::{Broken, Findings};
use link::lone_answer::{LoneAnswer, passed};
use link::replaying;
use link::server_questions::{end_skipping, question_syncs};
use link::stream::Stream;
use machine::Turn;
use machine::action::Source;
use units::{ConnId, limits};

use crate::Worker;

impl Worker {
    /// Bytes of a server.
    pub(super) fn server_received(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        match self.servers.get(conn).map(|server| &server.state) {
            None => {}
            Some(State::Connecting) => self.break_server(turn, conn, "server spoke before it was asked"),
            Some(State::LoggingIn(_)) => self.login_received(turn, conn, bytes),
            Some(_) => self.answers(turn, conn, bytes, Source::Chunk),
        }
    }

    /// Bytes of a server that has logged in.
    #[inline(always)]
    pub(super) fn answers(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8], source: Source) {
        let others = self.other_workers();
        let Some(server) = self.servers.get_mut(conn) else { return };
        let client = match &mut server.state {
            State::Linked(session) => Some(*session),
            State::Draining { read, .. } => {
                *read += bytes.len() as u64;
                None
            }
            _ => None,
        };
        let Some(pool) = self.pools.get_mut(server.pool) else { return };
        let mut session = client.and_then(|id| self.sessions.get_mut(id).map(|session| (id, session)));
        let mut stream = Stream::new(bytes, source, 0);
        if let Some((id, session)) = &mut session
            && self.gates.is_none()
        {
            let mut answer = LoneAnswer { session, server, pool };
            if answer.is_expected() {
                stream.pass(passed(answer.server, bytes));
                if answer.ready(turn.now, stream.rest()).is_some() {
                    answer.pool.counts.totals.sent += bytes.len() as u64;
                    turn.actions.send(*id, source, 0, bytes.len());
                    let id = *id;
                    if !self.release_if_done(turn, conn) {
                        self.stays_linked(turn, conn, id);
                    }
                    return;
                }
            }
        }
        let (id, before) = (pool.id, pool.counts.totals.transactions);
        let mut answers = Answers {
            now: turn.now,
            server_id: conn,
            server,
            session,
            pool,
            others,
            caches: &mut self.caches,
            actions: turn.actions,
            stream,
            findings: Findings::default(),
        };
        let end = answers.read();
        answers.flush();
        answers.findings.reverted = answers.tracker().is_some_and(|tracker| tracker.is_reverted());
        let mut findings = answers.findings;
        self.act_on_definitions(turn, conn, &mut findings);
        if !self.gates.is_none() {
            self.count_ended(turn, client, id, before);
        }
        match end {
            Ok(()) => self.act_on(turn, conn, findings),
            Err(Broken(why)) => self.break_server(turn, conn, &why),
        }
    }

    /// A server goes on serving its session.
    fn stays_linked(&mut self, turn: &mut Turn<'_>, conn: ConnId, session: ConnId) {
        if !self.gates.is_none() {
            self.note_transaction_end(session, conn);
        }
        self.note_rest(turn, conn);
        self.tell_unread(turn, session);
        self.arm_linked(session);
    }

    fn act_on(&mut self, turn: &mut Turn<'_>, conn: ConnId, findings: Findings) {
        let (mut chore_error, mut rows) = (None, Vec::new());
        if let Some(mut words) = findings.words {
            self.notify_all(turn, conn, std::mem::take(&mut words.heard));
            chore_error = words.chore_error.take();
            rows = std::mem::take(&mut words.rows);
            if self.act_on_words(turn, conn, *words) {
                return;
            }
        }
        if findings.transaction_block {
            self.refuse_transaction_block(turn, conn);
            return;
        }
        let Some(server) = self.servers.get_mut(conn) else { return };
        match server.state {
            State::Linked(session) => {
                let (gated, struck) = (server.gate.is_shut, server.cancel.overdue == Overdue::Answered);
                let Some(pool) = self.pools.get_mut(server.pool) else { return };
                if let Some(session_value) = self.sessions.get_mut(session) {
                    let tracked = &self.caches.tracked;
                    if findings.replayed {
                        replaying::accepted(turn, session, session_value, server, pool, tracked);
                    }
                    if findings.skipped_aside {
                        end_skipping(turn, conn, server);
                    }
                    if findings.reverted {
                        replaying::mend(turn, session_value, conn, server, tracked);
                    }
                }
                if findings.ears && self.heard_end(turn, conn, session, findings.withheld) {
                    return;
                }
                if let Some(server) = self.servers.get_mut(conn) {
                    question_syncs(turn, conn, server);
                }
                if gated {
                    self.open_gate(turn, conn, session);
                }
                self.cancel_if_wanted(turn, conn);
                if self.servers.get(conn).is_some_and(|server| server.ledger.depth() < limits::OWED_MAX / 2) {
                    self.balance_if_paused(turn, session);
                }
                if !self.release_if_done(turn, conn) {
                    if struck {
                        self.wait_for_cancel(conn);
                    }
                    self.stays_linked(turn, conn, session);
                }
            }
            State::Busy(chore) => {
                self.consulted(conn, rows);
                self.chore_progress(turn, conn, chore, chore_error);
            }
            State::Draining { .. } => self.drain_progress(turn, conn),
            State::Listening => self.listener_progress(turn, conn, chore_error),
            State::Idle | State::Held => self.free(turn, conn),
            State::Connecting | State::LoggingIn(_) => {}
        }
    }
}
