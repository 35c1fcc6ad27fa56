//! Statements that take most of PostgreSQL's time.

use std::time::Duration;

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::{Statement, Statements};
use crate::words::{number, percent, shortened, span};

/// A statement with this part of all time is found; with this one it is pressing.
const PART: f64 = 0.3;
const PART_PRESSING: f64 = 0.5;
/// Less time of all statements together says nothing.
const TIME: Duration = Duration::from_secs(60);
/// Servers that a statement keeps busy on average, from which on it is pressing.
const BUSY: f64 = 1.0;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let statements = facts.postgres.as_ref()?.statements.as_ref()?;
    if statements.total < TIME {
        return None;
    }
    let part = |statement: &Statement| statement.time.as_secs_f64() / statements.total.as_secs_f64();
    let heavy: Vec<&Statement> = statements.top.iter().filter(|statement| part(statement) >= PART).collect();
    let first = heavy.first()?;
    let is_pressing = part(first) >= PART_PRESSING && busy(statements, first) >= BUSY;
    let line = |statement: &&Statement| {
        let mean = statement.time.checked_div(u32::try_from(statement.calls).unwrap_or(u32::MAX)).unwrap_or_default();
        format!(
            "{} of the time, {:.1} servers on average: {} calls of {}: {}",
            percent(part(statement)),
            busy(statements, statement),
            number(statement.calls),
            span(mean),
            shortened(&statement.text),
        )
    };
    Some(Finding {
        rule: "heavy-statements",
        weight: if is_pressing { Weight::Warning } else { Weight::Notice },
        title: format!(
            "{} of all statements' time goes into {}",
            percent(heavy.iter().map(|statement| part(statement)).sum()),
            many(heavy.len())
        ),
        evidence: super::first(heavy.iter().map(line)),
        reason: format!(
            "Whatever it spends is not there for others: half its time is as good as a larger pool. Counted for {}.",
            span(statements.counted_for)
        ),
        source: "PostgreSQL manual, pg_stat_statements",
        mend: vec![
            "EXPLAIN (ANALYZE, BUFFERS) …; -- of the statement with real values".to_owned(),
            "-- or bound it: a class of its own with a weight or max_running, by its tag or text (class_file)"
                .to_owned(),
        ],
    })
}

fn many(count: usize) -> String {
    if count == 1 { "one statement".to_owned() } else { format!("{count} statements") }
}

fn busy(statements: &Statements, statement: &Statement) -> f64 {
    let counted_for = statements.counted_for.as_secs_f64();
    if counted_for > 0.0 { statement.time.as_secs_f64() / counted_for } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, postgres};

    #[test]
    fn a_third_of_the_time() {
        let heavy = |time: u64, total: u64, counted_for: u64| {
            move |facts: &mut Facts| {
                let seconds = Duration::from_secs;
                let top =
                    vec![Statement { text: "SELECT\n1".to_owned(), calls: 10, time: seconds(time), temp_bytes: 0 }];
                let statements = Statements { counted_for: seconds(counted_for), total: seconds(total), top };
                postgres(facts).statements = Some(statements);
            }
        };
        check(
            find,
            &[
                ("less than a third", &heavy(29, 100, 100), None),
                ("a third", &heavy(30, 100, 100), Some(Weight::Notice)),
                ("a third of little", &heavy(30, 59, 100), None),
                ("most, but PostgreSQL was mostly idle", &heavy(60, 100, 100), Some(Weight::Notice)),
                ("most, and a server all the time", &heavy(60, 100, 60), Some(Weight::Warning)),
            ],
        );
    }
}
