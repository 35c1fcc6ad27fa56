//! What to ask PostgreSQL, and what its answers mean. The statements are for PostgreSQL 14 to 18, change nothing, and need no right: a role
//! without `pg_monitor` is told less.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::backend::{Ages, Backend, State, WaitEvent};
use crate::lock::{Lock, LockMode, Object};
use crate::prepared::Prepared;

/// A row of an answer: its values as text; `None` is NULL.
pub type Row = Vec<Option<String>>;

/// All backends but the one that asks, in the columns that [`backends`] reads.
pub const ACTIVITY: &str = "\
SELECT pid, backend_type, datname, usename, application_name, host(client_addr), state, wait_event_type, wait_event, \
(extract(epoch FROM clock_timestamp() - backend_start) * 1000)::bigint, \
(extract(epoch FROM clock_timestamp() - xact_start) * 1000)::bigint, \
(extract(epoch FROM clock_timestamp() - query_start) * 1000)::bigint, \
(extract(epoch FROM clock_timestamp() - state_change) * 1000)::bigint, \
age(backend_xmin), query_id, query \
FROM pg_catalog.pg_stat_activity WHERE pid <> pg_catalog.pg_backend_pid() ORDER BY pid";

/// The locks, held and waited for, of everything that somebody waits for, in the columns that [`locks`] and [`prepared`] read. pg_locks is read
/// once: each reading stops all lock traffic for a moment. Names of relations of other databases are not known.
///
/// A lock of a prepared transaction has no process. In place of one stands the transaction's id, negative and modulo 2^31, by which no two that
/// live together are equal. Which transaction a lock is of is told by its virtual transaction: each has a lock on its own transaction id, too.
pub const LOCKS: &str = "\
WITH locks AS MATERIALIZED (SELECT * FROM pg_catalog.pg_locks), \
contended AS (SELECT DISTINCT locktype, database, relation, page, tuple, virtualxid, transactionid, classid, objid, objsubid \
FROM locks WHERE NOT granted), \
prepared AS (SELECT l.virtualtransaction, -(x.transaction::text::bigint % 2147483648) AS id, x.gid, x.owner, x.database, \
(extract(epoch FROM clock_timestamp() - x.prepared) * 1000)::bigint AS age \
FROM locks l JOIN pg_catalog.pg_prepared_xacts x ON x.transaction = l.transactionid \
WHERE l.pid IS NULL AND l.locktype = 'transactionid') \
SELECT coalesce(l.pid, p.id, 0), a.leader_pid, l.locktype, \
(l.database, l.relation, l.page, l.tuple, l.virtualxid, l.transactionid, l.classid, l.objid, l.objsubid)::text, \
CASE WHEN l.database IN (0, (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())) \
THEN l.relation::pg_catalog.regclass::text END, \
l.mode, l.granted, coalesce((extract(epoch FROM clock_timestamp() - l.waitstart) * 1000)::bigint, 0), \
p.gid, p.owner, p.database, p.age \
FROM locks l JOIN contended c ON l.locktype = c.locktype \
AND coalesce(l.relation, 0) = coalesce(c.relation, 0) AND coalesce(l.objid, 0) = coalesce(c.objid, 0) \
AND coalesce(l.transactionid::text, '') = coalesce(c.transactionid::text, '') \
AND coalesce(l.virtualxid, '') = coalesce(c.virtualxid, '') AND l.database IS NOT DISTINCT FROM c.database \
AND l.page IS NOT DISTINCT FROM c.page AND l.tuple IS NOT DISTINCT FROM c.tuple \
AND l.classid IS NOT DISTINCT FROM c.classid AND l.objsubid IS NOT DISTINCT FROM c.objsubid \
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid \
LEFT JOIN prepared p ON l.pid IS NULL AND p.virtualtransaction = l.virtualtransaction";

/// How many locks there are, in the columns that [`counts`] reads: the last row has no mode, but how many things are locked in the shared
/// table, and for how many it has room. Tuples and pages of one relation are one thing here: few are locked at a time.
//= pg18 runtime-config-locks#GUC-MAX-LOCKS-PER-TRANSACTION
pub const COUNTS: &str = "\
WITH locks AS MATERIALIZED (SELECT mode, granted, fastpath, locktype, database, relation, objid, transactionid, count(*) AS n \
FROM pg_catalog.pg_locks GROUP BY 1, 2, 3, 4, 5, 6, 7, 8) \
SELECT mode, granted, sum(n), coalesce(sum(n) FILTER (WHERE fastpath), 0) FROM locks GROUP BY mode, granted \
UNION ALL SELECT NULL, NULL, (SELECT count(*) FROM (SELECT DISTINCT locktype, database, relation, objid, transactionid \
FROM locks WHERE NOT fastpath AND mode <> 'SIReadLock') objects), \
pg_catalog.current_setting('max_locks_per_transaction')::bigint * (pg_catalog.current_setting('max_connections')::bigint \
+ pg_catalog.current_setting('max_prepared_transactions')::bigint)";

