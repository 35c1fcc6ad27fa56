//! `SHOW HOLDERS`: who has the servers of a pool, for how long and for what, and `SHOW STATES`: how many backends are in which state. PgBouncer has
//! none.
//!
//! Users in `stats_users` do not see statements and tags.

use std::collections::BTreeMap;
use std::time::Duration;

use activity::{Holder, Reason, Tags, holders};

use super::show_activity::{address, application_name, names, seconds, statement, tags};
use crate::show_input::ShowInput;
use crate::table::{Column, Table, Value, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    // Clients of the pool that wait for a server.
    int("waiting"),
    // Seconds that it has had the server.
    numeric("held"),
    text("reason"),
    // Seconds that it has said nothing in its transaction.
    numeric("idle"),
    // Why it keeps its server between transactions.
    text("keeps"),
    text("wait_event_type"),
    text("wait_event"),
    // How many wait for a lock behind it.
    int("blocking"),
    text("server"),
    int("pid"),
    int("client_id"),
    text("client_addr"),
    text("application_name"),
    text("class"),
    text("tags"),
    text("query"),
];

/// Pools in which others wait first, and there who has held longest.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    let Some(moment) = input.history.latest() else { return table };
    for holder in holders(moment) {
        let row = holder.row;
        let session = row.session.as_ref();
        let idle = row.backend.as_ref().filter(|_| row.is_idle_in_transaction()).and_then(|backend| backend.ages.state);
        let wait = row.wait();
        let kept = kept_for(&holder).filter(|_| input.shows_statements);
        table.push(vec![
            words(&*holder.pool.database),
            words(&*holder.pool.user),
            count(holder.waiting),
            seconds(Some(holder.held)),
            words(holder.reason.words()),
            seconds(idle.or_else(|| session?.times.idle)),
            session.and_then(|session| session.keeps.clone()),
            wait.and_then(|(class, _)| words(class)),
            wait.and_then(|(_, event)| words(event)),
            count(row.behind),
            moment.host(row).and_then(|host| words(&*host.address)),
            row.pid_shown().and_then(count),
            session.and_then(|session| count(session.id.serial.0)),
            address(input, row),
            application_name(row),
            session.and_then(|session| words(&*session.class)),
            kept.map_or_else(|| tags(input, row), tags_of),
            kept.map_or_else(|| statement(input, row), words),
        ]);
    }
    table
}

/// Of one that keeps its server between transactions, the statement for which it does. What its server has run last may have been a question of the
/// pooler's own.
fn kept_for<'m>(holder: &Holder<'m>) -> Option<&'m str> {
    holder.row.session.as_ref()?.kept_for.as_deref().filter(|_| holder.reason == Reason::Kept)
}

fn tags_of(statement: &str) -> Value {
    let tags = Tags::of(statement.as_bytes());
    (!tags.is_empty()).then(|| tags.to_string())
}

const STATES: &[Column] = &[
    text("server"),
    text("database"),
    text("user"),
    // Of clients of the pooler, of its idle servers, of strangers.
    text("origin"),
    text("state"),
    int("count"),
    // Seconds: the longest in this state, and in its transaction.
    numeric("max_state_age"),
    numeric("max_transaction_age"),
];

/// Of those that are in one state.
#[derive(Default)]
struct InState {
    count: u32,
    state_age: Option<Duration>,
    transaction_age: Option<Duration>,
}

pub(super) fn states(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(STATES);
    let Some(moment) = input.history.latest() else { return table };
    let mut sums: BTreeMap<_, InState> = BTreeMap::new();
    for row in &moment.rows {
        let Some(state) = row.state() else { continue };
        let server = moment.host(row).map(|host| host.address.clone());
        let (database, user) = names(row);
        let sum = sums.entry((server, database, user, row.origin.word(), state)).or_default();
        let ages = row.backend.as_ref().map(|backend| backend.ages).unwrap_or_default();
        let waiting = row.session.as_ref().and_then(|session| session.times.waiting);
        sum.count += 1;
        sum.state_age = sum.state_age.max(ages.state.or(waiting));
        sum.transaction_age = sum.transaction_age.max(ages.transaction);
    }
    for ((server, database, user, origin, state), sum) in sums {
        table.push(vec![
            server.and_then(|server| words(&*server)),
            database,
            user,
            words(origin),
            words(state),
            count(sum.count),
            seconds(sum.state_age),
            seconds(sum.transaction_age),
        ]);
    }
    table
}
