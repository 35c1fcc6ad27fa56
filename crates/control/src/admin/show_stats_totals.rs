//! `SHOW STATS_TOTALS`: totals since the start, one row for each database.
//= pgbouncer usage.md#show-stats_totals

use super::show_stats::total_values;
use crate::averages::by_database;
use crate::show_input::ShowInput;
use crate::table::{Column, Table, numeric, text, words};

const COLUMNS: &[Column] = &[
    text("database"),
    numeric("server_assignment_count"),
    numeric("xact_count"),
    numeric("query_count"),
    numeric("bytes_received"),
    numeric("bytes_sent"),
    numeric("xact_time"),
    numeric("query_time"),
    numeric("wait_time"),
    numeric("client_parse_count"),
    numeric("server_parse_count"),
    numeric("bind_count"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (database, totals) in by_database(input.snapshots) {
        let mut row = vec![words(&*database)];
        row.extend(total_values(&totals));
        table.push(row);
    }
    table
}
