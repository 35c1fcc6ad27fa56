//! `SHOW ACTIVITY`: one row for each client that has or waits for a server, and for each backend of PostgreSQL, joined. PgBouncer has none.
//!
//! The columns of pg_stat_activity have its names; ages are in seconds. Users in `stats_users` do not see statements and tags.
//= pg18 monitoring-stats#MONITORING-PG-STAT-ACTIVITY-VIEW

use std::time::Duration;

use activity::{Moment, Row, Session, pid_shown};
use machine::Peer;

use super::socket::Side;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, Value, big, count, int, int8, numeric, text, words};

const COLUMNS: &[Column] = &[
    // As in the configuration; NULL: it has no server.
    text("server"),
    int("pid"),
    // client, server (of the pool, and idle), or stranger: not the pooler's.
    text("origin"),
    text("database"),
    text("user"),
    text("application_name"),
    text("client_addr"),
    // PostgreSQL's; waiting: for a server.
    text("state"),
    text("wait_event_type"),
    text("wait_event"),
    numeric("query_age"),
    numeric("transaction_age"),
    numeric("state_age"),
    numeric("backend_age"),
    // Of its process, where PostgreSQL runs on this machine: bytes of its own memory, percent of a processor, and seconds since it began.
    int8("memory"),
    numeric("cpu"),
    numeric("cpu_time"),
    numeric("xmin_age"),
    int8("query_id"),
    // The id of SHOW CLIENTS.
    int("client_id"),
    text("class"),
    text("tags"),
    text("fingerprint"),
    // Seconds that it waits for a server; that it had waited for the one that it has.
    numeric("waiting"),
    numeric("queued"),
    // Why it keeps its server between transactions.
    text("keeps"),
    // Pids of those in its way, and how many are in its own.
    text("blocked_by"),
    int("blocking"),
    text("query"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    let Some(moment) = input.history.latest() else { return table };
    moment.rows.iter().for_each(|row| table.push(values(input, moment, row)));
    table
}

fn values(input: &ShowInput<'_>, moment: &Moment, row: &Row) -> Vec<Value> {
    let (session, backend) = (row.session.as_ref(), row.backend.as_ref());
    let ages = backend.map(|backend| backend.ages).unwrap_or_default();
    let usage = backend.and_then(|backend| backend.usage);
    let times = session.map(|session| session.times).unwrap_or_default();
    let (database, user) = names(row);
    let wait = row.wait();
    let blockers = row.waiter.as_ref().map(|waiter| waiter.blockers.as_slice()).unwrap_or_default();
    let pids: Vec<String> = blockers.iter().map(|blocker| pid_shown(blocker.pid).to_string()).collect();
    vec![
        moment.host(row).and_then(|host| words(&*host.address)),
        row.pid_shown().and_then(count),
        words(row.origin.word()),
        database,
        user,
        application_name(row),
        address(input, row),
        row.state().and_then(words),
        wait.and_then(|(class, _)| words(class)),
        wait.and_then(|(_, event)| words(event)),
        seconds(ages.query),
        seconds(ages.transaction.or(times.transaction)),
        seconds(ages.state.or(times.idle)),
        seconds(ages.backend),
        usage.and_then(|usage| big(usage.memory)),
        usage.and_then(|usage| usage.cpu_thousandths).and_then(|used| words(format!("{}.{}", used / 10, used % 10))),
        seconds(usage.map(|usage| usage.cpu_time)),
        backend.and_then(|backend| backend.xmin_age).and_then(|age| big(age.into())),
        backend.and_then(|backend| backend.query_id).and_then(|id| words(id.to_string())),
        session.and_then(|session| count(session.id.serial.0)),
        session.and_then(|session| words(&*session.class)),
        tags(input, row),
        session.and_then(|session| session.fingerprint).and_then(|print| words(super::show_fingerprints::name(print))),
        seconds(times.waiting),
        session.and_then(|session| seconds(Some(session.times.queued))),
        session.and_then(|session| session.keeps.clone()),
        (!pids.is_empty()).then(|| pids.join(",")),
        (row.behind > 0).then_some(row.behind).and_then(count),
        statement(input, row),
    ]
}

/// Seconds, to the millisecond.
pub(super) fn seconds(age: Option<Duration>) -> Value {
    let age = age?;
    words(format!("{}.{:03}", age.as_secs(), age.subsec_millis()))
}

/// Database and user: the client's, or else the backend's.
pub(super) fn names(row: &Row) -> (Value, Value) {
    match (&row.session, &row.backend) {
        (Some(Session { pool, .. }), _) => (words(&*pool.database), words(&*pool.user)),
        (None, Some(backend)) => (backend.database.clone(), backend.user.clone().or_else(|| backend.kind.clone())),
        (None, None) => (None, None),
    }
}

pub(super) fn application_name(row: &Row) -> Value {
    let session = row.session.as_ref().map(|session| session.application_name.clone());
    session.or_else(|| row.backend.as_ref()?.application_name.clone())
}

/// Where the client is, or else where PostgreSQL says that the backend's is.
pub(super) fn address(input: &ShowInput<'_>, row: &Row) -> Value {
    let Some(session) = &row.session else { return row.backend.as_ref()?.client_addr.clone() };
    let side = match session.peer {
        Peer::Tcp { from, .. } => Side::tcp(from),
        Peer::Unix { .. } => Side::unix(input.listen_port),
    };
    words(side.address.to_string())
}

pub(super) fn tags(input: &ShowInput<'_>, row: &Row) -> Value {
    (input.shows_statements && !row.tags.is_empty()).then(|| row.tags.to_string())
}

pub(super) fn statement(input: &ShowInput<'_>, row: &Row) -> Value {
    row.statement().filter(|_| input.shows_statements).map(str::to_owned)
}