/// How many locks there are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By mode, in PostgreSQL's words: those of predicates (`SIReadLock`) too.
    pub held: BTreeMap<Arc<str>, u64>,
    pub waiting: u64,
    /// Of those that are held, so many cost no room in the shared table.
    pub fast_path: u64,
    /// Things that are locked in the shared table.
    pub objects: u64,
    /// For so many things the table has room at least, and for twice as many locks of one backend on one thing. 0: it is not known.
    pub room: u64,
}

impl Counts {
    /// Locks that are in the shared table, held and waited for; those of predicates have a table of their own.
    #[must_use]
    pub fn in_table(&self) -> u64 {
        let held = self.held.iter().filter(|(mode, _)| &***mode != "SIReadLock").map(|(_, count)| count);
        held.sum::<u64>().saturating_add(self.waiting).saturating_sub(self.fast_path)
    }
}

/// The rows of [`ACTIVITY`] One that is not as it should be is left out.
#[must_use]
pub fn backends(rows: &[Row]) -> Vec<Backend> {
    rows.iter().filter_map(|row| backend(row)).collect()
}

/// The rows of [`LOCKS`]. One that is not as it should be is left out, as are locks that nobody waits for (of predicates).
#[must_use]
pub fn locks(rows: &[Row]) -> Vec<Lock> {
    rows.iter().filter_map(|row| lock(row)).collect()
}

/// The prepared transactions that hold the locks in the rows of [`LOCKS`], by the ids that [`Lock::pid`] has for them.
#[must_use]
pub fn prepared(rows: &[Row]) -> BTreeMap<i32, Prepared> {
    let one = |row: &Row| {
        let [pid, .., gid, owner, database, age_ms] = row.as_slice() else { return None };
        let word = |word: &Option<String>| word.clone().unwrap_or_default();
        let age = age(age_ms).unwrap_or_default();
        Some((number(pid)?, Prepared { gid: gid.clone()?, owner: word(owner), database: word(database), age }))
    };
    rows.iter().filter_map(one).collect()
}

/// The rows of [`COUNTS`]. One that is not as it should be is left out.
#[must_use]
pub fn counts(rows: &[Row]) -> Counts {
    let mut counts = Counts::default();
    for row in rows {
        let [mode, granted, count, fast_path] = row.as_slice() else { continue };
        let count = number(count).unwrap_or(0);
        let (Some(mode), Some(granted)) = (mode, granted) else {
            (counts.objects, counts.room) = (count, number(fast_path).unwrap_or(0));
            continue;
        };
        if granted == "t" {
            *counts.held.entry(mode.as_str().into()).or_default() += count;
        } else {
            counts.waiting += count;
        }
        counts.fast_path += number::<u64>(fast_path).unwrap_or(0);
    }
    counts
}

fn backend(row: &[Option<String>]) -> Option<Backend> {
    let [
        pid,
        kind,
        database,
        user,
        application_name,
        client_addr,
        state,
        class,
        event,
        backend,
        transaction,
        query_age,
        in_state,
        xmin_age,
        query_id,
        query,
    ] = row
    else {
        return None;
    };
    let wait = class.as_ref().zip(event.as_ref());
    Some(Backend {
        pid: number(pid)?,
        kind: kind.clone(),
        database: database.clone(),
        user: user.clone(),
        application_name: application_name.clone(),
        client_addr: client_addr.clone(),
        state: state.as_deref().map(State::of),
        wait: wait.map(|(class, event)| WaitEvent { class: class.clone(), event: event.clone() }),
        ages: Ages {
            backend: age(backend),
            transaction: age(transaction),
            query: age(query_age),
            state: age(in_state),
        },
        xmin_age: number(xmin_age),
        query_id: number(query_id),
        query: query.clone(),
        usage: None,
    })
}

fn lock(row: &[Option<String>]) -> Option<Lock> {
    let [pid, leader_pid, kind, key, name, mode, granted, waiting, ..] = row else { return None };
    let is_held = granted.as_deref()? == "t";
    Some(Lock {
        pid: number(pid)?,
        leader_pid: number(leader_pid),
        object: Object {
            kind: kind.as_deref()?.into(),
            key: key.as_deref()?.into(),
            name: name.as_deref().map(Into::into),
        },
        mode: LockMode::of(mode.as_deref()?)?,
        waiting: if is_held { None } else { Some(age(waiting).unwrap_or_default()) },
    })
}

