//! `SHOW LOCKS`: who waits for a lock behind whom, as a tree, and `SHOW LOCK_COUNTS`. PgBouncer has none.
//!
//! Each row stands below the one in its way, with one depth more. Users in `stats_users` do not see statements and tags.
//= pg18 view-pg-locks

use std::sync::Arc;

use activity::{Branch, Moment, is_prepared, pid_shown, tree};

use super::show_activity::{address, application_name, names, seconds, statement, tags};
use crate::show_input::ShowInput;
use crate::table::{Column, Table, Value, big, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    // 0: it waits for no lock itself.
    int("depth"),
    text("server"),
    int("pid"),
    // The tree's lines, and the pid.
    text("tree"),
    // How many wait behind it, directly or through others.
    int("blocking"),
    int("blocked_by"),
    text("waits_for"),
    // A table's name, or what kind of thing it is.
    text("object"),
    // Seconds.
    numeric("waiting"),
    // The mode with which it is in the way of those directly behind it, and of what.
    text("blocks_with"),
    text("blocks_on"),
    text("state"),
    numeric("transaction_age"),
    text("database"),
    text("user"),
    text("application_name"),
    // The id of SHOW CLIENTS; NULL: not the pooler's.
    int("client_id"),
    text("class"),
    text("tags"),
    text("query"),
    // DDL has the way that locks less here, a prepared transaction the statement that ends it.
    text("note"),
    // The gid of a prepared transaction, which has no process.
    text("gid"),
    // The client's address, at the pooler or else at PostgreSQL.
    text("client_addr"),
    // The locks that it has and that others wait for; NULL with others behind it: it is in their way by its place in the queue.
    text("holds"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    let Some(moment) = input.history.latest() else { return table };
    for branch in tree(moment) {
        table.push(values(input, moment, &branch));
    }
    table
}

fn values(input: &ShowInput<'_>, moment: &Moment, branch: &Branch<'_>) -> Vec<Value> {
    let row = branch.row;
    let session = row.and_then(|row| row.session.as_ref());
    let (database, user) = row.map(names).unwrap_or_default();
    let ages = row.and_then(|row| row.backend.as_ref()).map(|backend| backend.ages).unwrap_or_default();
    let waits = branch.waits;
    let prepared = moment.hosts[usize::from(branch.host)].prepared.get(&branch.pid);
    let object = waits.map(|waiter| waiter.object.name.as_ref().unwrap_or(&waiter.object.kind));
    vec![
        count(branch.depth),
        words(&*moment.hosts[usize::from(branch.host)].address),
        count(pid_shown(branch.pid)),
        words(drawn(branch)),
        count(branch.count),
        branch.behind.map(pid_shown).and_then(count),
        waits.and_then(|waiter| words(waiter.mode.name())),
        object.and_then(|object| words(&**object)),
        seconds(waits.map(|waiter| waiter.waiting)),
        branch.blocks_with.and_then(|mode| words(mode.name())),
        branch.on.and_then(words),
        row.and_then(|row| row.state()).and_then(words),
        seconds(ages.transaction),
        database,
        user,
        row.and_then(application_name),
        session.and_then(|session| count(session.id.serial.0)),
        session.and_then(|session| words(&*session.class)),
        row.and_then(|row| tags(input, row)),
        row.and_then(|row| statement(input, row)),
        branch.note(moment),
        prepared.map(|prepared| prepared.gid.clone()),
        row.and_then(|row| address(input, row)),
        holds(branch),
    ]
}

/// `AccessExclusiveLock on items, ShareLock on orders`.
fn holds(branch: &Branch<'_>) -> Value {
    let held: Vec<String> = branch.holds.iter().map(|(mode, on)| format!("{} on {on}", mode.name())).collect();
    (!held.is_empty()).then(|| held.join(", "))
}

/// The deepest that is drawn: beyond it the depth is a number only.
const DRAWN_MAX: usize = 20;

fn drawn(branch: &Branch<'_>) -> String {
    match branch.depth {
        0 if is_prepared(branch.pid) => "prepared".to_owned(),
        0 => branch.pid.to_string(),
        depth => format!("{}└─ {}", "   ".repeat(depth.min(DRAWN_MAX) - 1), branch.pid),
    }
}

const COUNTS: &[Column] = &[
    text("server"),
    text("mode"),
    numeric("held"),
    // Of all modes.
    numeric("waiting"),
    // Of those held, in all modes, so many take no room in the shared table.
    numeric("fast_path"),
    // Seconds since they were counted.
    numeric("age"),
];

pub(super) fn counts(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COUNTS);
    let Some(moment) = input.history.latest() else { return table };
    for host in &moment.hosts {
        let Some(locks) = &host.locks else { continue };
        let age = std::time::Duration::from_millis(moment.at.0.saturating_sub(locks.at.0));
        let mut push = |mode: Option<&Arc<str>>, held| {
            table.push(vec![
                words(&*host.address),
                mode.and_then(|mode| words(&**mode)),
                big(held),
                big(locks.counts.waiting),
                big(locks.counts.fast_path),
                seconds(Some(age)),
            ]);
        };
        locks.counts.held.iter().for_each(|(mode, held)| push(Some(mode), *held));
        if locks.counts.held.is_empty() {
            push(None, 0);
        }
    }
    table
}
