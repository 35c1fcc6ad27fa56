//! Prepared statements on a server: prepared when they are needed, under the pooler's names, and closed when there are
//! too many.

use session_state::access::Access;
use session_state::prepared;
use session_state::prepared::{Named, Statement, StatementId};
use session_state::state::{KnownRow, Reading};
use sql::{Marks, Rules, Text};
use wire::backend::Status;
use wire::frontend::{Close, Target};

use crate::caches::Caches;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::server::{Answerer, Expect, Said, Server};
use crate::session::Session;
use crate::texts;

/// What a client's name stands for, and its effects. [`Caches::said`] is that statement then.
#[inline]
pub(crate) fn named<'s>(
    session: &'s Session,
    pool: &mut Pool,
    caches: &mut Caches,
    name: &[u8],
) -> Option<(&'s Named, Reading)> {
    let named = session.statements.names.as_ref()?.named(name)?;
    let mut row = named.row.get();
    if !caches.statistics.knows(row, pool.id) {
        row = known_row(session, pool, caches, &named.statement);
        named.row.set(row);
    }
    let reading = named.reading(&mut caches.reader, &mut pool.names.known);
    // What its names do is known only where side effects are asked for.
    let access = if pool.rules.follows() { reading.access() } else { reading.access().max(Access::ReadWrite) };
    caches.said = Said { row: row.row, access, copies: reading.copies() };
    Some((named, reading))
}

/// The row of a statement that its client uses for the first time, or whose row was dropped.
#[cold]
fn known_row(session: &Session, pool: &Pool, caches: &mut Caches, statement: &Statement) -> KnownRow {
    caches.identify(statement.query(), &session.parameters, pool.id);
    KnownRow { pool: pool.id, row: caches.said.row }
}

/// Prepares a statement on the server before the next message, with these parameter types if they are known.
/// `is_there`: the server has it already.
pub(crate) fn prepare_as(requests: &mut Requests<'_>, statement: &Statement, is_there: bool, types: Option<&[u8]>) {
    make_way(requests, statement, is_there);
    // Other clients share the statement, and PostgreSQL keeps the constants of the moment when it reads the text.
    let [before, after] =
        statement.constants.settings(texts::parameters(requests.link.session), &requests.caches.tracked);
    requests.run_prelude(&before);
    requests.link.server.statements.prepared.add(statement.id);
    requests.link.pool.counts.totals.server_parses += 1;
    requests.link.server.ledger.sent(Answerer::Prepare, Expect::Parse(Some(statement.id)));
    requests.stream.flush(requests.link.server_id, requests.actions);
    requests.actions.send_new(requests.link.server_id, |out| match types {
        Some(types) => statement.write_parse_as(types, out),
        None => statement.write_parse(out),
    });
    requests.run_prelude(&after);
}

/// Makes way for preparing a statement: makes room for it, or, if the server has it already and is to parse it anew,
/// closes it.
pub(crate) fn make_way(requests: &mut Requests<'_>, statement: &Statement, is_there: bool) {
    if !is_there {
        return make_room(requests);
    }
    requests.link.server.ledger.sent(Answerer::Prepare, Expect::Close(Some(statement.id)));
    requests.stream.flush(requests.link.server_id, requests.actions);
    let close = Close { target: Target::Statement, name: &statement.name };
    requests.actions.send_new(requests.link.server_id, |out| close.encode(out));
}

/// Whether a message must wait because answers under way decide which statement has a name, or what the server has
/// prepared: a simple query may be DISCARD ALL, and a batch may fail, so that its rest is skipped.
pub(crate) fn must_wait(server: &Server, session: &Session, pool: &Pool, name: &[u8], id: Option<StatementId>) -> bool {
    let ledger = &server.ledger;
    if !ledger.owed().awaits_ready() {
        return false;
    }
    let renamed = session.statements.names.as_ref().is_some_and(|names| names.is_changing(name));
    let crowded = ledger.owed().is_changing() && server.statements.prepared.is_full(pool.rules.max_prepared_statements);
    renamed || crowded || ledger.owed().awaits_query() || id.is_some_and(|id| ledger.owed().is_changing_of(id))
}

/// Whether PostgreSQL refuses to parse a text that the server knows, by 25P02: in a failed transaction it parses only what ends or
/// divides one, and a text without a statement.
pub(crate) fn is_refused(server: &Server, statement: &Statement) -> bool {
    server.transaction.status == Status::Failed
        && !statement.marks().any(Marks::TRANSACTION | Marks::UNKNOWN)
        && Text::new(statement.query(), Rules::default()).statements().next().is_some()
}

pub(crate) fn id_of(session: &Session, name: &[u8]) -> Option<StatementId> {
    session.statements.names.as_ref()?.get(name).map(|statement| statement.id)
}

/// Closes the least recently used statement, if the server has as many as it may.
fn make_room(requests: &mut Requests<'_>) {
    while let Some(evicted) =
        requests.link.server.statements.prepared.surplus(requests.link.pool.rules.max_prepared_statements)
    {
        evict(requests, evicted);
    }
}

fn evict(requests: &mut Requests<'_>, evicted: StatementId) {
    requests.link.server.statements.prepared.remove(evicted);
    requests.link.server.ledger.sent(Answerer::Prepare, Expect::Close(Some(evicted)));
    requests.stream.flush(requests.link.server_id, requests.actions);
    let name = prepared::server_name(evicted);
    let close = Close { target: Target::Statement, name: name.as_bytes() };
    requests.actions.send_new(requests.link.server_id, |out| close.encode(out));
}
