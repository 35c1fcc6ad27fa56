//! `SHOW CONFIG`: every setting with its value and its default.
//= pgbouncer usage.md#show-config

use crate::show_input::ShowInput;
use crate::table::{Column, Table, text, words, yes_no};

const COLUMNS: &[Column] = &[text("key"), text("value"), text("default"), text("changeable")];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for row in input.rows {
        table.push(vec![words(row.key), row.value.clone(), row.default.clone(), yes_no(row.changeable)]);
    }
    table
}
