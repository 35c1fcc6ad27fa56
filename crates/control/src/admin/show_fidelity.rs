//! `SHOW FIDELITY`: one row for each pool in transaction or statement mode, with counts of pins, replays and checks.
//! PgBouncer has none.
//!
//! `pinned_xact_count` of the `xact_count` transactions ran in sessions that kept a server from an earlier transaction.
//! `missed_count` counts state that only checks without a suspicion (pool_fidelity = strict) can find: elsewhere 0 says
//! little.

use crate::show_input::ShowInput;
use crate::table::{Column, Table, big, count, int, numeric, text, words};

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    text("pool_fidelity"),
    // Sessions pinned now; then those that wait because of max_pinned.
    int("pinned"),
    int("pinned_waiting"),
    numeric("xact_count"),
    numeric("pinned_xact_count"),
    numeric("pin_count"),
    // Pins beyond max_pinned.
    numeric("pin_over_count"),
    numeric("replay_count"),
    numeric("check_count"),
    numeric("missed_count"),
    // Whether the side effects in its database are known: read, reading, unreadable; off in classic.
    text("names"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (key, pool) in input.pools() {
        let Some(fidelity) = pool.fidelity.fidelity else { continue };
        let counts = pool.fidelity.counts;
        table.push(vec![
            words(&*key.database),
            words(&*key.user),
            words(fidelity.as_str()),
            count(pool.fidelity.pinned),
            count(pool.fidelity.waiting),
            big(pool.totals.transactions),
            big(counts.transactions_pinned),
            big(counts.pins),
            big(counts.over),
            big(counts.replays),
            big(counts.checks),
            big(counts.missed),
            words(pool.fidelity.names.as_str()),
        ]);
    }
    table
}
