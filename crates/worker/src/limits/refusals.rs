//! Refuses a request that no server has seen: the client gets an ERROR as from PostgreSQL, and goes on.
//!
//! ```text
//!   Query                              ERROR, ReadyForQuery
//! Parse, Bind, … (Sync to come) ERROR; what follows is discarded up to the Sync: ReadyForQuery
//! ```
//!
//! Where session state is not followed, the session is closed, as by PgBouncer. A client that has not logged in yet is
//! always closed.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use std::sync::Arc;

use link::loss::Told;
use link::lost_block::LostBlock;
use link::request_refusal::RequestRefusal;
use link::session::{Session, SessionState, WaitFor};
use machine::mail::ToCoordinator;
use queueing::limiting::limiter::LimitError;
use queueing::refusals::{News, Reason};
use units::ConnId;
use units::deadline::Owner;
use wire::backend::ErrorResponse;
use wire::frontend::tag;
use wire::{Header, SqlState, backend};

use crate::limits::{permits, pin_queue};
use crate::tables::cancels::refuse_first;
use crate::tables::followups::RequestError;
use crate::tables::limiters::Limiters;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{self, backpressure};

/// Sends the client the error. The rest of its batch is skipped, as PostgreSQL does after an error.
pub(crate) fn refuse_for_now(
    sessions: &mut Sessions,
    pools: &mut Pools,
    limiters: &Limiters,
    step: &mut Step<'_>,
    conn: ConnId,
    refused: &LimitError,
    messages: &[u8],
) {
    permits::report_limits(sessions, limiters, step, conn);
    let why = RequestRefusal::Limit { reason: refused.reason, words: refused.text.clone() };
    count_refusal(sessions, pools, step, conn, &why);
    let (detail, hint) = (Some(refused.exceeded.detail()), Some(refused.exceeded.hint().into()));
    refuse_batch(sessions, step, conn, &RequestError { why, detail, hint }, messages);
}

/// Answers a session's messages, of which nothing is under way, with an error. The next reader of the messages skips
/// them: a Query alone, otherwise everything up to the next Sync.
//= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY
pub(crate) fn refuse_batch(
    sessions: &mut Sessions,
    step: &mut Step<'_>,
    conn: ConnId,
    error: &RequestError,
    messages: &[u8],
) {
    let session = &mut sessions[conn];
    let error = error.clone().within_block(session.has_begun());
    step.actions.send_new(conn, |out| error.encode(out));
    discard_request(session, step, conn, messages);
    session.end_retries();
    lose_begun(sessions, step, conn, Told::Lost);
}

/// Has the next reader of a refused request's messages skip them: a Query alone, which ends here, otherwise everything up to the next Sync.
fn discard_request(session: &mut Session, step: &mut Step<'_>, conn: ConnId, messages: &[u8]) {
    match Header::parse(messages) {
        Ok(Some(header)) if matches!(header.tag, tag::QUERY | tag::FUNCTION_CALL) => {
            session.incoming_mut().discard_message(header.total_len() as u32);
            let status = session.status_after_refusal();
            step.actions.send_new(conn, |out| backend::encode_ready(out, status));
        }
        _ => session.incoming_mut().discard_batch(),
    }
}

/// If the session's block was to begin again at a server that is lost: answers the request that waits for that with this error. The block is lost.
pub(crate) fn refuse_begun(
    sessions: &mut Sessions,
    step: &mut Step<'_>,
    conn: ConnId,
    (code, message): (SqlState, &str),
) {
    let session = &mut sessions[conn];
    if !session.has_begun() {
        return;
    }
    if !refuse_first(step, conn, session, (code, message)) {
        // The rest of its message has not come, or the Sync of its batch.
        let error = ErrorResponse { severity: "ERROR", code, message, detail: None, hint: None };
        step.actions.send_new(conn, |out| error.encode(out));
        let inbox = session.incoming_mut().take_inbox();
        discard_request(session, step, conn, &inbox);
        session.incoming_mut().put_back(inbox);
    }
    lose_begun(sessions, step, conn, Told::Lost);
}

