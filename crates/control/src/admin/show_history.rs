//! `SHOW HISTORY`: the seconds of the history in full, over any part of the last hour, or of what is on disk. PgBouncer has none. `pgweir report` makes its page of it.
//!
//! ```text
//!   pool     what a pool had, and had done since the start
//!   sample   how many waited for one thing: counted by what repeats
//!   why      the verdict on a pool in trouble, as SHOW WHY had it
//!   row      one of those that are kept with all their ids: most in the way, longest waiting
//! ```
//!
//! Users in `stats_users` do not see statements, tags and blockers.

use activity::history::{Exact, Key, PoolSecond, Second, Span, Who, WhySecond};
use activity::{History, Tags};
use jiff::Zoned;
use machine::Peer;
use units::PoolKey;

use super::show_activity::seconds;
use super::show_waits::{in_memory, span, time_of_day};
use super::shown::During;
use super::socket::Side;
use crate::past::Past;
use crate::show_input::ShowInput;
use crate::table::{Column, Row, Table, int, int4, int8, numeric, text};

const COLUMNS: &[Column] = &[
    text("time"),
    // The same in milliseconds since 1970.
    int8("at"),
    text("kind"),
    text("database"),
    text("user"),
    text("class"),
    text("wait_event_type"),
    text("wait_event"),
    // Of a sample: how many.
    int("count"),
    text("tags"),
    text("query"),
    // At the end of the chain of those in its way.
    text("blocker"),
    // Of a pool, then.
    int("clients"),
    int("waiting"),
    numeric("max_wait"),
    int("servers_active"),
    int("servers_idle"),
    int("servers_login"),
    // What auto has found.
    int("pool_size"),
    // Of a pool, since the start.
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("wait_time"),
    // Of a row.
    int("client_id"),
    text("client_addr"),
    text("application_name"),
    int("pid"),
    numeric("waited"),
    numeric("queued"),
    numeric("transaction_age"),
    numeric("idle"),
    numeric("query_age"),
    // Pids: the one that it stands behind, and the one at the end.
    int("blocked_by"),
    int("blocked_by_root"),
    int("blocking"),
    // The columns of a why: the verdict, whether the queue was a cause or a consequence, and the root.
    text("sentence"),
    text("queue"),
    text("root"),
];

/// Columns of what is waited for, of a pool's, and of a row's.
const WAIT_LEN: usize = 9;
const POOL_LEN: usize = 12;
const ROW_LEN: usize = 12;
const WHY_LEN: usize = 3;

/// The last five minutes.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    of(input, &During::default(), None)
}

pub(super) fn of(input: &ShowInput<'_>, during: &During, past: Option<&Past>) -> Table {
    let asked = Asked { now: &input.now, port: input.listen_port, is_open: input.shows_statements };
    let span = span(&input.now, during);
    let mut table = Table::new(COLUMNS);
    if let Some(Past::Seconds(read, past)) = past {
        add(&mut table, past, *read, &asked);
    }
    add(&mut table, input.history, in_memory(past, span), &asked);
    table
}

/// Who asks.
pub(crate) struct Asked<'a> {
    /// In its zone times are told.
    pub(crate) now: &'a Zoned,
    /// As which clients of Unix sockets are shown.
    pub(crate) port: u16,
    /// Whether statements, tags and blockers are shown.
    pub(crate) is_open: bool,
}

pub(crate) fn history(history: &History, span: Span, asked: &Asked<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    add(&mut table, history, span, asked);
    table
}

