//! Counts how long queries take, and words the error for one that takes longer than `query_timeout`.
//!
//! ```text
//!   classic, and session mode        FATAL "query timeout", and both connections are closed, as in PgBouncer
//! else at a server CancelRequest ──► its error ──► session and server go on
//! └──► no error comes ──► the server is closed (query_cancel_timeout)
//! not sent yet answered as cancelled; no server has seen it
//! ```
//!
//! With `words = pgbouncer` the error of a cancelled query is PgBouncer's, too: "query timeout".
//!
//! What may be committing is not cancelled but closed: a cancel would make a commit known that waits for its standby.
//!
//! Such a cancel does not hit a query that the client sends later, since that waits until PostgreSQL has closed the
//! cancel's connection. It may hit a query that was already sent in the same pipeline, if the overdue one ends at this
//! very moment: a CancelRequest names a process, not a query.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-CANCELING-REQUESTS
//! //= pgbouncer config.md#query_timeout

use settings::{PoolMode, Words};
use wire::backend::{ErrorResponse, Fields, Status};
use wire::{HEADER_LEN, sqlstate};

use crate::answers::Answers;
use crate::counting;

/// PgBouncer's words for a query that takes too long.
pub const PGBOUNCERS_WORDS: &str = "query timeout";

/// A query of the client has been answered.
pub(crate) fn count_query(answers: &mut Answers<'_>, status: Status) {
    counting::query_ready(answers, status);
    let block = answers.pool.rules.mode == PoolMode::Statement && status != Status::Idle;
    answers.findings.transaction_block |= block;
}

/// PostgreSQL words every cancel as the user's request. If the timeout caused it, a DETAIL says so. True: the error has
/// been sent with it.
pub(crate) fn says_it_was_late(answers: &mut Answers<'_>, fields: &Fields<'_>, body: &[u8]) -> bool {
    if answers.server.overdue_since().is_none()
        || fields.sqlstate() != Some(sqlstate::QUERY_CANCELED)
        || fields.detail().is_some()
    {
        return false;
    }
    // It does not end as an error should: it is passed on unchanged.
    let Some(body) = body.strip_suffix(&[0]) else { return false };
    // A reload has removed the timeout meanwhile.
    let Some(timeout) = answers.pool.rules.query_timeout else { return false };
    let ran = answers.now.since(answers.server.transaction.query_at).as_millis();
    let mut out = Vec::with_capacity(HEADER_LEN + body.len() + 64);
    let detail = format!("ran_ms={ran} query_timeout_ms={}", timeout.as_millis());
    match answers.pool.rules.words {
        Words::PostgreSql => wire::backend::encode_error_with_detail(body, &detail, &mut out),
        Words::PgBouncer => {
            let (severity, code) = ("ERROR", sqlstate::QUERY_CANCELED);
            let detail = Some(&*detail);
            ErrorResponse { severity, code, message: PGBOUNCERS_WORDS, detail, hint: None }.encode(&mut out);
        }
    }
    answers.send_apart(&out, true);
    true
}
