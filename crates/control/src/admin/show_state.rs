//! `SHOW STATE`: active, paused, suspended. There is no PAUSE and no SUSPEND yet, so that it is always active.
//= pgbouncer usage.md#show-state

use crate::show_input::ShowInput;
use crate::table::{Column, Table, text, words, yes_no};

const COLUMNS: &[Column] = &[text("key"), text("value")];

pub(super) fn table(_: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (key, holds) in [("active", true), ("paused", false), ("suspended", false)] {
        table.push(vec![words(key), yes_no(holds)]);
    }
    table
}
