//! `SHOW PGWEIR`, which PgBouncer does not have: its version, and how many lines of the log were lost.

use crate::show_input::ShowInput;
use crate::table::{Column, Table, text, words};
use crate::version;

const COLUMNS: &[Column] = &[text("key"), text("value")];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.push(vec![words("version"), words(version::PGWEIR)]);
    table.push(vec![words("log_lines_lost"), words(input.log_lines_lost.to_string())]);
    table
}
