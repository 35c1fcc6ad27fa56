//! Sorts and hashes that did not fit into work_mem.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::Statement;
use crate::words::{bytes, number, shortened, span};

/// Bytes a day: a disk writes that in some seconds, so less does not matter.
const WRITTEN: u64 = 1 << 30;
const WRITTEN_MUCH: u64 = 20 << 30;
/// More is not for a session by itself.
const WORK_MEM_MB_MAX: u64 = 256;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let days = postgres.days_counted();
    let a_day = |bytes: u64| (bytes as f64 / days.unwrap_or(1.0)) as u64;
    let own = postgres.own_database().filter(|database| a_day(database.temp_bytes) >= WRITTEN)?;
    let since = super::unused_indexes::counted(postgres);
    let rate = days.filter(|days| *days > 1.0).map(|_| format!(", {} a day", bytes(a_day(own.temp_bytes))));
    let rate = rate.unwrap_or_default();
    let work_mem = u64::try_from(postgres.number("work_mem").unwrap_or(0)).unwrap_or(0) << 10;
    let mut evidence = vec![format!(
        "{} files, {} {since}{rate}; work_mem = {}",
        number(own.temp_files),
        bytes(own.temp_bytes),
        bytes(work_mem)
    )];
    let mut writers: Vec<&Statement> = postgres
        .statements
        .iter()
        .flat_map(|statements| &statements.top)
        .filter(|statement| statement.temp_bytes > 0)
        .collect();
    writers.sort_by_key(|statement| std::cmp::Reverse(statement.temp_bytes));
    evidence.extend(super::first(writers.iter().map(|statement| {
        let each = bytes(statement.temp_bytes / statement.calls.max(1));
        format!("{each} a call, {} in all: {}", span(statement.time), shortened(&statement.text))
    })));
    let each = own.temp_bytes / own.temp_files.max(1);
    let builds_index = writers.first().is_some_and(|statement| is_maintenance(&statement.text));
    let more = if builds_index { more_for_maintenance(each) } else { more_memory(each, work_mem) };
    Some(Finding {
        rule: "temp-files",
        // Without a time nobody knows whether it is much.
        weight: if days.is_some() && a_day(own.temp_bytes) >= WRITTEN_MUCH { Weight::Warning } else { Weight::Notice },
        title: format!("sorts and hashes wrote {} to temporary files", bytes(own.temp_bytes)),
        evidence,
        reason: "What does not fit into work_mem goes to the disk and back. With few servers behind a pooler each can have more: work_mem × servers is \
                 what PostgreSQL may need."
            .to_owned(),
        source: "PostgreSQL manual, Memory: work_mem",
        mend: vec![
            more,
            "ALTER SYSTEM SET log_temp_files = '10MB'; SELECT pg_reload_conf(); -- names the statements".to_owned(),
        ],
    })
}

/// Whether its sorts have `maintenance_work_mem`, and not `work_mem`.
//= pg18 runtime-config-resource#GUC-MAINTENANCE-WORK-MEM
fn is_maintenance(statement: &str) -> bool {
    let mut words = statement.split_whitespace().map(str::to_ascii_lowercase);
    let first = words.next().unwrap_or_default();
    let second = words.next().unwrap_or_default();
    match first.as_str() {
        "create" => matches!(second.as_str(), "index" | "unique"),
        "alter" => second == "table",
        "reindex" | "cluster" | "vacuum" => true,
        _ => false,
    }
}

/// In bytes: what each file has.
fn more_for_maintenance(each: u64) -> String {
    let wanted = (each * 2).div_ceil(1 << 20).next_power_of_two().clamp(128, 8 * WORK_MEM_MB_MAX);
    format!(
        "SET maintenance_work_mem = '{wanted}MB'; -- in the session that builds indexes: work_mem does not count there"
    )
}

/// In bytes: what each file has, and what a sort may have now.
fn more_memory(each: u64, work_mem: u64) -> String {
    let wanted = (each * 2).max(work_mem * 2).div_ceil(1 << 20).next_power_of_two().min(WORK_MEM_MB_MAX);
    if wanted << 20 > work_mem {
        format!(
            "ALTER ROLE … SET work_mem = '{wanted}MB'; -- for the role of these statements; servers that are open keep theirs until RECONNECT"
        )
    } else {
        "-- work_mem is large already: an index in the order that is asked for, or fewer rows to sort, helps more"
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn what_is_suggested_is_more_than_there_is() {
        let mb = |count: u64| count << 20;
        for (each, work_mem, expected) in [
            (mb(1), mb(4), "'8MB'"),
            (mb(40), mb(4), "'128MB'"),
            (mb(4000), mb(200), "'256MB'"),
            (mb(4000), mb(256), "large already"),
            (mb(4000), mb(512), "large already"),
        ] {
            let found = more_memory(each, work_mem);
            assert!(found.contains(expected), "{each} {work_mem}: {found}");
        }
    }

    #[test]
    fn an_index_is_built_with_other_memory() {
        for (text, expected) in [
            ("CREATE INDEX ON orders (id)", true),
            ("create unique index concurrently i on t (a)", true),
            ("ALTER TABLE orders ADD PRIMARY KEY (id)", true),
            ("reindex table orders", true),
            ("CREATE TABLE sums AS SELECT $1", false),
            ("SELECT * FROM orders ORDER BY id", false),
        ] {
            assert_eq!(is_maintenance(text), expected, "{text}");
        }
        assert!(more_for_maintenance(40 << 20).contains("'128MB'"));
        assert!(more_for_maintenance(4 << 30).contains("'2048MB'"));
    }

    #[test]
    fn a_gigabyte_a_day_and_twenty() {
        let days = |days: u64| Some(Duration::from_secs(days * 86_400));
        let counted = |bytes: u64, counted_for: Option<Duration>, counted_at_most: Option<Duration>| {
            move |facts: &mut Facts| {
                let own = &mut postgres(facts).databases[0];
                (own.temp_files, own.temp_bytes) = (3, bytes);
                (own.counted_for, own.counted_at_most) = (counted_for, counted_at_most);
            }
        };
        let written = |bytes: u64| counted(bytes, days(0), None);
        let elsewhere = |facts: &mut Facts| {
            written(WRITTEN_MUCH)(facts);
            postgres(facts).identity.database = "other".to_owned();
        };
        check(
            find,
            &[
                ("little", &written(WRITTEN - 1), None),
                ("some", &written(WRITTEN), Some(Weight::Notice)),
                ("much", &written(WRITTEN_MUCH), Some(Weight::Warning)),
                ("of another database", &elsewhere, None),
                ("little a day, for long", &counted(1000 * WRITTEN - 1, days(1000), None), None),
                ("much in all, some a day", &counted(300 * WRITTEN, days(300), None), Some(Weight::Notice)),
                ("much a day", &counted(300 * WRITTEN_MUCH, days(300), None), Some(Weight::Warning)),
                ("the server's time counts", &counted(300 * WRITTEN_MUCH - 1, None, days(300)), Some(Weight::Notice)),
                ("nobody knows for how long", &counted(WRITTEN_MUCH, None, None), Some(Weight::Notice)),
            ],
        );
    }
}
