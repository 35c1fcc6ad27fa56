//! Clients that say how long they can wait, by `pgweir.deadline_ms`: in the startup packet, by SET, or in a comment of
//! a transaction's first statement. The comment takes precedence.
//!
//! A statement that has waited longer than its deadline gets an error and never reaches PostgreSQL. A statement that is
//! expected to wait longer than its deadline gets the error at once. The error is 57014, as for any other timeout that
//! a client sets for itself. The client may send the statement again: no server has seen it.
//!
//! To PostgreSQL this is a custom setting, and it is part of the session's state that follows the session from server
//! to server. So SHOW, RESET, `current_setting` and rollbacks work as for any setting. It limits neither the time at a
//! server nor logins.

use std::time::Duration;

use link::request_refusal::RequestRefusal;
use link::session::{SessionState, WaitFor};
use queueing::commented::Commented;
use units::deadline::Owner;
use units::{ConnId, Time};

use crate::limits::{permits, refusals};
use crate::tables::followups::RequestError;
use crate::tables::limiters::Outcome;
use crate::tables::lookups;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

const HINT: &str = "It was not sent to PostgreSQL, and can be sent again.";

/// A session has begun to wait with these messages: applies its deadline, if it has one. `commented` is what their
/// comments say, if they were read.
#[inline]
pub(crate) fn apply_deadline(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    messages: &[u8],
    commented: Commented,
) {
    let session = &sessions[conn];
    if let Some(allowed) = session.deadline_ms(messages, commented) {
        apply_deadline_of(sessions, servers, pools, step, conn, allowed);
    }
}

/// A session has begun to wait, and its deadline is `allowed` milliseconds.
#[inline(never)]
fn apply_deadline_of(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    allowed: u32,
) {
    let session = &mut sessions[conn];
    // It waits for a limit and is linked: the deadline stands in its server's `hold`.
    let SessionState::Waiting { wait_for, ticket, since, .. } = session.state() else { return };
    session.take_deadline(allowed);
    // It may have waited already for a limit.
    let waited = step.now.since(since);
    let (class, pool) = (session.claim().class(), session.pool());
    let pool = &pools[pool];
    // It waits in another queue, whose pace is not known.
    let Some((place, len)) = pool.queue().place(class, ticket) else { return step.agenda.arm(Owner::Conn(conn)) };
    let expected = pool.queue().expected_wait(class, step.now, place);
    let expected = expected.filter(|_| wait_for == WaitFor::Server && pool.has_all_it_gets(step.now, class));
    let late = expected.filter(|expected| waited + *expected > Duration::from_millis(allowed.into()));
    // It is expected to be served in time.
    let Some(expected) = late else { return step.agenda.arm(Owner::Conn(conn)) };
    let (waited, expected) = (waited.as_millis(), expected.as_millis());
    let detail = format!("waited_ms={waited} deadline_ms={allowed} expected_wait_ms={expected} place={place} of {len}");
    refusals::count_refusal(sessions, pools, step, conn, &RequestRefusal::Deadline);
    let error = deadline_error(RequestRefusal::Deadline, detail);
    refusals::refuse_waiting_request(sessions, servers, pools, step, conn, &error);
}

/// Whether the deadline of a waiter that has just left the queue has passed. If so, it gets an error.
pub(crate) fn is_too_late(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) -> bool {
    let Some((since, deadline_ms)) = lookups::late(sessions, servers, step.now, conn) else {
        return false;
    };
    let detail = waited(step.now, since, deadline_ms);
    let (why, detail) = lookups::with_pin_limit(sessions, pools, conn, RequestRefusal::Deadline, detail);
    refusals::count_refusal(sessions, pools, step, conn, &why);
    refusals::refuse_request(sessions, servers, pools, step, conn, &deadline_error(why, detail));
    true
}

/// The deadline of a waiting session has passed.
pub(crate) fn deadline_passed(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let (since, deadline_ms) = lookups::late(sessions, servers, step.now, conn).expect("its deadline has come");
    if permits::end_linked_wait(sessions, servers, step, conn, Outcome::Late { since, deadline_ms }) {
        return;
    }
    let detail = waited(step.now, since, deadline_ms);
    let (why, detail) = lookups::with_pin_limit(sessions, pools, conn, RequestRefusal::Deadline, detail);
    refusals::count_refusal(sessions, pools, step, conn, &why);
    refusals::refuse_waiting_request(sessions, servers, pools, step, conn, &deadline_error(why, detail));
}

/// A session has waited for as long as `query_timeout` allows.
pub(crate) fn waited_too_long(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let session = &sessions[conn];
    let SessionState::Waiting { since, .. } = session.state() else {
        unreachable!("only a session that waits is due so")
    };
    let timeout = pools[session.pool()].rules().query_timeout().expect("it is due by its query_timeout");
    let waited = step.now.since(since).as_millis();
    let detail = format!("waited_ms={waited} query_timeout_ms={}", timeout.as_millis());
    let (why, detail) = lookups::with_pin_limit(sessions, pools, conn, RequestRefusal::QueryTimeout, detail);
    refusals::count_refusal(sessions, pools, step, conn, &why);
    refusals::refuse_waiting_request(sessions, servers, pools, step, conn, &deadline_error(why, detail));
}

pub(crate) fn deadline_error(why: RequestRefusal, detail: String) -> RequestError {
    RequestError { why, detail: Some(detail), hint: Some(HINT.into()) }
}

pub(crate) fn waited(now: Time, since: Time, deadline_ms: u32) -> String {
    format!("waited_ms={} deadline_ms={deadline_ms}", now.since(since).as_millis())
}
