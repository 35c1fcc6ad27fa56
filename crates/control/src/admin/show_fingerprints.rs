//! `SHOW FINGERPRINTS`: one row for each statement that transactions began with, where limits of statements tell them apart
//! (fingerprint_max_active). PgBouncer has none.
//!
//! Whoever may only look at statistics does not see statements. Only those used last are kept: some thousand a worker.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use pooling::snapshot::StatementCounts;

use crate::table::{Column, Table, big, count, int, numeric, text, words};
use crate::view::View;

const COLUMNS: &[Column] = &[
    text("fingerprint"),
    // Transactions that run, or wait for a server.
    int("active"),
    int("waiting"),
    // Those that are over.
    numeric("count"),
    // Microseconds.
    numeric("total_time"),
    numeric("max_time"),
    numeric("delayed"),
    numeric("rejected"),
    // Its beginning, as it came first.
    text("statement"),
];

/// What took longest in all comes first.
pub(super) fn table(view: &View<'_>) -> Table {
    let mut sums: BTreeMap<u64, StatementCounts> = BTreeMap::new();
    for part in view.snapshots.iter().flat_map(|snapshot| &snapshot.statements) {
        match sums.get_mut(&part.fingerprint) {
            Some(sum) => add(sum, part),
            None => drop(sums.insert(part.fingerprint, part.clone())),
        }
    }
    let mut rows: Vec<StatementCounts> = sums.into_values().collect();
    rows.sort_by_key(|row| (Reverse(row.total_us), row.fingerprint));
    let mut table = Table::new(COLUMNS);
    for row in rows {
        table.push(vec![
            words(format!("{:016x}", row.fingerprint)),
            count(row.active),
            count(row.waiting),
            big(row.count),
            big(row.total_us),
            big(row.max_us),
            big(row.delayed),
            big(row.rejected),
            view.shows_statements.then_some(row.text),
        ]);
    }
    table
}

fn add(sum: &mut StatementCounts, part: &StatementCounts) {
    sum.active = sum.active.saturating_add(part.active);
    sum.waiting = sum.waiting.saturating_add(part.waiting);
    sum.count = sum.count.saturating_add(part.count);
    sum.total_us = sum.total_us.saturating_add(part.total_us);
    sum.max_us = sum.max_us.max(part.max_us);
    sum.delayed = sum.delayed.saturating_add(part.delayed);
    sum.rejected = sum.rejected.saturating_add(part.rejected);
}
