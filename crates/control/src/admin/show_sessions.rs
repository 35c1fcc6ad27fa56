//! `SHOW SESSIONS`, which PgBouncer does not have: the rows of SHOW CLIENTS, and what pgweir has beside.

use connections::databases::CONSOLE_DATABASE;

use super::show_clients;
use super::socket;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, text};
use crate::time_of_day::TimesOfDay;

const COLUMNS: &[Column] = &{
    let mut columns = [text("pool_fidelity"); socket::COLUMNS.len() + 2];
    let (first, _) = columns.split_at_mut(socket::COLUMNS.len());
    first.copy_from_slice(socket::COLUMNS);
    // The class of its latest transaction.
    columns[socket::COLUMNS.len() + 1] = text("class");
    columns
};

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.reserve(input.connections().0);
    let times = TimesOfDay::seen_from(&input.now);
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
            });
        }
    }
    table
}
