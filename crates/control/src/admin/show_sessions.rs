//! `SHOW SESSIONS`, which PgBouncer does not have: the rows of SHOW CLIENTS, and what pgweir has beside.

use std::collections::BTreeMap;

use connections::databases::CONSOLE_DATABASE;

use super::show_clients;
use super::socket;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, text};
use crate::time_of_day::TimesOfDay;

const COLUMNS: &[Column] = &{
    let mut columns = [text("pool_fidelity"); socket::COLUMNS.len() + 3];
    let (first, _) = columns.split_at_mut(socket::COLUMNS.len());
    first.copy_from_slice(socket::COLUMNS);
    // The class of its latest transaction.
    columns[socket::COLUMNS.len() + 1] = text("class");
    // Tags of the statement that it runs or waits with, or was last seen with. Users in stats_users do not see them.
    columns[socket::COLUMNS.len() + 2] = text("tags");
    columns
};

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.reserve(input.connections().0);
    let times = TimesOfDay::seen_from(&input.now);
    let tags = if input.shows_statements { input.history.tags_of_sessions() } else { BTreeMap::new() };
    for snapshot in input.snapshots {
        for client in &snapshot.clients {
            table.write(|row| {
                show_clients::socket(input, &times, snapshot, client).write("", row);
                match client.ties.fidelity {
                    Some(fidelity) => row.text(fidelity.as_str()),
                    None => row.null(),
                };
                match *client.key.database == *CONSOLE_DATABASE {
                    false => row.text(&input.settings.classes.class(client.class).name),
                    true => row.null(),
                };
                match tags.get(&client.serial) {
                    Some(tags) => row.shown(tags),
                    None => row.null(),
                };
            });
        }
    }
    table
}
