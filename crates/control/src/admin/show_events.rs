//! `SHOW EVENTS`: how often requests were refused, sizes were changed by `auto`, and clients found no file descriptor, since the
//! start. PgBouncer has none.

use crate::events;
use crate::table::{Column, Table, big, numeric, text, words};
use crate::view::View;

const COLUMNS: &[Column] = &[
    // NULL: not of one pool.
    text("database"),
    text("user"),
    // NULL: not of one class.
    text("class"),
    // The setting or limit.
    text("event"),
    // What clients are told; NULL: nothing.
    text("sqlstate"),
    numeric("count"),
];

pub(super) fn table(view: &View<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (event, count) in events::counts(view.snapshots, view.turned_away) {
        let (database, user) = event.pool.map(|key| (key.database, key.user)).unzip();
        table.push(vec![
            database.map(|name| name.to_string()),
            user.map(|name| name.to_string()),
            event.class.map(|class| class.to_string()),
            words(event.name),
            event.sqlstate.map(str::to_owned),
            big(count.count),
        ]);
    }
    table
}
