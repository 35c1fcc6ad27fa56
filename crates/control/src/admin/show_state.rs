//! `SHOW STATE`: active, paused, suspended.
//= pgbouncer usage.md#show-state

use crate::show_input::ShowInput;
use crate::shutdown::Standstill;
use crate::table::{Column, Table, text, words, yes_no};

const COLUMNS: &[Column] = &[text("key"), text("value")];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let standstill = Standstill::of(&input.settings.orders);
    let mut table = Table::new(COLUMNS);
    let rows = [("active", Standstill::None), ("paused", Standstill::Paused), ("suspended", Standstill::Suspended)];
    for (key, which) in rows {
        table.push(vec![words(key), yes_no(standstill == which)]);
    }
    table
}
