//! Sorts and hashes that did not fit into work_mem.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::Statement;
use crate::words::{bytes, number, shortened, span};

/// Less does not matter.
const WRITTEN: u64 = 1 << 20;
const WRITTEN_MUCH: u64 = 1 << 30;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let own = postgres.own_database().filter(|database| database.temp_bytes >= WRITTEN)?;
    let since = super::unused_indexes::counted(postgres);
    let rate = own
        .counted_for
        .filter(|time| time.as_secs() > 3600)
        .map(|time| own.temp_bytes as f64 / time.as_secs_f64() * 3600.0);
    let rate = rate.map(|rate| format!(", {} an hour", bytes(rate as u64))).unwrap_or_default();
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
    let wanted = (each * 2).max(work_mem * 2).div_ceil(1 << 20).next_power_of_two().min(256);
    Some(Finding {
        rule: "temp-files",
        weight: if own.temp_bytes >= WRITTEN_MUCH { Weight::Warning } else { Weight::Notice },
        title: format!("sorts and hashes wrote {} to temporary files", bytes(own.temp_bytes)),
        evidence,
        reason: "What does not fit into work_mem goes to the disk and back. With few servers behind a pooler each can have more: work_mem × servers is \
                 what PostgreSQL may need."
            .to_owned(),
        source: "PostgreSQL manual, Memory: work_mem",
        mend: vec![
            format!("ALTER ROLE … SET work_mem = '{wanted}MB'; -- for whoever needs it, rather than for all"),
            "ALTER SYSTEM SET log_temp_files = '10MB'; SELECT pg_reload_conf(); -- names the statements".to_owned(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn a_megabyte_and_a_gigabyte() {
        let written = |bytes: u64| {
            move |facts: &mut Facts| {
                let own = &mut postgres(facts).databases[0];
                (own.temp_files, own.temp_bytes) = (3, bytes);
            }
        };
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
            ],
        );
    }
}
