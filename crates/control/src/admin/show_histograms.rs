//! `SHOW HISTOGRAMS`: how long sessions of each pool waited, and how long their queries and transactions took, one row
//! for each bucket that is not empty. PgBouncer has none.

use machine::histogram::{Histogram, Spans};

use crate::show_input::ShowInput;
use crate::table::{Column, Table, big, numeric, text, words};

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    // wait, query or transaction.
    text("what"),
    // In seconds: the bucket has times up to it, and above the bound of the bucket before. NULL: times above all bounds.
    numeric("up_to"),
    // Of this bucket alone, since the start.
    numeric("count"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (key, pool) in input.pools() {
        for (what, histogram) in named(&pool.spans) {
            for (bound, count) in histogram.buckets().filter(|(_, count)| *count > 0) {
                table.push(vec![words(&*key.database), words(&*key.user), words(what), bound.map(seconds), big(count)]);
            }
        }
    }
    table
}

/// The histograms of a pool, and what each of them is of.
pub(crate) fn named(spans: &Spans) -> [(&'static str, &Histogram); 3] {
    [("wait", &spans.wait), ("query", &spans.query), ("transaction", &spans.transaction)]
}

/// With as many decimals as it needs, and one at least.
pub(crate) fn seconds(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') { format!("{short}0") } else { short.to_owned() }
}
