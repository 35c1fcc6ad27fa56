//! Indexes that are there twice.

use std::collections::BTreeMap;

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::Duplicate;
use crate::words::{bytes, qualified};

/// As large together: a cost worth a warning.
const SIZE: u64 = 1 << 30;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    // One may be the same as several others.
    let all = &facts.postgres.as_ref()?.indexes.duplicates;
    let by_name: BTreeMap<(&str, &str), &Duplicate> =
        all.iter().rev().map(|index| ((index.schema.as_str(), index.name.as_str()), index)).collect();
    let mut twice: Vec<&Duplicate> = by_name.into_values().collect();
    twice.sort_by_key(|index| std::cmp::Reverse(index.size));
    if twice.is_empty() {
        return None;
    }
    let size: u64 = twice.iter().map(|index| index.size).sum();
    let line = |index: &&Duplicate| {
        format!(
            "{}.{}: {} is the same as {}, {}",
            index.schema,
            index.table,
            index.name,
            index.same_as,
            bytes(index.size)
        )
    };
    let drop = |index: &&Duplicate| format!("DROP INDEX CONCURRENTLY {};", qualified(&index.schema, &index.name));
    Some(Finding {
        rule: "duplicate-indexes",
        weight: if size >= SIZE { Weight::Warning } else { Weight::Notice },
        title: format!("{} twice, {} together", many(twice.len()), bytes(size)),
        evidence: super::first(twice.iter().map(line)),
        reason: "Every write keeps both up to date, and both take memory; no query gains by the second one.".to_owned(),
        source: "PostgreSQL manual, Indexes: Introduction",
        mend: twice.iter().take(super::NAMED_MAX).map(drop).collect(),
    })
}

fn many(count: usize) -> String {
    if count == 1 { "1 index is there".to_owned() } else { format!("{count} indexes are there") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, healthy, postgres};

    fn index(name: &str, same_as: &str, size: u64) -> Duplicate {
        let [schema, table, name, same_as] = ["public", "t", name, same_as].map(str::to_owned);
        Duplicate { schema, table, name, same_as, size }
    }

    #[test]
    fn any_that_is_there_twice() {
        let twice = |size: u64| move |facts: &mut Facts| postgres(facts).indexes.duplicates.push(index("b", "a", size));
        check(
            find,
            &[
                ("small", &twice(0), Some(Weight::Notice)),
                ("less than a gigabyte", &twice(SIZE - 1), Some(Weight::Notice)),
                ("a gigabyte", &twice(SIZE), Some(Weight::Warning)),
            ],
        );
    }

    #[test]
    fn one_of_three_is_dropped_once() {
        let mut facts = healthy();
        postgres(&mut facts).indexes.duplicates = vec![index("b", "a", 1), index("c", "a", 1), index("c", "b", 1)];
        let found = find(&facts).expect("two too many");
        assert_eq!(found.mend.len(), 2, "{found:?}");
    }

    #[test]
    fn a_hostile_name_stays_a_name() {
        let mut facts = healthy();
        postgres(&mut facts).indexes.duplicates = vec![index("x\"; DROP TABLE t; --", "a", 1)];
        let found = find(&facts).expect("found");
        assert_eq!(found.mend, ["DROP INDEX CONCURRENTLY \"public\".\"x\"\"; DROP TABLE t; --\";"]);
    }
}
