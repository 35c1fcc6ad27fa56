//! Backends that wait for a lock, and whom they wait for.

use std::time::Duration;

use observe::{Backend, Blocking, Prepared, can_be_terminated, is_prepared};

use super::{first, named, statement};
use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::Postgres;
use crate::words::{counted, plain, span};

/// As long as deadlock_timeout, after which PostgreSQL itself logs a wait.
const WAIT: Duration = Duration::from_secs(1);
/// So many behind one are a stoppage.
const MANY: usize = 5;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let blocking = &postgres.blocking;
    let longest = blocking.waiters().map(|(_, waiter)| waiter.waiting).max().filter(|longest| *longest >= WAIT)?;
    let mut roots: Vec<(i32, usize)> =
        blocking.roots().into_iter().map(|pid| (pid, blocking.count_behind(pid))).collect();
    roots.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let waiting = blocking.waiters().count();
    let many = roots.first().is_some_and(|(_, count)| *count >= MANY);
    let mut mend: Vec<String> = roots.iter().take(super::NAMED_MAX).map(|(pid, _)| ending(postgres, *pid)).collect();
    mend.push(
        "SET lock_timeout = '2s'; -- before DDL, so that it gives up instead of stopping all who come after it"
            .to_owned(),
    );
    Some(Finding {
        rule: "lock-waits",
        weight: if many { Weight::Critical } else { Weight::Warning },
        title: format!("{} for a lock, the longest for {}", plural(waiting), span(longest)),
        evidence: first(roots.iter().map(|(pid, count)| line(postgres, blocking, *pid, *count))),
        reason: "A server that waits for a lock is a server that nobody else can have: a pool that is full of them serves nobody, however short the \
                 other statements are."
            .to_owned(),
        source: "PostgreSQL manual, Explicit Locking",
        mend,
    })
}

/// The statement that ends a root. No process has a prepared transaction: `pg_terminate_backend` would end nothing.
fn ending(postgres: &Postgres, pid: i32) -> String {
    match postgres.prepared_holders.get(&pid) {
        Some(prepared) => {
            let (owner, database) = (plain(&prepared.owner), plain(&prepared.database));
            format!(
                "{} -- as {owner} or a superuser, in database {database}; or COMMIT PREPARED",
                plain(&prepared.rollback())
            )
        }
        None if is_prepared(pid) => {
            "SELECT gid, owner, database, prepared FROM pg_prepared_xacts; -- then ROLLBACK PREPARED with the gid"
                .to_owned()
        }
        None => match postgres.backends.iter().find(|backend| backend.pid == pid) {
            Some(backend) if backend.prevents_wraparound() => {
                "-- autovacuum against wraparound has to come to its end, and begins again if it is ended".to_owned()
            }
            Some(Backend { kind: Some(kind), .. }) if !can_be_terminated(kind) => {
                format!("-- {} is a process of PostgreSQL's own, which pg_terminate_backend does not end", plain(kind))
            }
            _ => format!("SELECT pg_terminate_backend({pid}); -- ends its transaction"),
        },
    }
}

fn plural(count: usize) -> String {
    format!("{} {}", counted(count as u64, "backend"), if count == 1 { "waits" } else { "wait" })
}

fn line(postgres: &Postgres, blocking: &Blocking, pid: i32, count: usize) -> String {
    let backend = postgres.backends.iter().find(|backend| backend.pid == pid);
    let who = match postgres.prepared_holders.get(&pid) {
        Some(Prepared { gid, owner, database, age }) => {
            format!("prepared transaction {gid} of {owner} in {database}, {} old,", span(*age))
        }
        None if is_prepared(pid) => "a prepared transaction".to_owned(),
        None => backend.map_or_else(|| format!("pid {pid}"), named),
    };
    let what =
        blocking.behind(pid).find_map(|waiting| blocking.waiter(waiting)).and_then(|waiter| waiter.object.name.clone());
    let what = what.map(|name| format!(" on {name}")).unwrap_or_default();
    let state = backend.and_then(idle).unwrap_or_default();
    format!("{who}{state} is before {count}{what}{}", backend.map(statement).unwrap_or_default())
}

fn idle(backend: &Backend) -> Option<&'static str> {
    backend.state.filter(|state| state.is_idle_in_transaction()).map(|_| ", idle in transaction,")
}

#[cfg(test)]
mod tests {
    use observe::{Lock, LockMode, Object, State};

