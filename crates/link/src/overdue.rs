//! How long a query takes, and what becomes of one that takes longer than `query_timeout`.
//!
//! ```text
//!   classic, and session mode        FATAL "query timeout", and both connections are closed, as in PgBouncer
//!   else    at a server              CancelRequest ──► its error ──► the session goes on, and the server
//!                                                └──► nothing comes ──► the server is closed (query_cancel_timeout)
//!           behind our own question  taken back; no server has seen it
//! ```
//!
//! Promises: such a cancel strikes no query that its client sends later, since that waits until PostgreSQL has closed the
//! cancel's connection. What the client has sent ahead in a pipeline may be struck in its predecessor's place, if that ends
//! at this very moment: a CancelRequest names a process, not a query.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-CANCELING-REQUESTS
//! //= pgbouncer config.md#query_timeout

use settings::PoolMode;
use wire::backend::{Fields, Status};
use wire::{HEADER_LEN, sqlstate};

use crate::answers::Answers;

/// What a client is told whose query was taken back, or whose server does not stop.
pub const WORDS: &str = "canceling statement due to query_timeout";

/// A query of the client's has been answered.
pub(crate) fn count_query(answers: &mut Answers<'_>, status: Status) {
    let totals = &mut answers.pool.counts.totals;
    totals.count_query(answers.now, answers.server.transaction.query_at);
    answers.server.query_answered();
    answers.server.transaction.query_at = answers.now;
    if status == Status::Idle {
        // What is owed behind this answer is the next transaction.
        let next = (answers.server.ledger.depth() > 1).then_some(answers.now);
        let began = std::mem::replace(&mut answers.server.transaction.began_at, next).unwrap_or(answers.now);
        totals.count_transaction(answers.now, began);
    }
    let block = answers.pool.rules.mode == PoolMode::Statement && status != Status::Idle;
    answers.findings.transaction_block |= block;
}

/// PostgreSQL words every cancel as its user's wish: whoever made none is told in the DETAIL why. True: the error has been
/// sent so.
pub(crate) fn says_it_was_late(answers: &mut Answers<'_>, fields: &Fields<'_>, body: &[u8]) -> bool {
    if answers.server.overdue_since().is_none()
        || fields.sqlstate() != Some(sqlstate::QUERY_CANCELED)
        || fields.detail().is_some()
    {
        return false;
    }
    // It does not end as an error does: it is passed on as it is.
    let Some(body) = body.strip_suffix(&[0]) else { return false };
    // A reload has taken the timeout away meanwhile.
    let Some(timeout) = answers.pool.rules.query_timeout else { return false };
    let ran = answers.now.since(answers.server.transaction.query_at).as_millis();
    let mut out = Vec::with_capacity(HEADER_LEN + body.len() + 64);
    let detail = format!("ran_ms={ran} query_timeout_ms={}", timeout.as_millis());
    wire::backend::encode_error_with_detail(body, &detail, &mut out);
    answers.send_apart(&out, true);
    true
}
