//! `SHOW FIDELITY`: one row for each pool in transaction or statement mode: what keeping its clients' sessions came to.
//! PgBouncer has none.
//!
//! `pinned_xact_count` of `xact_count` ran in sessions that kept a server from an earlier transaction. `missed_count` is what
//! only looking without suspicion (pool_fidelity = strict) can find: 0 says little elsewhere.

use crate::table::{Column, Table, big, count, int, numeric, text, words};
use crate::view::View;

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    text("pool_fidelity"),
    // Now; then those that wait because of max_pinned.
    int("pinned"),
    int("pinned_waiting"),
    numeric("xact_count"),
    numeric("pinned_xact_count"),
    numeric("pin_count"),
    // Of the pins, beyond max_pinned.
    numeric("pin_over_count"),
    numeric("replay_count"),
    numeric("check_count"),
    numeric("missed_count"),
    // Whether it is known what its functions, triggers and views do: read, reading, unreadable; off in classic.
    text("names"),
];

pub(super) fn table(view: &View<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (key, pool) in view.pools() {
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