fn number<T: std::str::FromStr>(value: &Option<String>) -> Option<T> {
    value.as_ref()?.parse().ok()
}

/// A clock that was set back makes it negative for a while.
fn age(ms: &Option<String>) -> Option<Duration> {
    let ms: i64 = number(ms)?;
    Some(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(values: &[&str]) -> Row {
        values.iter().map(|value| (*value != "-").then(|| (*value).to_owned())).collect()
    }

    #[test]
    fn a_backend_is_read_with_all_that_it_says() {
        let rows = [row(&[
            "407",
            "client backend",
            "shop",
            "app",
            "rails",
            "10.0.0.7",
            "idle in transaction (aborted)",
            "Client",
            "ClientRead",
            "60000",
            "5000",
            "4000",
            "-3",
            "1207",
            "-8291",
            "SELECT 1 /*controller:carts*/",
        ])];
        let found = backends(&rows);
        let [backend] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (backend.pid, backend.state, backend.xmin_age),
            (407, Some(State::IdleInFailedTransaction), Some(1207))
        );
        let wait = backend.wait.as_ref().expect("it waits");
        assert_eq!((wait.class.as_str(), wait.event.as_str()), ("Client", "ClientRead"));
        assert_eq!(backend.ages.transaction, Some(Duration::from_secs(5)));
        assert_eq!(backend.ages.state, Some(Duration::ZERO), "the clock was set back");
        assert_eq!(backend.query_id, Some(-8291));
    }

    /// Of another role's backend, without pg_monitor.
    #[test]
    fn what_is_not_told_is_none() {
        let hidden = row(&[
            "9",
            "-",
            "shop",
            "other",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "-",
            "<insufficient privilege>",
        ]);
        let found = backends(&[hidden, row(&["not a row"]), row(&["x"; 16])]);
        let [backend] = &found[..] else { panic!("{found:?}") };
        assert_eq!((backend.pid, backend.state, backend.wait.as_ref()), (9, None, None));
        assert_eq!(backend.ages, Ages::default());
    }

    #[test]
    fn locks_are_counted_by_mode() {
        let rows = [
            row(&["AccessShareLock", "t", "7", "5"]),
            row(&["AccessShareLock", "f", "2", "0"]),
            row(&["SIReadLock", "t", "1", "0"]),
            row(&["-", "-", "3", "6400"]),
            row(&["no row of counts"]),
        ];
        let found = counts(&rows);
        assert_eq!((found.waiting, found.fast_path), (2, 5));
        assert_eq!((found.objects, found.room, found.in_table()), (3, 6400, 4));
        assert_eq!(found.held, [("AccessShareLock".into(), 7), ("SIReadLock".into(), 1)].into());
    }

    #[test]
    fn two_prepared_transactions_are_told_apart() {
        let lock = |pid: &str, gid: &str| {
            let object = ["-", "relation", "(5,16384,,,,,,,)", "orders"];
            row(&[&[pid][..], &object, &["AccessExclusiveLock", "t", "0", gid, "payer", "shop", "614504"]].concat())
        };
        let rows = [lock("-725", "first"), lock("-727", "second"), lock("407", "-"), row(&["not a row"])];
        let found = prepared(&rows);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), [-727, -725]);
        let [owner, database] = ["payer", "shop"].map(str::to_owned);
        let first = Prepared { gid: "first".to_owned(), owner, database, age: Duration::from_millis(614_504) };
        assert_eq!(found[&-725], first);
        assert_eq!(locks(&rows).len(), 3);
    }

    #[test]
    fn a_lock_is_held_or_waited_for() {
        let rows = [
            row(&["1", "-", "relation", "(5,16384,,,,,,,)", "orders", "ShareLock", "t", "0"]),
            row(&["2", "1", "relation", "(5,16384,,,,,,,)", "orders", "RowExclusiveLock", "f", "2500"]),
            row(&["3", "-", "relation", "(5,16384,,,,,,,)", "orders", "SIReadLock", "t", "0"]),
        ];
        let found = locks(&rows);
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].mode, found[0].waiting, found[0].leader_pid), (LockMode::Share, None, None));
        assert_eq!((found[1].leader_pid, found[1].waiting), (Some(1), Some(Duration::from_millis(2500))));
        assert_eq!(found[0].object, found[1].object);
    }
}
