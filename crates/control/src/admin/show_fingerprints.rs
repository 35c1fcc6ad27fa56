//! `SHOW FINGERPRINTS`: one row for each statement that transactions began with, if statements have limits
//! (fingerprint_max_active). PgBouncer has none.
//!
//! Users in `stats_users` do not see the statements' texts. Only the most recently used statements are kept, some
//! thousand on each worker.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use machine::snapshot::StatementCounts;

use crate::show_input::ShowInput;
use crate::table::{Column, Table, big, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    text("fingerprint"),
    // Transactions that have a server.
    int("active"),
    // Transactions that wait: for a limit, or for a server.
    int("waiting"),
    // Transactions that had a server and are over.
    numeric("count"),
    // Microseconds that these had their servers.
    numeric("total_run_time"),
    numeric("max_run_time"),
    // Microseconds that transactions waited before they had a server, or gave up.
    numeric("total_wait_time"),
    numeric("max_wait_time"),
    numeric("delayed"),
    numeric("rejected"),
    // The beginning of the text that came first.
    text("statement"),
];

/// The statement with the longest total time comes first.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut rows: Vec<StatementCounts> = sums(input).into_values().collect();
    rows.sort_by_key(|row| (Reverse(row.run_us), row.fingerprint));
    let mut table = Table::new(COLUMNS);
    for row in rows {
        table.push(vec![
            words(name(row.fingerprint)),
            count(row.active),
            count(row.waiting),
            big(row.count),
            big(row.run_us),
            big(row.run_max_us),
            big(row.wait_us),
            big(row.wait_max_us),
            big(row.delayed),
            big(row.rejected),
            input.shows_statements.then_some(row.text),
        ]);
    }
    table
}

/// A fingerprint as users write it, for instance in `fingerprint_limits`.
pub(super) fn name(fingerprint: u64) -> String {
    format!("{fingerprint:016x}")
}

/// Each statement once, summed over the workers, by its fingerprint.
pub(super) fn sums(input: &ShowInput<'_>) -> BTreeMap<u64, StatementCounts> {
    let mut sums: BTreeMap<u64, StatementCounts> = BTreeMap::new();
    for part in input.snapshots.iter().flat_map(|snapshot| &snapshot.statements) {
        match sums.get_mut(&part.fingerprint) {
            Some(sum) => add(sum, part),
            None => drop(sums.insert(part.fingerprint, part.clone())),
        }
    }
    sums
}

fn add(sum: &mut StatementCounts, part: &StatementCounts) {
    sum.active = sum.active.saturating_add(part.active);
    sum.permits = sum.permits.saturating_add(part.permits);
    sum.waiting = sum.waiting.saturating_add(part.waiting);
    sum.count = sum.count.saturating_add(part.count);
    sum.run_us = sum.run_us.saturating_add(part.run_us);
    sum.run_max_us = sum.run_max_us.max(part.run_max_us);
    sum.wait_us = sum.wait_us.saturating_add(part.wait_us);
    sum.wait_max_us = sum.wait_max_us.max(part.wait_max_us);
    sum.delayed = sum.delayed.saturating_add(part.delayed);
    sum.rejected = sum.rejected.saturating_add(part.rejected);
}
