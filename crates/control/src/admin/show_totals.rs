//! `SHOW TOTALS`: the statistics of all databases together, one row for each number.
//= pgbouncer usage.md#show-totals

use machine::snapshot::Totals;

use super::show_stats::{average_values, total_values};
use crate::averages::by_database;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, numeric, text, words};

const COLUMNS: &[Column] = &[text("name"), numeric("value")];

const NAMES: [&str; 11] = [
    "server_assignment_count",
    "xact_count",
    "query_count",
    "client_bytes",
    "server_bytes",
    "xact_time",
    "query_time",
    "wait_time",
    "ps_client_parse_count",
    "ps_server_parse_count",
    "ps_bind_count",
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut sum = Totals::default();
    by_database(input.snapshots).values().for_each(|totals| sum.add(totals));
    let mut table = Table::new(COLUMNS);
    for (name, value) in NAMES.iter().zip(total_values(&sum)) {
        table.push(vec![words(format!("total_{name}")), value]);
    }
    for (name, value) in NAMES.iter().zip(average_values(&input.averages.overall())) {
        table.push(vec![words(format!("avg_{name}")), value]);
    }
    table
}
