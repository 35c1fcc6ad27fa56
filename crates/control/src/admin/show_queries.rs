//! `SHOW QUERIES`: one row for each statement of each pool, with its calls, times and rows (track_statements). PgBouncer has
//! none.
//!
//! Statements that have no row of their own stand together in one row of their pool, without a fingerprint and with the text
//! `others`. Users in `stats_users` do not see the statements' texts.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use machine::snapshot::{CallCounts, QueryCounts};
use units::PoolKey;

use super::show_fingerprints::name;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, big, numeric, text, words};

/// The text of statements that have no row of their own.
const OTHERS: &str = "others";

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    // As fingerprint_limits has it.
    text("fingerprint"),
    // Those that failed included.
    numeric("calls"),
    numeric("errors"),
    // As the command tags say: returned or changed.
    numeric("rows"),
    numeric("bytes_sent"),
    // Microseconds. The wait for a server counts for the first statement on it.
    numeric("total_queue_time"),
    numeric("max_queue_time"),
    numeric("p50_queue_time"),
    numeric("p95_queue_time"),
    numeric("p99_queue_time"),
    numeric("total_run_time"),
    numeric("max_run_time"),
    numeric("p50_run_time"),
    numeric("p95_run_time"),
    numeric("p99_run_time"),
    // The beginning of the text that came first, without its literals.
    text("statement"),
];

/// The statement with the longest total time comes first.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    // One that has only been prepared, or runs for the first time, has no call yet.
    let mut rows: Vec<QueryCounts> = sums(input).into_values().filter(|row| row.counts.calls > 0).collect();
    let order = |row: &QueryCounts| (Reverse(row.counts.run_us), row.key.clone(), row.fingerprint);
    rows.sort_by_cached_key(order);
    let mut table = Table::new(COLUMNS);
    for row in rows {
        let counts = &row.counts;
        let of_run = |per_mille| big(counts.run.quantile(per_mille, 0, counts.run_max_us));
        // Those that did not wait are not in the histogram.
        let at_once = counts.calls.saturating_sub(counts.queue.total());
        let of_queue = |per_mille| big(counts.queue.quantile(per_mille, at_once, counts.queue_max_us));
        let statement = if row.fingerprint.is_some() { row.text.clone() } else { OTHERS.to_owned() };
        table.push(vec![
            words(row.key.database.to_string()),
            words(row.key.user.to_string()),
            row.fingerprint.map(name),
            big(counts.calls),
            big(counts.errors),
            big(counts.rows),
            big(counts.bytes),
            big(counts.queue_us),
            big(counts.queue_max_us),
            of_queue(500),
            of_queue(950),
            of_queue(990),
            big(counts.run_us),
            big(counts.run_max_us),
            of_run(500),
            of_run(950),
            of_run(990),
            input.shows_statements.then_some(statement),
        ]);
    }
    table
}

/// Each statement of each pool once, summed over the workers.
fn sums(input: &ShowInput<'_>) -> BTreeMap<(PoolKey, Option<u64>), QueryCounts> {
    let mut sums: BTreeMap<(PoolKey, Option<u64>), QueryCounts> = BTreeMap::new();
    for part in input.snapshots.iter().flat_map(|snapshot| &snapshot.queries) {
        let sum = sums
            .entry((part.key.clone(), part.fingerprint))
            .or_insert_with(|| QueryCounts { counts: CallCounts::default(), ..part.clone() });
        sum.counts.add(&part.counts);
    }
    sums
}
