//! Autovacuum has all its workers at work, and tables wait for one.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::words::shortened;

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
    evidence.push(format!("{due} tables of this database are due; autovacuum_max_workers = {workers}"));
    Some(Finding {
        rule: "autovacuum-workers",
        weight: Weight::Warning,
        title: "all workers of autovacuum are busy, and tables wait".to_owned(),
        evidence,
        reason:
            "Workers share one budget of input and output: more of them alone are each slower. Raise the budget first."
                .to_owned(),
        source: "PostgreSQL manual, The Autovacuum Daemon",
        mend: vec![
            "ALTER SYSTEM SET autovacuum_vacuum_cost_limit = 1000; SELECT pg_reload_conf();".to_owned(),
            format!(
                "ALTER SYSTEM SET autovacuum_max_workers = {}; -- before PostgreSQL 18 with a restart",
                workers + 2
            ),
        ],
    })
}

#[cfg(test)]
mod tests {
    use observe::{Backend, State};

    use super::*;
    use crate::postgres::TableFigures;
    use crate::rules::example::{backend, check, postgres};

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
