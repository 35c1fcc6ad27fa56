//! Foreign keys without an index on the side that refers.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::ForeignKey;
use crate::words::{number, qualified};

/// Smaller tables are scanned as fast.
const ROWS: u64 = 10_000;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let bare: Vec<&ForeignKey> = postgres.indexes.foreign_keys.iter().filter(|key| key.rows >= ROWS).collect();
    if bare.is_empty() {
        return None;
    }
    let line = |key: &&ForeignKey| {
        format!(
            "{}.{} ({}) refers to {}: {} rows to look through; {} rows of {} were deleted",
            key.schema,
            key.table,
            key.columns,
            key.target,
            number(key.rows),
            number(key.target_deletes),
            key.target,
        )
    };
    let mend = bare
        .iter()
        .take(super::NAMED_MAX)
        .map(|key| format!("CREATE INDEX CONCURRENTLY ON {} ({});", qualified(&key.schema, &key.table), key.columns));
    Some(Finding {
        rule: "foreign-keys",
        weight: if bare.iter().any(|key| key.target_deletes > 0) { Weight::Warning } else { Weight::Notice },
        title: format!("{} without an index", crate::words::counted(bare.len() as u64, "foreign key")),
        evidence: super::first(bare.iter().map(line)),
        reason: "Each DELETE in the table that is referred to, and each UPDATE of its key, scans the whole referring table, holding its locks meanwhile.".to_owned(),
        source: "PostgreSQL manual, Foreign Keys",
        mend: mend.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn of_large_tables() {
        let key = |rows: u64, target_deletes: u64| {
            move |facts: &mut Facts| {
                postgres(facts).indexes.foreign_keys.push(ForeignKey { rows, target_deletes, ..ForeignKey::default() });
            }
        };
        check(
            find,
            &[
                ("small", &key(9_999, 5), None),
                ("large, and nothing is deleted", &key(10_000, 0), Some(Weight::Notice)),
                ("large, and rows are deleted", &key(10_000, 1), Some(Weight::Warning)),
            ],
        );
    }
}
