//! Counts a client's statements, for SHOW STATS, SHOW QUERIES, histograms, the log of slow statements, and traces. There are three points, at
//! which the fast case ([`plain`](crate::plain)) and the general one count.
//!
//! ```text
//!   sent        a request goes to the server                when it began, and its text where that is wanted
//!   completed   CommandComplete, PortalSuspended            rows and bytes; the Execute before it is a call
//!   ready       ReadyForQuery of the client's               the call, the query, and the transaction if that is over
//! ```
//!
//! An error is a point of its own ([`failed`]): no statement that takes the fast case has one.

use machine::histogram::Bucket;
use units::{StatementRow, Time};
use wire::backend::Status;

use crate::answers::Answers;
use crate::pool::Pool;
use crate::server::{Answerer, Call, Entry, Expect, Server};
use crate::session::Session;
use crate::slow;
use crate::statistics::Statistics;

/// Bytes of a ReadyForQuery. //= pg18 protocol-message-formats
const READY_LEN: usize = 6;

/// A client's requests are sent. `is_first`: the client was owed nothing before. `begins`: the server was owed nothing and was in no batch.
#[inline(always)]
pub fn sent(server: &mut Server, now: Time, is_first: bool, begins: bool) {
    if is_first {
        server.transaction.query_at = now;
    }
    if begins {
        server.lease.began_at.get_or_insert(now);
    }
}

/// A statement of the client's has ended with this tag. `query`: it is one of a Query; else it is an Execute of `statement`, after `bytes`
/// of its answer that are not noted as sent yet. Returns the call that is complete by that: the Execute before it.
#[inline(always)]
pub(crate) fn completed(
    server: &mut Server,
    now: Time,
    (query, statement): (bool, StatementRow),
    tag: &[u8],
    bytes: usize,
) -> Option<Call> {
    let query_at = server.transaction.query_at;
    let tally = &mut server.lease.tally;
    if query {
        tally.completed(tag);
        return None;
    }
    tally.executed(statement, tag, bytes, now, query_at)
}

/// The client's ReadyForQuery has come, and is noted as sent. `query`: the statement of the Query that it ends. `is_last`: the client is owed
/// nothing more.
#[inline(always)]
pub(crate) fn ready(
    (server, pool, session): (&mut Server, &mut Pool, Option<&mut Session>),
    statistics: &mut Statistics,
    now: Time,
    status: Status,
    (query, is_last): (Option<StatementRow>, bool),
) {
    let query_at = std::mem::replace(&mut server.transaction.query_at, now);
    let lease = &mut server.lease;
    let ran_us = now.micros_since(query_at);
    let bucket = pool.counts.count_query(ran_us);
    if let Some(call) = lease.tally.ready(query, ran_us, now, query_at) {
        let bucket = if call.run_us == ran_us { bucket } else { Bucket::of(call.run_us) };
        count(statistics, pool, session, &call, bucket);
    }
    if status == Status::Idle {
        // If more answers are owed, the next transaction has begun.
        let next = (!is_last).then_some(now);
        let began = std::mem::replace(&mut lease.began_at, next).unwrap_or(now);
        pool.counts.count_transaction(now, began, (query_at, bucket));
    }
}

/// A call is over.
#[inline(always)]
pub(crate) fn count(
    statistics: &mut Statistics,
    pool: &Pool,
    session: Option<&mut Session>,
    call: &Call,
    bucket: Bucket,
) {
    statistics.count(pool.id, call, bucket);
    if let Some(session) = session {
        session.last_statement = call.statement;
    }
}

/// A CommandComplete of the client's answer.
pub(crate) fn command_completed(answers: &mut Answers<'_>, tag: &[u8]) {
    let server = &mut *answers.server;
    if server.ledger.owner() != Some(Answerer::Client) {
        return;
    }
    let statement = match server.ledger.front() {
        Some(Expect::Query) => (true, StatementRow::NONE),
        Some(Expect::Execute) => (false, server.ledger.statement()),
        _ => return,
    };
    if let Some(call) = completed(server, answers.now, statement, tag, 0) {
        count_of(answers, &call);
    }
}

/// PortalSuspended: an Execute of the client's has stopped at its row limit.
pub(crate) fn suspended(answers: &mut Answers<'_>) {
    let server = &*answers.server;
    if (server.ledger.owner(), server.ledger.front()) == (Some(Answerer::Client), Some(Expect::Execute)) {
        command_completed(answers, b"");
    }
}

/// The client's ReadyForQuery.
pub(crate) fn query_ready(answers: &mut Answers<'_>, status: Status) {
    if answers.server.asked.is_some() {
        slow::answered(answers);
    }
    let Answers { server, pool, session, caches, now, .. } = answers;
    let query = (server.ledger.front() == Some(Expect::Query)).then(|| server.ledger.statement());
    let is_last = server.ledger.depth() <= 1;
    // The message itself is passed on after this.
    server.lease.tally.sent(READY_LEN);
    let session = session.as_mut().map(|(_, session)| &mut **session);
    ready((server, pool, session), &mut caches.statistics, *now, status, (query, is_last));
    server.lease.tally.counted_already(READY_LEN);
    server.query_answered();
}

/// An error answers the client, after which the server skips these messages; none: it answers a Query, a FunctionCall or a Sync, whose
/// commit has failed.
pub(crate) fn failed(answers: &mut Answers<'_>, skipped: &[Entry]) {
    let query_at = answers.server.transaction.query_at;
    let lease = &mut answers.server.lease;
    if skipped.is_empty() {
        return lease.tally.failed();
    }
    // An error within a batch that the pooler has begun is that of the client's message after it.
    let Some(entry) = skipped.iter().find(|entry| entry.owner == Answerer::Client) else { return };
    for call in lease.tally.batch_failed(entry.statement, answers.now, query_at).into_iter().flatten() {
        count_of(answers, &call);
    }
}

fn count_of(answers: &mut Answers<'_>, call: &Call) {
    let session = answers.session.as_mut().map(|(_, session)| &mut **session);
    count(&mut answers.caches.statistics, answers.pool, session, call, Bucket::of(call.run_us));
}
