//! Large tables that are read from end to end again and again.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::TableFigures;
use crate::words::{number, qualified};

/// Smaller ones are best read from end to end.
const ROWS: u64 = 10_000;
/// Fewer scans a day may be reports and dumps.
const SCANS: u64 = 100;
const SCANS_MANY: u64 = 10_000;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let days = postgres.days_counted();
    let a_day = |table: &TableFigures| (table.sequential_scans as f64 / days.unwrap_or(1.0)) as u64;
    let is_found = |table: &&TableFigures| is_scanned(table) && a_day(table) >= SCANS;
    let mut scanned: Vec<&TableFigures> = postgres.tables.iter().filter(is_found).collect();
    scanned.sort_by_key(|table| std::cmp::Reverse(table.sequential_rows));
    let most = scanned.first()?;
    let line = |table: &&TableFigures| {
        format!(
            "{}.{}: {} rows, read from end to end {} times ({} a day), {} rows each; by an index {} times",
            table.schema,
            table.name,
            number(table.live),
            number(table.sequential_scans),
            number(a_day(table)),
            number(table.sequential_rows / table.sequential_scans.max(1)),
            number(table.index_scans),
        )
    };
    let since = super::unused_indexes::counted(postgres);
    let mut mend = vec![format!(
        "EXPLAIN (ANALYZE, BUFFERS) …; -- of statements on {}: a filter that removes most rows wants an index",
        qualified(&most.schema, &most.name)
    )];
    mend.push(format!("CREATE INDEX CONCURRENTLY ON {} (…);", qualified(&most.schema, &most.name)));
    Some(Finding {
        rule: "missing-indexes",
        // Without a time nobody knows whether they are many.
        weight: if days.is_some() && scanned.iter().any(|table| a_day(table) >= SCANS_MANY) {
            Weight::Warning
        } else {
            Weight::Notice
        },
        title: format!("{} read from end to end again and again", many(scanned.len())),
        evidence: super::first(scanned.iter().map(line)),
        reason: format!(
            "Each scan keeps a server busy with rows that it throws away, and takes the place of others' pages in memory. Counted {since}."
        ),
        source: "PostgreSQL manual, Examining Index Usage",
        mend,
    })
}

fn is_scanned(table: &TableFigures) -> bool {
    let each = table.sequential_rows / table.sequential_scans.max(1);
    table.live >= ROWS && each >= ROWS && table.sequential_scans > table.index_scans
}

fn many(count: usize) -> String {
    if count == 1 { "1 large table is".to_owned() } else { format!("{count} large tables are") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn large_tables_that_are_mostly_scanned() {
        let table = |live: u64, sequential_scans: u64, each: u64, index_scans: u64| {
            move |facts: &mut Facts| {
                let sequential_rows = each * sequential_scans;
                postgres(facts).databases[0].counted_at_most.get_or_insert_default();
                postgres(facts).tables = vec![TableFigures {
                    live,
                    sequential_scans,
                    sequential_rows,
                    index_scans,
                    ..TableFigures::default()
                }];
            }
        };
        let for_days = |days: u64, scans: u64| {
            move |facts: &mut Facts| {
                postgres(facts).databases[0].counted_for = Some(Duration::from_secs(days * 86_400));
                table(10_000, scans, 10_000, 0)(facts);
            }
        };
        let for_long = |facts: &mut Facts| {
            table(10_000, 10_000, 10_000, 0)(facts);
            postgres(facts).databases[0].counted_at_most = None;
        };
        check(
            find,
            &[
                ("many in all, few a day", &for_days(101, 10_000), None),
                ("a hundred a day", &for_days(100, 10_000), Some(Weight::Notice)),
                ("many a day", &for_days(100, 1_000_000), Some(Weight::Warning)),
                ("nobody knows for how long", &for_long, Some(Weight::Notice)),
                ("found", &table(10_000, 100, 10_000, 0), Some(Weight::Notice)),
                ("small", &table(9_999, 100, 10_000, 0), None),
                ("a few reports", &table(10_000, 99, 10_000, 0), None),
                ("scans that stop early", &table(10_000, 100, 9_999, 0), None),
                ("mostly by index", &table(10_000, 100, 10_000, 100), None),
                ("all the time", &table(10_000, 10_000, 10_000, 0), Some(Weight::Warning)),
            ],
        );
    }
}
