//! Sessions that hold a transaction open while their client says nothing.

use observe::Backend;

use super::{first, named, statement};
use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::words::span;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let age = |backend: &Backend| backend.ages.state.unwrap_or_default();
    let is_found = |backend: &&Backend| {
        backend.state.is_some_and(|state| state.is_idle_in_transaction()) && age(backend) >= facts.asked.long
    };
    let mut idle: Vec<&Backend> = postgres.clients().filter(is_found).collect();
    idle.sort_by_key(|backend| std::cmp::Reverse(age(backend)));
    let oldest = idle.first()?;
    let roots = postgres.blocking.roots();
    let blocks = idle.iter().any(|backend| roots.contains(&backend.pid));
    let line = |backend: &&Backend| {
        let behind = postgres.blocking.count_behind(backend.pid);
        let behind = if behind > 0 { format!(", and {behind} wait behind it") } else { String::new() };
        format!("{} for {}{behind}{}", named(backend), span(age(backend)), statement(backend))
    };
    let mut mend: Vec<String> = idle
        .iter()
        .take(super::NAMED_MAX)
        .map(|backend| format!("SELECT pg_terminate_backend({});", backend.pid))
        .collect();
    mend.push("ALTER SYSTEM SET idle_in_transaction_session_timeout = '60s'; SELECT pg_reload_conf();".to_owned());
    mend.push("idle_transaction_timeout = 60 -- or in the pooler's file, where it can differ by user".to_owned());
    Some(Finding {
        rule: "idle-in-transaction",
        weight: if blocks { Weight::Critical } else { Weight::Warning },
        title: format!("{} idle in transaction for longer than {}, the longest for {}", many(idle.len()), span(facts.asked.long), span(age(oldest))),
        evidence: first(idle.iter().map(line)),
        reason: "Each keeps a server of its pool, its locks, and, with a snapshot, every row that has died since: the application has forgotten a COMMIT, \
                 or does something slow inside of a transaction."
            .to_owned(),
        source: "PostgreSQL manual, Statement Behavior: idle_in_transaction_session_timeout",
        mend,
    })
}

fn many(count: usize) -> String {
    if count == 1 { "1 session is".to_owned() } else { format!("{count} sessions are") }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use observe::{Blocking, Lock, LockMode, Object, State};

    use super::*;
    use crate::rules::example::{aged, check, postgres};

    #[test]
    fn from_a_long_transaction_on() {
        let idle = |state: State, seconds: u64| {
            move |facts: &mut Facts| postgres(facts).backends.push(aged(300, state, seconds))
        };
        let asked = |facts: &mut Facts| {
            idle(State::IdleInTransaction, 2)(facts);
            facts.asked.long = Duration::from_secs(1);
        };
        let blocks = |facts: &mut Facts| {
            idle(State::IdleInTransaction, 300)(facts);
            let lock = |pid: i32, waiting: Option<Duration>| Lock {
                pid,
                leader_pid: None,
                object: Object { kind: "transactionid".into(), key: "1".into(), name: None },
                mode: LockMode::Exclusive,
                waiting,
            };
            postgres(facts).blocking = Blocking::of(&[lock(300, None), lock(301, Some(Duration::from_secs(9)))]);
        };
        check(
            find,
            &[
                ("a second too early", &idle(State::IdleInTransaction, 299), None),
                ("five minutes", &idle(State::IdleInTransaction, 300), Some(Weight::Warning)),
                ("in a failed one", &idle(State::IdleInFailedTransaction, 300), Some(Weight::Warning)),
                ("outside of one", &idle(State::Idle, 3000), None),
                ("at work", &idle(State::Active, 3000), None),
                ("as long as was asked for", &asked, Some(Weight::Warning)),
                ("somebody waits behind it", &blocks, Some(Weight::Critical)),
            ],
        );
    }
}
