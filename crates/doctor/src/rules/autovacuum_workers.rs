//! Autovacuum has all its workers at work, and tables wait for one.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::Postgres;
use crate::words::shortened;

/// The largest that PostgreSQL takes.
//= pg18 runtime-config-vacuum#GUC-AUTOVACUUM-VACUUM-COST-LIMIT
const COST_LIMIT_MAX: i64 = 10_000;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let workers = usize::try_from(postgres.number("autovacuum_max_workers")?).ok().filter(|workers| *workers > 0)?;
    let busy: Vec<_> =
        postgres.backends.iter().filter(|backend| backend.kind.as_deref() == Some("autovacuum worker")).collect();
    let due =
        postgres.tables.iter().filter(|table| !table.is_switched_off && table.dead as f64 > table.threshold).count();
    if busy.len() < workers || due <= workers {
        return None;
    }
    let lines = busy
        .iter()
        .map(|backend| format!("pid {}: {}", backend.pid, shortened(backend.query.as_deref().unwrap_or("?"))));
    let mut evidence = super::first(lines);
    let limit = cost_limit(postgres);
    let words = limit.map(|limit| format!("; their cost limit is {limit}")).unwrap_or_default();
    evidence.push(format!("{due} tables of this database are due; autovacuum_max_workers = {workers}{words}"));
    Some(Finding {
        rule: "autovacuum-workers",
        weight: Weight::Warning,
        title: "all workers of autovacuum are busy, and tables wait".to_owned(),
        evidence,
        reason:
            "Workers share one budget of input and output: more of them alone are each slower. Raise the budget first."
                .to_owned(),
        source: "PostgreSQL manual, The Autovacuum Daemon",
        mend: mend(limit, workers),
    })
}

fn mend(limit: Option<i64>, workers: usize) -> Vec<String> {
    let raised = limit.filter(|limit| *limit < COST_LIMIT_MAX).map(|limit| (limit * 2).min(COST_LIMIT_MAX));
    let budget = raised.map(|limit| {
        format!(
            "ALTER SYSTEM SET autovacuum_vacuum_cost_limit = {limit}; SELECT pg_reload_conf(); -- twice as much as now"
        )
    });
    let more =
        format!("ALTER SYSTEM SET autovacuum_max_workers = {}; -- before PostgreSQL 18 with a restart", workers + 2);
    budget.into_iter().chain([more]).collect()
}

/// What the workers share; `None`: nothing holds them back, or it is not told.
fn cost_limit(postgres: &Postgres) -> Option<i64> {
    // A delay may be half a millisecond.
    let number = |name: &str| postgres.setting(name).parse::<f64>().ok();
    let own = |name: &str, of_all: &str| number(name).filter(|value| *value >= 0.0).or(number(of_all));
    if own("autovacuum_vacuum_cost_delay", "vacuum_cost_delay") == Some(0.0) {
        return None;
    }
    own("autovacuum_vacuum_cost_limit", "vacuum_cost_limit").map(|limit| limit as i64).filter(|limit| *limit > 0)
}

#[cfg(test)]
mod tests {
    use observe::{Backend, State};

    use super::*;
    use crate::postgres::TableFigures;
    use crate::rules::example::{backend, check, healthy, postgres};

    #[test]
    fn the_budget_is_doubled_and_never_lowered() {
        let names =
            ["autovacuum_vacuum_cost_limit", "vacuum_cost_limit", "autovacuum_vacuum_cost_delay", "vacuum_cost_delay"];
        let table = [
            (["-1", "200", "2", "0"], Some("= 400;")),
            (["3000", "200", "2", "0"], Some("= 6000;")),
            (["-1", "5001", "0.5", "0"], Some("= 10000;")),
            (["10000", "200", "2", "0"], None),
            (["-1", "200", "0", "2"], None),
            (["-1", "200", "-1", "0"], None),
            (["-1", "200", "-1", "2"], Some("= 400;")),
        ];
        for (values, expected) in table {
            let mut facts = healthy();
            let own = postgres(&mut facts);
            own.settings.extend(names.map(str::to_owned).into_iter().zip(values.map(str::to_owned)));
            let found = mend(cost_limit(own), 3);
            assert_eq!(found.len(), 1 + usize::from(expected.is_some()), "{values:?}: {found:?}");
            assert!(expected.is_none_or(|value| found[0].contains(value)), "{values:?}: {found:?}");
        }
    }

    #[test]
    fn all_three_work_and_more_is_due() {
        let busy = |workers: i32, due: usize| {
            move |facts: &mut Facts| {
                let worker =
                    |pid: i32| Backend { kind: Some("autovacuum worker".to_owned()), ..backend(pid, State::Active) };
                postgres(facts).backends.extend((0..workers).map(|n| worker(400 + n)));
                postgres(facts).tables =
                    vec![TableFigures { dead: 60, threshold: 50.0, ..TableFigures::default() }; due];
            }
        };
        check(
            find,
            &[
                ("one is free", &busy(2, 9), None),
                ("as many as are due", &busy(3, 3), None),
                ("more are due", &busy(3, 4), Some(Weight::Warning)),
            ],
        );
    }
}
