//! `SHOW EVENTS`: how often since the start requests were refused, clients disconnected by a deadline, statements ended by a deadlock, `auto` has
//! changed a pool's size, and clients were refused because there was no file descriptor. PgBouncer has none.

use crate::events;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, big, numeric, text, words};

const COLUMNS: &[Column] = &[
    // NULL: not for one pool.
    text("database"),
    text("user"),
    // NULL: not for one class.
    text("class"),
    // The setting or limit.
    text("event"),
    // The error for clients; NULL: none.
    text("sqlstate"),
    numeric("count"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (event, count) in events::counts(input.snapshots, input.door.turned_away) {
        let (database, user) = event.pool.map(|key| (key.database, key.user)).unzip();
        table.push(vec![
            database.map(|name| name.to_string()),
            user.map(|name| name.to_string()),
            event.class.map(|class| class.to_string()),
            words(event.name),
            event.sqlstate.map(|code| code.to_string()),
            big(count.count),
        ]);
    }
    table
}
