//! `SHOW STATE`: active, paused, suspended. There is no SUSPEND yet.
//= pgbouncer usage.md#show-state

use crate::show_input::ShowInput;
use crate::table::{Column, Table, text, words, yes_no};

const COLUMNS: &[Column] = &[text("key"), text("value")];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let is_paused = input.settings.orders.only_of(None).paused;
    let mut table = Table::new(COLUMNS);
    for (key, holds) in [("active", !is_paused), ("paused", is_paused), ("suspended", false)] {
        table.push(vec![words(key), yes_no(holds)]);
    }
    table
}
