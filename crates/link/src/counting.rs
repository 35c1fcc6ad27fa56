//! Counts a client's statements as their answers come, where these do not take the short way.

use machine::histogram::Bucket;

use crate::answers::Answers;
use crate::server::{Answerer, Call, Entry, Expect};

/// Bytes of a ReadyForQuery. //= pg18 protocol-message-formats
const READY_LEN: usize = 6;

/// A CommandComplete of the client's answer.
pub(crate) fn completed(answers: &mut Answers<'_>, tag: &[u8]) {
    let server = &mut *answers.server;
    if server.ledger.owner() != Some(Answerer::Client) {
        return;
    }
    match server.ledger.front() {
        Some(Expect::Query) => server.transaction.tally.completed(tag),
        Some(Expect::Execute) => {
            let (statement, query_at) = (server.ledger.statement(), server.transaction.query_at);
            let before = server.transaction.tally.executed(statement, tag, 0, answers.now, query_at);
            if let Some(call) = before {
                count(answers, &call);
            }
        }
        _ => {}
    }
}

/// PortalSuspended: an Execute of the client's has stopped at its row limit.
pub(crate) fn suspended(answers: &mut Answers<'_>) {
    let server = &*answers.server;
    if (server.ledger.owner(), server.ledger.front()) == (Some(Answerer::Client), Some(Expect::Execute)) {
        completed(answers, b"");
    }
}

/// The client's ReadyForQuery, which ends the query that was sent so long ago.
pub(crate) fn ready(answers: &mut Answers<'_>, since_query_us: u64) {
    let server = &mut *answers.server;
    let query = (server.ledger.front() == Some(Expect::Query)).then(|| server.ledger.statement());
    let query_at = server.transaction.query_at;
    // The message itself is passed on after this.
    let tally = &mut server.transaction.tally;
    tally.sent(READY_LEN);
    let call = tally.ready(query, since_query_us, answers.now, query_at);
    tally.counted_already(READY_LEN);
    if let Some(call) = call {
        count(answers, &call);
    }
}

/// An error answers the client, after which the server skips these messages; none: it answers a Query, a FunctionCall or a Sync, whose
/// commit has failed.
pub(crate) fn failed(answers: &mut Answers<'_>, skipped: &[Entry]) {
    let transaction = &mut answers.server.transaction;
    if skipped.is_empty() {
        return transaction.tally.failed();
    }
    // An error within a batch that the pooler has begun is that of the client's message after it.
    let Some(entry) = skipped.iter().find(|entry| entry.owner == Answerer::Client) else { return };
    for call in transaction.tally.batch_failed(entry.statement, answers.now, transaction.query_at).into_iter().flatten()
    {
        count(answers, &call);
    }
}

fn count(answers: &mut Answers<'_>, call: &Call) {
    answers.caches.statistics.count(answers.pool.id, call, Bucket::of(call.run_us));
    if let Some((_, session)) = &mut answers.session {
        session.last_statement = call.statement;
    }
}
