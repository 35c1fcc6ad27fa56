//! Databases whose oldest rows should have been frozen by now.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::DatabaseFigures;
use crate::words::{number, quoted};

/// Beyond autovacuum_freeze_max_age a vacuum has been due; so much later it should have been done.
const LATE: f64 = 1.2;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let due = u64::try_from(postgres.number("autovacuum_freeze_max_age")?).ok()?;
    let failsafe =
        postgres.number("vacuum_failsafe_age").and_then(|age| u64::try_from(age).ok()).unwrap_or(1_600_000_000);
    let is_late = |database: &&DatabaseFigures| database.frozen_age as f64 > due as f64 * LATE;
    let mut late: Vec<&DatabaseFigures> = postgres.databases.iter().filter(is_late).collect();
    late.sort_by_key(|database| std::cmp::Reverse(database.frozen_age));
    let oldest = late.first()?;
    let mut mend: Vec<String> = late
        .iter()
        .take(super::NAMED_MAX)
        .map(|database| format!("VACUUM (FREEZE); -- as a superuser, connected to {}", quoted(&database.name)))
        .collect();
    mend.push("-- first end what keeps old snapshots, or nothing can be frozen".to_owned());
    Some(Finding {
        rule: "wraparound",
        weight: if oldest.frozen_age >= failsafe { Weight::Critical } else { Weight::Warning },
        title: format!("the oldest rows of {} are {} transactions old", oldest.name, number(oldest.frozen_age)),
        evidence: super::first(late.iter().map(|database| {
            let (age, part) = (number(database.frozen_age), database.frozen_age as f64 / 2_147_483_648.0);
            format!("{}: age(datfrozenxid) = {age}, {:.0} % of the way to a standstill; due at {}", database.name, part * 100.0, number(due))
        })),
        reason: "Autovacuum has not been able to freeze them in time. Three million transactions before 2 billion, PostgreSQL refuses everything that \
                 writes."
            .to_owned(),
        source: "PostgreSQL manual, Preventing Transaction ID Wraparound Failures",
        mend,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn a_fifth_beyond_the_age_at_which_it_was_due() {
        let age = |age: u64| move |facts: &mut Facts| postgres(facts).databases[0].frozen_age = age;
        check(
            find,
            &[
                ("due", &age(240_000_000), None),
                ("late", &age(240_000_001), Some(Weight::Warning)),
                ("almost at the failsafe", &age(1_599_999_999), Some(Weight::Warning)),
                ("at the failsafe", &age(1_600_000_000), Some(Weight::Critical)),
            ],
        );
    }
}