/// A transaction block that no server has begun is lost. `told`: the errors that its client has got.
pub(crate) fn lose_begun(sessions: &mut Sessions, step: &Step<'_>, conn: ConnId, told: Told) {
    let session = &mut sessions[conn];
    let Some(begun) = session.take_begun() else { return };
    session.lose_block(step.now);
    sessions.lost_blocks.insert(conn, LostBlock::new(told, begun.into_error(), Vec::new()));
}

/// Refuses a transaction of a session that keeps its server, since several hosts accept writes, and its server is at one of them. It could only wait
/// with what it has at its server, which may be lost.
pub(crate) fn refuse_in_dispute(
    sessions: &mut Sessions,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    messages: &[u8],
) {
    let why = RequestRefusal::NoHost { why: "two hosts accept writes".to_owned() };
    count_refusal(sessions, pools, step, conn, &why);
    refuse_batch(sessions, step, conn, &RequestError { why, detail: None, hint: None }, messages);
}

/// Counts a refused request. The first one of its kind is logged with its words.
pub(crate) fn count_refusal(
    sessions: &Sessions,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    why: &RequestRefusal,
) {
    let Some(reason) = why.counted_as() else { return };
    let session = &sessions[conn];
    let (pool, class) = (session.pool(), Arc::clone(&step.plan.settings.classes.class(session.claim().class()).name));
    let quiet = step.plan.settings.global.console.stats_period;
    if pools.refusals.count(step.now, quiet, pool, Arc::clone(&class), reason) {
        let news = ToCoordinator::Refused(Box::new(News { pool, class, reason, message: why.to_string() }));
        step.actions.post_to_coordinator(news);
    }
}

/// Counts a session that ends for this reason. The log has a line for each that ends.
pub(crate) fn count_ended(sessions: &Sessions, pools: &mut Pools, step: &Step<'_>, conn: ConnId, reason: Reason) {
    let session = &sessions[conn];
    let (pool, class) = (session.pool(), Arc::clone(&step.plan.settings.classes.class(session.claim().class()).name));
    let quiet = step.plan.settings.global.console.stats_period;
    pools.refusals.count(step.now, quiet, pool, class, reason);
}

/// A waiting session leaves its queue, and its request is refused.
pub(crate) fn refuse_waiting_request(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    error: &RequestError,
) {
    tables::leave_queue(sessions, pools, step, conn);
    refuse_request(sessions, servers, pools, step, conn, error);
}

/// Like [`refuse_waiting_request`], for a session that has left its queue already.
pub(crate) fn refuse_request(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    error: &RequestError,
) {
    // Its transaction does not begin.
    permits::leave_limits(sessions, step, conn);
    let session = &mut sessions[conn];
    let is_in = !matches!(session.state(), SessionState::Waiting { wait_for: WaitFor::Login | WaitFor::Own, .. });
    session.stop_waiting(step.now);
    let pool = &pools[session.pool()];
    if !(pool.rules().follows() && is_in) {
        step.agenda.refuse_as(conn, error);
        return;
    }
    let is_over = session.drop_request();
    let more = !session.incoming().inbox().is_empty();
    let status = session.status_after_refusal();
    let error = error.clone().within_block(session.has_begun());
    step.actions.send_new(conn, |out| {
        error.encode(out);
        if is_over {
            backend::encode_ready(out, status);
        }
    });
    lose_begun(sessions, step, conn, Told::Lost);
    pin_queue::return_pin_permit(sessions, pools, step, conn);
    step.agenda.arm(Owner::Conn(conn));
    if more {
        step.agenda.reconsider(conn);
    } else {
        backpressure::balance_if_paused(sessions, servers, step, conn);
    }
}
