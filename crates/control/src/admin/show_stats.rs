//! `SHOW STATS`: totals since the start and averages over the last period, one row for each database.
//= pgbouncer usage.md#show-stats

use machine::snapshot::Totals;

use crate::averages::{Rates, by_database};
use crate::show_input::ShowInput;
use crate::table::{Column, Table, Value, big, numeric, text, words};

const COLUMNS: &[Column] = &[
    text("database"),
    numeric("total_server_assignment_count"),
    numeric("total_xact_count"),
    numeric("total_query_count"),
    numeric("total_received"),
    numeric("total_sent"),
    numeric("total_xact_time"),
    numeric("total_query_time"),
    numeric("total_wait_time"),
    numeric("total_client_parse_count"),
    numeric("total_server_parse_count"),
    numeric("total_bind_count"),
    numeric("avg_server_assignment_count"),
    numeric("avg_xact_count"),
    numeric("avg_query_count"),
    numeric("avg_recv"),
    numeric("avg_sent"),
    numeric("avg_xact_time"),
    numeric("avg_query_time"),
    numeric("avg_wait_time"),
    numeric("avg_client_parse_count"),
    numeric("avg_server_parse_count"),
    numeric("avg_bind_count"),
];

pub(super) fn table(input: &ShowInput<'_>) -> Table {
    let mut table = Table::new(COLUMNS);
    for (database, totals) in by_database(input.snapshots) {
        let mut row = vec![words(&*database)];
        row.extend(total_values(&totals));
        row.extend(average_values(&input.averages.of(&database)));
        table.push(row);
    }
    table
}

/// In the order in which all four statistics have them.
pub(super) fn total_values(totals: &Totals) -> [Value; 11] {
    [
        totals.server_assignments,
        totals.transactions,
        totals.queries,
        totals.received,
        totals.sent,
        totals.transaction_us,
        totals.query_us,
        totals.wait_us,
        totals.client_parses,
        totals.server_parses,
        totals.binds,
    ]
    .map(big)
}

/// In the same order.
pub(super) fn average_values(rates: &Rates) -> [Value; 11] {
    [
        rates.server_assignments,
        rates.transactions,
        rates.queries,
        rates.received,
        rates.sent,
        rates.transaction_us,
        rates.query_us,
        rates.wait_us,
        rates.client_parses,
        rates.server_parses,
        rates.binds,
    ]
    .map(big)
}
