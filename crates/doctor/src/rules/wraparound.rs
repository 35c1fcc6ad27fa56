//! Databases whose oldest rows, or oldest multixacts, should have been frozen by now.

use std::collections::BTreeSet;

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::{DatabaseFigures, Postgres};
use crate::words::{number, quoted};

/// Beyond the age at which a vacuum has been due; so much later it should have been done.
const LATE: f64 = 1.2;
/// The failsafe begins no earlier than this beyond the age at which a vacuum is due.
//= pg18 runtime-config-vacuum#GUC-VACUUM-FAILSAFE-AGE
const FAILSAFE: f64 = 1.05;
/// Ages wrap around here.
const END: f64 = 2_147_483_648.0;

/// What is counted: transactions, or sets of transactions that lock one row.
//= pg18 routine-vacuuming#VACUUM-FOR-MULTIXACT-WRAPAROUND
struct Counter {
    unit: &'static str,
    column: &'static str,
    due: f64,
    failsafe: f64,
    age: fn(&DatabaseFigures) -> u64,
}

impl Counter {
    fn all(postgres: &Postgres) -> Vec<Counter> {
        let of = |due: &str, failsafe: &str| {
            let due = postgres.number(due)? as f64;
            Some((due, (postgres.number(failsafe).unwrap_or(1_600_000_000) as f64).max(due * FAILSAFE)))
        };
        let transactions = of("autovacuum_freeze_max_age", "vacuum_failsafe_age").map(|(due, failsafe)| Counter {
            unit: "transactions",
            column: "age(datfrozenxid)",
            due,
            failsafe,
            age: |database| database.frozen_age,
        });
        let multixacts =
            of("autovacuum_multixact_freeze_max_age", "vacuum_multixact_failsafe_age").map(|(due, failsafe)| Counter {
                unit: "multixacts",
                column: "mxid_age(datminmxid)",
                due,
                failsafe,
                age: |database| database.multixact_age,
            });
        transactions.into_iter().chain(multixacts).collect()
    }

    fn is_late(&self, database: &DatabaseFigures) -> bool {
        (self.age)(database) as f64 > self.due * LATE || self.is_pressing(database)
    }

    fn is_pressing(&self, database: &DatabaseFigures) -> bool {
        (self.age)(database) as f64 >= self.failsafe
    }

    fn line(&self, database: &DatabaseFigures) -> String {
        let age = (self.age)(database);
        format!(
            "{}: {} = {}, {:.0} % of the way to a standstill; due at {}",
            database.name,
            self.column,
            number(age),
            age as f64 / END * 100.0,
            number(self.due as u64)
        )
    }
}

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let counters = Counter::all(postgres);
    let mut late: Vec<(&Counter, &DatabaseFigures)> = counters
        .iter()
        .flat_map(|counter| postgres.databases.iter().map(move |database| (counter, database)))
        .filter(|(counter, database)| counter.is_late(database))
        .collect();
    late.sort_by_key(|(counter, database)| std::cmp::Reverse((counter.age)(database)));
    let (counter, oldest) = late.first()?;
    let mut named = BTreeSet::new();
    let mut mend = vec!["-- first end what keeps old snapshots, or nothing can be frozen".to_owned()];
    mend.extend(late.iter().filter(|(_, database)| named.insert(&database.name)).take(super::NAMED_MAX).map(
        |(_, database)| {
            let name = quoted(&database.name);
            format!(
                "VACUUM; -- as a superuser, connected to {name}; with FREEZE or FULL it would do more than is needed"
            )
        },
    ));
    let is_pressing = late.iter().any(|(counter, database)| counter.is_pressing(database));
    Some(Finding {
        rule: "wraparound",
        weight: if is_pressing { Weight::Critical } else { Weight::Warning },
        title: format!("the oldest rows of {} are {} {} old", oldest.name, number((counter.age)(oldest)), counter.unit),
        evidence: super::first(late.iter().map(|(counter, database)| counter.line(database))),
        reason: "Autovacuum has not been able to freeze them in time. Three million transactions before 2 billion, PostgreSQL refuses everything that \
                 writes; without room for multixacts, what locks rows."
            .to_owned(),
        source: "PostgreSQL manual, Preventing Transaction ID Wraparound Failures",
        mend,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, healthy, postgres};

    #[test]
    fn a_fifth_beyond_the_age_at_which_it_was_due() {
        let age = |age: u64| move |facts: &mut Facts| postgres(facts).databases[0].frozen_age = age;
        let multixacts = |age: u64| move |facts: &mut Facts| postgres(facts).databases[0].multixact_age = age;
        let set = |name: &'static str, value: &'static str, frozen_age: u64| {
            move |facts: &mut Facts| {
                postgres(facts).settings.insert(name.to_owned(), value.to_owned());
                age(frozen_age)(facts);
            }
        };
        let due = |value: &'static str, frozen_age: u64| set("autovacuum_freeze_max_age", value, frozen_age);
        let failsafe = |value: &'static str, frozen_age: u64| set("vacuum_failsafe_age", value, frozen_age);
        check(
            find,
            &[
                ("due", &age(240_000_000), None),
                ("late", &age(240_000_001), Some(Weight::Warning)),
                ("almost at the failsafe", &age(1_599_999_999), Some(Weight::Warning)),
                ("at the failsafe", &age(1_600_000_000), Some(Weight::Critical)),
                ("due late, before the failsafe", &due("1500000000", 1_599_999_999), None),
                ("due late, at the failsafe", &due("1500000000", 1_600_000_000), Some(Weight::Critical)),
                ("due at last, before the failsafe", &due("2000000000", 2_099_999_999), None),
                ("due at last, at the failsafe", &due("2000000000", 2_100_000_000), Some(Weight::Critical)),
                ("an early failsafe, before it", &failsafe("0", 209_999_999), None),
                ("an early failsafe", &failsafe("0", 210_000_000), Some(Weight::Critical)),
                ("multixacts that are due", &multixacts(480_000_000), None),
                ("multixacts that are late", &multixacts(480_000_001), Some(Weight::Warning)),
                ("multixacts at the failsafe", &multixacts(1_600_000_000), Some(Weight::Critical)),
            ],
        );
    }

    #[test]
    fn a_database_is_vacuumed_once_and_not_frozen_whole() {
        let mut facts = healthy();
        postgres(&mut facts).databases[0].frozen_age = 500_000_000;
        postgres(&mut facts).databases[0].multixact_age = 600_000_000;
        let found = find(&facts).expect("both are late");
        assert_eq!((found.evidence.len(), found.mend.len()), (2, 2), "{found:?}");
        assert!(found.title.ends_with("600,000,000 multixacts old"), "{found:?}");
        assert!(found.mend[1].starts_with("VACUUM; -- as a superuser, connected to \"shop\""), "{found:?}");
    }
}
