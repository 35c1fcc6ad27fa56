//! Prepared statements on a server: made there when they are needed, by names of our own, and forgotten when there are too many.

use std::sync::Arc;

use connections::server::{Answerer, Expect, Server};
use session_state::prepared;
use session_state::prepared::{Statement, StatementId};
use session_state::shape::Fingerprint;
use session_state::state::Reading;
use wire::frontend::{Close, Target};

use crate::caches::Caches;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::session::Session;

/// What a name stands for, as what its client knows it, and what it does.
pub(crate) fn named(
    session: &mut Session,
    pool: &mut Pool,
    caches: &mut Caches,
    name: &[u8],
) -> Option<(Arc<Statement>, Fingerprint, Reading)> {
    let named = session.statements.names.as_ref()?.named(name)?;
    let reading = named.reading(&mut caches.reader, &mut pool.names.known);
    Some((Arc::clone(&named.statement), named.fingerprint(), reading))
}

/// Prepares a statement on the server in front of the next message, with these types of its parameters if they are known.
/// `is_there`: the server has it already.
pub(crate) fn prepare_as(requests: &mut Requests<'_>, statement: &Statement, is_there: bool, types: Option<&[u8]>) {
    make_way(requests, statement, is_there);
    requests.server.statements.prepared.add(statement.id);
    requests.pool.counts.totals.server_parses += 1;
    requests.server.ledger.sent(Answerer::Prepare, Expect::Parse(Some(statement.id)));
    requests.stream.flush(requests.server_id, requests.actions);
    requests.actions.send_new(requests.server_id, |out| match types {
        Some(types) => statement.write_parse_as(types, out),
        None => statement.write_parse(out),
    });
}

/// Sees to it that a statement can be prepared: that there is room, or, if the server has it already and is to judge
/// its text again, that it is gone.
pub(crate) fn make_way(requests: &mut Requests<'_>, statement: &Statement, is_there: bool) {
    if !is_there {
        return make_room(requests);
    }
    requests.server.ledger.sent(Answerer::Prepare, Expect::Close(Some(statement.id)));
    requests.stream.flush(requests.server_id, requests.actions);
    let close = Close { target: Target::Statement, name: &statement.name };
    requests.actions.send_new(requests.server_id, |out| close.encode(out));
}

/// Whether it depends on answers under way what exists under a name, or what the server has prepared: a simple query
/// may be DISCARD ALL, a batch may fail and what is in it be skipped. Then the message waits for them.
pub(crate) fn must_wait(server: &Server, session: &Session, pool: &Pool, name: &[u8], id: Option<StatementId>) -> bool {
    let ledger = &server.ledger;
    if !ledger.awaits_ready() {
        return false;
    }
    let renamed = session.statements.names.as_ref().is_some_and(|names| names.is_changing(name));
    let crowded = ledger.is_changing() && server.statements.prepared.is_full(pool.rules.max_prepared_statements);
    renamed || crowded || ledger.awaits_query() || id.is_some_and(|id| ledger.is_changing_of(id))
}

pub(crate) fn id_of(session: &Session, name: &[u8]) -> Option<StatementId> {
    session.statements.names.as_ref()?.get(name).map(|statement| statement.id)
}

/// Closes the statement that was not used for longest, if the server has as many as it may.
fn make_room(requests: &mut Requests<'_>) {
    while let Some(evicted) = requests.server.statements.prepared.surplus(requests.pool.rules.max_prepared_statements) {
        evict(requests, evicted);
    }
}

fn evict(requests: &mut Requests<'_>, evicted: StatementId) {
    requests.server.statements.prepared.remove(evicted);
    requests.server.ledger.sent(Answerer::Prepare, Expect::Close(Some(evicted)));
    requests.stream.flush(requests.server_id, requests.actions);
    let name = prepared::server_name(evicted);
    let close = Close { target: Target::Statement, name: name.as_bytes() };
    requests.actions.send_new(requests.server_id, |out| close.encode(out));
}
