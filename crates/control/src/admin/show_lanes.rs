//! `SHOW LANES`: one row for each kind of transactions that is known to run long, in classes with `long=`. PgBouncer has none.
//!
//! Each worker learns by itself, so one statement may have a row for each worker. Users in `stats_users` do not see the
//! statements' texts.

use std::cmp::Reverse;

use crate::show_input::ShowInput;
use crate::table::{Column, Table, big, numeric, text, words};

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    // Transactions since it is known.
    numeric("count"),
    // Microseconds; at most four times what counts as long.
    numeric("avg_time"),
    // Its beginning; NULL: none has come since it is known. For a bare BEGIN the row is for one session.
    text("statement"),
];

/// The one with the longest time comes first.
pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let pools = input.snapshots.iter().flat_map(|snapshot| &snapshot.pools);
    let mut rows: Vec<_> = pools.flat_map(|pool| pool.long.iter().map(move |long| (&pool.key, long))).collect();
    rows.sort_by_key(|(key, long)| (Reverse(long.mean_us), &key.database, &key.user, Reverse(long.count)));
    let mut table = Table::new(COLUMNS);
    for (key, long) in rows {
        let statement = Some(&long.text).filter(|text| input.shows_statements && !text.is_empty());
        table.push(vec![
            words(&*key.database),
            words(&*key.user),
            big(long.count),
            big(long.mean_us),
            statement.and_then(words),
        ]);
    }
    table
}