fn add(table: &mut Table, history: &History, span: Span, asked: &Asked<'_>) {
    for second in history.within(span) {
        let time = time_of_day(asked.now, second.at);
        for (key, pool) in &second.pools {
            table.write(|row| put_pool(begun(row, &time, second, "pool"), key, pool));
        }
        for why in &second.whys {
            table.write(|row| put_why(begun(row, &time, second, "why"), asked, why));
        }
        for sample in &second.samples {
            table.write(|row| {
                let row = begun(row, &time, second, "sample");
                let key = history.key(sample.key);
                put_key(row, asked, key, &key.who.tags, Some(sample.count));
                nulls(row, POOL_LEN + ROW_LEN + WHY_LEN);
            });
        }
        for exact in &second.worst {
            table.write(|row| {
                let row = begun(row, &time, second, "row");
                // All of them, those of one request too.
                put_key(row, asked, history.key(exact.key), &exact.tags, None);
                nulls(row, POOL_LEN);
                put_exact(row, asked, exact);
                nulls(row, WHY_LEN);
            });
        }
    }
}

fn begun<'r, 't>(row: &'r mut Row<'t>, time: &str, second: &Second, kind: &str) -> &'r mut Row<'t> {
    row.text(time).shown(second.at.0).text(kind)
}

fn nulls(row: &mut Row<'_>, count: usize) {
    (0..count).for_each(|_| _ = row.null());
}

fn maybe(row: &mut Row<'_>, value: Option<impl std::fmt::Display>) {
    match value {
        Some(value) => row.shown(value),
        None => row.null(),
    };
}

fn put_pool(row: &mut Row<'_>, key: &PoolKey, pool: &PoolSecond) {
    row.text(&key.database).text(&key.user);
    nulls(row, WAIT_LEN - 2);
    row.shown(int4(pool.clients)).shown(int4(pool.waiting));
    row.shown(format_args!("{}.{:03}", pool.oldest_wait_ms / 1000, pool.oldest_wait_ms % 1000));
    row.shown(pool.servers_active).shown(pool.servers_idle).shown(pool.servers_login);
    maybe(row, (pool.auto_size > 0).then_some(pool.auto_size));
    row.shown(pool.transactions).shown(pool.queries).shown(pool.received).shown(pool.sent).shown(pool.wait_us);
    nulls(row, ROW_LEN + WHY_LEN);
}

fn put_why(row: &mut Row<'_>, asked: &Asked<'_>, why: &WhySecond) {
    row.text(&why.pool.database).text(&why.pool.user);
    nulls(row, WAIT_LEN - 2 + 1);
    row.shown(int4(why.waiting));
    nulls(row, POOL_LEN - 2 + ROW_LEN);
    // Both name who was in the way.
    maybe(row, Some(&why.sentence).filter(|_| asked.is_open));
    maybe(row, Some(&why.queue).filter(|word| !word.is_empty()));
    maybe(row, Some(&why.root).filter(|word| asked.is_open && !word.is_empty()));
}

fn put_key(row: &mut Row<'_>, asked: &Asked<'_>, key: &Key, tags: &Tags, count: Option<u32>) {
    let Who { database, user, class, statement, .. } = &key.who;
    row.text(database).text(user).text(class).text(&key.class).text(&key.event);
    maybe(row, count.map(int4));
    maybe(row, Some(tags).filter(|tags| asked.is_open && !tags.is_empty()));
    maybe(row, Some(statement).filter(|statement| asked.is_open && !statement.is_empty()));
    maybe(row, key.blocker.as_ref().filter(|_| asked.is_open));
}

fn put_exact(row: &mut Row<'_>, asked: &Asked<'_>, exact: &Exact) {
    maybe(row, exact.session.map(|(serial, _)| serial.0));
    maybe(row, exact.session.map(|(_, peer)| address(peer, asked.port)));
    row.text(&exact.application_name);
    maybe(row, exact.pid);
    for age in [exact.waiting, Some(exact.queued), exact.transaction, exact.idle, exact.query] {
        maybe(row, seconds(age));
    }
    maybe(row, exact.blocker);
    maybe(row, exact.root);
    row.shown(int4(exact.behind));
}

fn address(peer: Peer, port: u16) -> String {
    let side = match peer {
        Peer::Tcp { from, .. } => Side::tcp(from),
        Peer::Unix { .. } => Side::unix(port),
    };
    side.address.to_string()
}
