//! A request that no server has seen is refused: its client is told why by an ERROR, as PostgreSQL would tell it, and goes on.
//!
//! ```text
//!   Query                              ERROR, ReadyForQuery
//!   Parse, Bind, …  (Sync to come)     ERROR; what follows is thrown away up to the Sync: ReadyForQuery
//! ```
//!
//! Where sessions are not followed it is closed, as by PgBouncer. Somebody who has not been let in yet is closed always.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use std::sync::Arc;

use link::session::{Line, State};
use machine::Turn;
use machine::mail::ToCoordinator;
use queueing::refusals::{News, Reason};
use units::ConnId;
use wire::backend;
use wire::backend::{ErrorResponse, Status};

use crate::Worker;

impl Worker {
    /// A session's request is refused, and its client told `message`: that is counted, and the first time told to the log.
    pub(super) fn count_refusal(&mut self, turn: &mut Turn<'_>, conn: ConnId, reason: Reason, message: &str) {
        let Some(session) = self.sessions.get(conn) else { return };
        let (pool, class) = (session.pool, Arc::clone(&self.settings.classes.class(session.claim.class).name));
        let quiet = self.settings.global.console.stats_period;
        if self.refusals.count(turn.now, quiet, pool, Arc::clone(&class), reason) {
            let news = ToCoordinator::Refused(Box::new(News { pool, class, reason, message: message.to_owned() }));
            turn.actions.post_to_coordinator(news);
        }
    }

    /// A waiting session leaves its line, and what it waited with is refused.
    pub(super) fn turn_away(&mut self, turn: &mut Turn<'_>, conn: ConnId, told: &ErrorResponse<'_>) {
        let Some(session) = self.sessions.get(conn) else { return };
        let State::Waiting { ticket, line, .. } = session.state else { return };
        if let Some(pool) = self.pools.get_mut(session.pool) {
            pool.leave_line(line, session.claim.class, ticket);
            if pool.exchange.homes > 1 {
                self.agenda.publish(pool.id);
            }
        }
        self.refuse_request(turn, conn, told);
    }

    /// As [`Worker::turn_away`], of a session that is in no line any more.
    pub(super) fn refuse_request(&mut self, turn: &mut Turn<'_>, conn: ConnId, told: &ErrorResponse<'_>) {
        // Its transaction will not be.
        self.leave_gates(turn, conn);
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let is_in = !matches!(session.state, State::Waiting { line: Line::Login, .. });
        let wants_server = matches!(session.state, State::Waiting { line: Line::Server | Line::Login, .. });
        session.state = State::Idle { since: turn.now };
        let (pool, class) = (session.pool, session.claim.class);
        if let Some(pool) = self.pools.get_mut(pool).filter(|_| wants_server) {
            pool.queue.refused(class);
        }
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let follows = self.pools.get(session.pool).is_some_and(|pool| pool.rules.follows());
        if !(follows && is_in) {
            self.refuse_session_as(turn, conn, told);
            return;
        }
        let is_over = session.drop_request();
        let more = !session.incoming.inbox.is_empty();
        turn.actions.send_new(conn, |out| {
            told.encode(out);
            if is_over {
                backend::encode_ready(out, Status::Idle);
            }
        });
        self.unseat(turn, conn);
        self.arm_session(conn);
        if more {
            self.agenda.reconsider(conn);
        } else {
            self.balance_if_paused(turn, conn);
        }
    }
}
