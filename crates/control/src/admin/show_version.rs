//! `SHOW VERSION`: one value.
//= pgbouncer usage.md#show-version

use crate::show_input::ShowInput;
use crate::table::{Column, Table, text, words};
use crate::version;

const COLUMNS: &[Column] = &[text("version")];

pub(super) fn table(_: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.push(vec![words(version::text())]);
    table
}