    use super::*;
    use crate::rules::example::{aged, check, postgres};

    fn locks(waiters: i32, ms: u64) -> Blocking {
        let lock = |pid: i32, waiting: Option<u64>| Lock {
            pid,
            leader_pid: None,
            object: Object { kind: "relation".into(), key: "1".into(), name: Some("orders".into()) },
            mode: LockMode::AccessExclusive,
            waiting: waiting.map(Duration::from_millis),
        };
        let mut locks = vec![lock(300, None)];
        locks.extend((0..waiters).map(|n| lock(301 + n, Some(ms))));
        Blocking::of(&locks)
    }

    #[test]
    fn a_wait_of_a_second_is_found() {
        let wait = |waiters: i32, ms: u64| {
            move |facts: &mut Facts| {
                postgres(facts).backends.push(aged(300, State::IdleInTransaction, 5));
                postgres(facts).blocking = locks(waiters, ms);
            }
        };
        check(
            find,
            &[
                ("less than a second", &wait(1, 999), None),
                ("a second", &wait(1, 1000), Some(Weight::Warning)),
                ("five behind one", &wait(5, 1000), Some(Weight::Critical)),
            ],
        );
        let mut facts = crate::rules::example::healthy();
        wait(3, 1000)(&mut facts);
        let found = find(&facts).expect("three wait");
        assert_eq!(found.evidence, ["pid 300 (app in shop, web), idle in transaction, is before 3 on orders"]);
        assert!(found.mend[0].starts_with("SELECT pg_terminate_backend(300);"));
    }

    #[test]
    fn what_cannot_be_ended_has_no_statement_that_ends_it() {
        let of = |kind: &str, query: &str| {
            let mut facts = crate::rules::example::healthy();
            let own =
                Backend { kind: Some(kind.to_owned()), query: Some(query.to_owned()), ..aged(300, State::Active, 5) };
            postgres(&mut facts).backends.push(own);
            postgres(&mut facts).blocking = locks(1, 2000);
            find(&facts).expect("one waits").mend.remove(0)
        };
        for (kind, query, expected) in [
            ("startup", "", "-- startup is a process of PostgreSQL's own, which pg_terminate_backend does not end"),
            (
                "autovacuum worker",
                "autovacuum: VACUUM orders",
                "SELECT pg_terminate_backend(300); -- ends its transaction",
            ),
            (
                "autovacuum worker",
                "autovacuum: VACUUM orders (to prevent wraparound)",
                "-- autovacuum against wraparound has to come to its end, and begins again if it is ended",
            ),
            ("logical replication worker", "", "SELECT pg_terminate_backend(300); -- ends its transaction"),
        ] {
            assert_eq!(of(kind, query), expected, "{kind}");
        }
    }

    #[test]
    fn a_prepared_transaction_is_ended_by_its_gid() {
        let lock = |pid: i32, key: &str, waiting: Option<u64>| Lock {
            pid,
            leader_pid: None,
            object: Object { kind: "relation".into(), key: key.into(), name: Some(key.into()) },
            mode: LockMode::AccessExclusive,
            waiting: waiting.map(Duration::from_secs),
        };
        let locks = [
            lock(-7, "orders", None),
            lock(301, "orders", Some(9)),
            lock(0, "items", None),
            lock(302, "items", Some(8)),
        ];
        let mut facts = crate::rules::example::healthy();
        let (gid, owner, database) = ("it's".to_owned(), "payer".to_owned(), "shop".to_owned());
        let prepared = Prepared { gid, owner, database, age: Duration::from_secs(75) };
        postgres(&mut facts).blocking = Blocking::of(&locks);
        postgres(&mut facts).prepared_holders = [(-7, prepared)].into();
        let found = find(&facts).expect("two wait");
        let expected = [
            "prepared transaction it's of payer in shop, 75 s old, is before 1 on orders",
            "a prepared transaction is before 1 on items",
        ];
        assert_eq!(found.evidence, expected);
        assert_eq!(
            found.mend[0],
            "ROLLBACK PREPARED 'it''s'; -- as payer or a superuser, in database shop; or COMMIT PREPARED"
        );
        assert!(found.mend[1].contains("pg_prepared_xacts"), "{found:?}");
        assert!(found.mend.iter().all(|line| !line.contains("pg_terminate_backend")), "{found:?}");
    }
}
