//! `SHOW LANES`: one row for each kind of transactions that is known to run long, in classes with `long=`. PgBouncer has none.
//!
//! Each worker learns by itself, so one statement may have a row for each. Whoever may only look at statistics does not see
//! statements.

use std::cmp::Reverse;

use crate::table::{Column, Table, big, numeric, text, words};
use crate::view::View;

const COLUMNS: &[Column] = &[
    text("database"),
    text("user"),
    // Transactions since it is known.
    numeric("count"),
    // Microseconds; no more than four times what counts as long.
    numeric("avg_time"),
    // Its beginning; NULL: none has come since it is known. A bare BEGIN is one session's.
    text("statement"),
];

/// What takes longest comes first.
pub(super) fn table(view: &View<'_>) -> Table {
    let pools = view.snapshots.iter().flat_map(|snapshot| &snapshot.pools);
    let mut rows: Vec<_> = pools.flat_map(|pool| pool.long.iter().map(move |long| (&pool.key, long))).collect();
    rows.sort_by_key(|(key, long)| (Reverse(long.mean_us), &key.database, &key.user, Reverse(long.count)));
    let mut table = Table::new(COLUMNS);
    for (key, long) in rows {
        let statement = Some(&long.text).filter(|text| view.shows_statements && !text.is_empty());
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
