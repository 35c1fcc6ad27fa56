//! `SHOW STATS_AVERAGES`: averages over the last period, one row for each database. PgBouncer prefixes the last four
//! names and not the others.
//= pgbouncer usage.md#show-stats_averages

use super::show_stats::average_values;
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
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for database in by_database(input.snapshots).into_keys() {
        let mut row = vec![words(&*database)];
        row.extend(average_values(&input.averages.of(&database)));
        table.push(row);
    }
    table
}
