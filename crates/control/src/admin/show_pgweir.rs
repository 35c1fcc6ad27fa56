//! `SHOW PGWEIR`, which PgBouncer does not have: its version, how many lines of the log were lost, and how many clients have logged in.

use crate::averages::by_database;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, text, words};
use crate::version;

const COLUMNS: &[Column] = &[text("key"), text("value")];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    table.push(vec![words("version"), words(version::PGWEIR)]);
    table.push(vec![words("log_lines_lost"), words(input.log_lines_lost.to_string())]);
    let logins: u64 = by_database(input.snapshots).values().map(|totals| totals.logins).sum();
    table.push(vec![words("logins"), words(logins.to_string())]);
    table
}
