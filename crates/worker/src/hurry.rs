//! Clients that say how long they can wait: `pgweir.deadline_ms`, in the startup packet, by SET, or in a comment of the first
//! statement of a transaction, which counts before the others.
//!
//! Promises: whoever has waited for longer never reaches PostgreSQL, and is told so then; whoever would wait for longer, by
//! what is expected, is told at once. It is told by an error of its statement (57014, as by any other timeout that a client
//! sets for itself) and may ask again: no server has seen the statement.
//!
//! The setting is a custom one of PostgreSQL's, which the session's state brings from server to server: SHOW, RESET,
//! `current_setting` and rollbacks are PostgreSQL's. Does not bound what happens at a server, nor logins.

use std::time::Duration;

use link::session::{Line, State};
use machine::Turn;
use queueing::commented::Commented;
use queueing::refusals::Reason;
use units::{ConnId, Time};
use wire::backend::ErrorResponse;
use wire::sqlstate;

use crate::Worker;
use crate::gates::Outcome;

/// As PostgreSQL words its own timeouts.
pub(super) const WORDS: &str = "canceling statement due to deadline";
const QUERY_TIMEOUT: &str = "canceling statement due to query_timeout";
const HINT: &str = "It was not sent to PostgreSQL, and can be sent again.";

pub(super) fn told<'a>(message: &'a str, detail: &'a str) -> ErrorResponse<'a> {
    let (detail, hint) = (Some(detail), Some(HINT));
    ErrorResponse { severity: "ERROR", code: sqlstate::QUERY_CANCELED, message, detail, hint }
}

impl Worker {
    /// A session has begun to wait, with these messages, whose comments may have been read: for how long can it?
    #[inline]
    pub(super) fn hurry(&mut self, turn: &mut Turn<'_>, conn: ConnId, messages: &[u8], commented: Commented) {
        let Some(session) = self.sessions.get(conn) else { return };
        if let Some(allowed) = session.deadline_ms(messages, commented) {
            self.hurry_within(turn, conn, allowed);
        }
    }

    /// A session has begun to wait, and can for so many milliseconds.
    #[inline(never)]
    fn hurry_within(&mut self, turn: &mut Turn<'_>, conn: ConnId, allowed: u32) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let State::Waiting { deadline_ms, line, ticket, since, .. } = &mut session.state else { return };
        *deadline_ms = allowed;
        // It may have waited already, at a limit.
        let waited = turn.now.since(*since);
        let (line, ticket, class, pool) = (*line, *ticket, session.claim.class, session.pool);
        let Some(pool) = self.pool(pool) else { return };
        let Some((place, len)) = pool.queue.place(class, ticket) else { return self.arm_session(conn) };
        let expected = pool.queue.expected_wait(class, turn.now, place);
        let expected = expected.filter(|_| line == Line::Server && pool.has_all_it_gets(turn.now, class));
        let late = expected.filter(|expected| waited + *expected > Duration::from_millis(allowed.into()));
        let Some(expected) = late else { return self.arm_session(conn) };
        let (waited, expected) = (waited.as_millis(), expected.as_millis());
        let detail =
            format!("waited_ms={waited} deadline_ms={allowed} expected_wait_ms={expected} place={place} of {len}");
        self.count_refusal(turn, conn, Reason::Deadline, WORDS);
        self.turn_away(turn, conn, &told(WORDS, &detail));
    }

    /// Whether the waiter whose turn has come, and who has left the line, can be served no more: then it is told so.
    pub(super) fn is_too_late(&mut self, turn: &mut Turn<'_>, conn: ConnId) -> bool {
        let Some((since, deadline_ms)) = self.view().late(turn.now, conn) else { return false };
        let (message, detail) = self.view().with_pin_limit(conn, WORDS, waited(turn.now, since, deadline_ms));
        self.count_refusal(turn, conn, Reason::Deadline, &message);
        self.refuse_request(turn, conn, &told(&message, &detail));
        true
    }

    /// A session waits, and can no more.
    pub(super) fn deadline_passed(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some((since, deadline_ms)) = self.view().late(turn.now, conn) else { return };
        if self.end_linked_wait(turn, conn, Outcome::Late { since, deadline_ms }) {
            return;
        }
        let (message, detail) = self.view().with_pin_limit(conn, WORDS, waited(turn.now, since, deadline_ms));
        self.count_refusal(turn, conn, Reason::Deadline, &message);
        self.turn_away(turn, conn, &told(&message, &detail));
    }

    /// A session has waited for as long as its query could run.
    pub(super) fn waited_too_long(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let State::Waiting { since, .. } = session.state else { return };
        let Some(timeout) = self.pool(session.pool).and_then(|pool| pool.rules.query_timeout) else { return };
        let waited = turn.now.since(since).as_millis();
        let detail = format!("waited_ms={waited} query_timeout_ms={}", timeout.as_millis());
        let (message, detail) = self.view().with_pin_limit(conn, QUERY_TIMEOUT, detail);
        self.count_refusal(turn, conn, Reason::QueryTimeout, &message);
        self.turn_away(turn, conn, &told(&message, &detail));
    }
}

pub(super) fn waited(now: Time, since: Time, deadline_ms: u32) -> String {
    format!("waited_ms={} deadline_ms={deadline_ms}", now.since(since).as_millis())
}
