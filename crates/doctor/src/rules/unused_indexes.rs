//! Indexes that no query has used since statistics are counted.

use std::time::Duration;

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::{Postgres, UnusedIndex};
use crate::words::{bytes, number, qualified, span};

/// Smaller ones cost little.
const SIZE: u64 = 1 << 20;
/// As large together: a cost worth a warning.
const SIZE_LARGE: u64 = 1 << 30;
/// Shorter, and what is used once a week may not have been used yet.
const COUNTED: Duration = Duration::from_secs(7 * 86_400);

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let mut unused: Vec<&UnusedIndex> = postgres.indexes.unused.iter().filter(|index| index.size >= SIZE).collect();
    unused.sort_by_key(|index| std::cmp::Reverse(index.size));
    if unused.is_empty() {
        return None;
    }
    let size: u64 = unused.iter().map(|index| index.size).sum();
    let counted_for = postgres.own_database().and_then(|database| database.counted_for);
    let is_known = counted_for.is_some_and(|time| time >= COUNTED);
    let line = |index: &&UnusedIndex| {
        format!(
            "{}.{} on {}: {}, kept up for {} written rows",
            index.schema,
            index.name,
            index.table,
            bytes(index.size),
            number(index.writes)
        )
    };
    let drop = |index: &&UnusedIndex| format!("DROP INDEX CONCURRENTLY {};", qualified(&index.schema, &index.name));
    let mut evidence = super::first(unused.iter().map(line));
    evidence.push(format!(
        "counted {}{}",
        counted(postgres),
        if is_known { "" } else { ": wait until it covers what runs weekly and monthly" }
    ));
    let mut mend = vec!["-- first look at the standbys: what they use is counted there".to_owned()];
    mend.extend(unused.iter().take(super::NAMED_MAX).map(drop));
    Some(Finding {
        rule: "unused-indexes",
        weight: if is_known && size >= SIZE_LARGE { Weight::Warning } else { Weight::Notice },
        title: format!("{} not been used, {} together", many(unused.len()), bytes(size)),
        evidence,
        reason:
            "Every write keeps them up to date, they take memory and disk, and they rule out updates in place (HOT)."
                .to_owned(),
        source: "PostgreSQL manual, Examining Index Usage; pg_stat_all_indexes",
        mend,
    })
}

fn many(count: usize) -> String {
    if count == 1 { "1 index has".to_owned() } else { format!("{count} indexes have") }
}

/// For how long this database's statistics have been counted.
pub(super) fn counted(postgres: &Postgres) -> String {
    match postgres.own_database().and_then(|database| database.counted_for) {
        Some(time) => format!("for {}", span(time)),
        None => "since statistics were last lost or the database was made".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn large_ones_and_for_how_long() {
        let unused = |size: u64, days: Option<u64>| {
            move |facts: &mut Facts| {
                postgres(facts).indexes.unused.push(UnusedIndex { size, ..UnusedIndex::default() });
                postgres(facts).databases[0].counted_for = days.map(|days| Duration::from_secs(days * 86_400));
            }
        };
        check(
            find,
            &[
                ("small", &unused(SIZE - 1, Some(30)), None),
                ("a megabyte", &unused(SIZE, Some(30)), Some(Weight::Notice)),
                ("large", &unused(SIZE_LARGE, Some(7)), Some(Weight::Warning)),
                ("large, for six days", &unused(SIZE_LARGE, Some(6)), Some(Weight::Notice)),
                ("large, for nobody knows how long", &unused(SIZE_LARGE, None), Some(Weight::Notice)),
            ],
        );
    }
}
