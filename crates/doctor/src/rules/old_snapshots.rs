//! What keeps dead rows from being removed: old transactions, prepared ones, replication slots, standbys.

use observe::{Backend, State};

use super::{first, named, statement};
use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::postgres::Postgres;
use crate::words::{literal, number, span};

/// Where no time is told, so many transactions are long ago.
const TRANSACTIONS: u64 = 1_000_000;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let postgres = facts.postgres.as_ref()?;
    let mut holders = backends(facts, postgres);
    holders.extend(others(facts, postgres));
    if holders.is_empty() {
        return None;
    }
    let dead: u64 = postgres.tables.iter().map(|table| table.dead).sum();
    let is_much = holders.iter().any(|holder| holder.age >= TRANSACTIONS);
    let mend = holders.iter().take(super::NAMED_MAX).map(|holder| holder.mend.clone()).collect();
    Some(Finding {
        rule: "old-snapshots",
        weight: if is_much { Weight::Critical } else { Weight::Warning },
        title: "dead rows cannot be removed: old snapshots are held".to_owned(),
        evidence: first(holders.into_iter().map(|holder| holder.line)),
        reason: format!(
            "VACUUM removes no row that died after the oldest snapshot was taken, in any table: tables and indexes grow, and queries read what is \
             dead. {} dead rows are there now.",
            number(dead)
        ),
        source: "PostgreSQL manual, Recovering Disk Space",
        mend,
    })
}

struct Holder {
    line: String,
    mend: String,
    /// In transactions.
    age: u64,
}

/// Those that are idle in transaction are here too if they have a snapshot.
fn backends(facts: &Facts, postgres: &Postgres) -> Vec<Holder> {
    let is_old = |backend: &&Backend| {
        backend.xmin_age.is_some() && backend.ages.transaction.is_some_and(|age| age >= facts.asked.long)
    };
    // A standby's is told by its own row; autovacuum's own snapshot holds nobody up.
    let is_other = |backend: &&Backend| !matches!(backend.kind.as_deref(), Some("walsender" | "autovacuum worker"));
    let holds = |backend: &&Backend| !postgres.snapshots.vacuums.contains(&backend.pid) && !is_vacuum(backend);
    let mut old: Vec<&Backend> = postgres.backends.iter().filter(is_old).filter(is_other).filter(holds).collect();
    old.sort_by_key(|backend| std::cmp::Reverse(backend.xmin_age));
    let holder = |backend: &Backend| {
        let age = backend.xmin_age.unwrap_or_default();
        let time = span(backend.ages.transaction.unwrap_or_default());
        Holder {
            line: format!(
                "{}: a transaction of {time}, {} transactions behind{}",
                named(backend),
                number(age.into()),
                statement(backend)
            ),
            mend: match postgres.blocking.waiter(backend.pid) {
                Some(_) => format!("-- pid {} waits for a lock itself: see lock-waits", backend.pid),
                None => format!("SELECT pg_terminate_backend({});", backend.pid),
            },
            age: age.into(),
        }
    };
    old.into_iter().map(holder).collect()
}

/// Whether it runs a VACUUM that rewrites no table, by its text: PostgreSQL shows a snapshot of it (`backend_xmin`), and heeds it nowhere. One that has
/// just begun, or is between two tables, is not among those under way.
fn is_vacuum(backend: &Backend) -> bool {
    let query = backend.query.as_deref().unwrap_or_default();
    let mut words = query.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let is_first = words.next().is_some_and(|word| word.eq_ignore_ascii_case("vacuum"));
    backend.state == Some(State::Active) && is_first && !words.any(|word| word.eq_ignore_ascii_case("full"))
}

fn others(facts: &Facts, postgres: &Postgres) -> Vec<Holder> {
    let own = &postgres.snapshots;
    let mut holders = Vec::new();
    for prepared in own.prepared.iter().filter(|prepared| prepared.age >= facts.asked.long) {
        holders.push(Holder {
            line: format!("prepared transaction {} of {}, {} old", prepared.name, prepared.owner, span(prepared.age)),
            mend: format!("ROLLBACK PREPARED {}; -- or COMMIT PREPARED", literal(&prepared.name)),
            age: 0,
        });
    }
    for (slot, age) in
        own.slots.iter().filter_map(|slot| Some((slot, slot.xmin_age?))).filter(|(_, age)| *age >= TRANSACTIONS)
    {
        let active = if slot.is_active { "in use" } else { "not in use" };
        holders.push(Holder {
            line: format!("replication slot {}, {active}, {} transactions behind", slot.name, number(age)),
            mend: format!(
                "SELECT pg_drop_replication_slot({}); -- if nobody will come back to it",
                literal(&slot.name)
            ),
            age,
        });
    }
    for standby in own.standbys.iter().filter(|standby| standby.xmin_age >= TRANSACTIONS) {
        holders.push(Holder {
            line: format!("a query on standby {}, {} transactions behind", standby.name, number(standby.xmin_age)),
            mend: "ALTER SYSTEM SET hot_standby_feedback = off; -- there; or end the query there".to_owned(),
            age: standby.xmin_age,
        });
    }
    holders
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use observe::{Blocking, Lock, LockMode, Object};

    use super::*;
    use crate::postgres::{PreparedTransaction, Slot, Standby};
    use crate::rules::example::{aged, check, postgres};

    fn behind_another(pid: i32) -> Blocking {
        let lock = |pid: i32, waiting: Option<Duration>| Lock {
            pid,
            leader_pid: None,
            object: Object { kind: "relation".into(), key: "1".into(), name: None },
            mode: LockMode::AccessExclusive,
            waiting,
        };
        Blocking::of(&[lock(pid + 1, None), lock(pid, Some(Duration::from_secs(9)))])
    }

    #[test]
    fn all_four_kinds_of_holders_are_found() {
        let backend = |seconds: u64, xmin_age: Option<u32>, kind: &'static str| {
            move |facts: &mut Facts| {
                let kind = Some(kind.to_owned());
                postgres(facts).backends.push(Backend { xmin_age, kind, ..aged(300, State::Active, seconds) });
            }
        };
        let client = "client backend";
        let runs = |query: &'static str| {
            move |facts: &mut Facts| {
                backend(9000, Some(5_000_000), client)(facts);
                postgres(facts).backends.last_mut().expect("pushed").query = Some(query.to_owned());
            }
        };
        let under_way = |facts: &mut Facts| {
            runs("/* nightly */ vacuum")(facts);
            postgres(facts).snapshots.vacuums.insert(300);
        };
        let prepared = |seconds: u64| {
            move |facts: &mut Facts| {
                let age = Duration::from_secs(seconds);
                let name = "it's".to_owned();
                postgres(facts).snapshots.prepared.push(PreparedTransaction { name, owner: String::new(), age });
            }
        };
        let slot = |xmin_age: u64| {
            move |facts: &mut Facts| {
                postgres(facts).snapshots.slots.push(Slot { xmin_age: Some(xmin_age), ..Slot::default() });
            }
        };
        let standby = |xmin_age: u64| {
            move |facts: &mut Facts| postgres(facts).snapshots.standbys.push(Standby { name: String::new(), xmin_age })
        };
        check(
            find,
            &[
                ("not yet long", &backend(299, Some(5), client), None),
                ("long", &backend(300, Some(5), client), Some(Weight::Warning)),
                ("long, and much has happened", &backend(300, Some(1_000_000), client), Some(Weight::Critical)),
                ("without a snapshot", &backend(300, None, client), None),
                ("autovacuum's", &backend(300, Some(5), "autovacuum worker"), None),
                ("a VACUUM under way", &under_way, None),
                ("a VACUUM by its text", &runs(" Vacuum (verbose) orders"), None),
                ("a VACUUM with ANALYZE", &runs("vacuum analyze;"), None),
                ("a VACUUM that rewrites", &runs("VACUUM (FULL) orders"), Some(Weight::Critical)),
                ("ANALYZE", &runs("analyze orders"), Some(Weight::Critical)),
                ("a table of that name", &runs("select from vacuum"), Some(Weight::Critical)),
                ("prepared just now", &prepared(299), None),
                ("prepared long ago", &prepared(300), Some(Weight::Warning)),
                ("a slot that is near", &slot(999_999), None),
                ("a slot that is behind", &slot(1_000_000), Some(Weight::Critical)),
                ("a standby that is near", &standby(999_999), None),
                ("a standby that is behind", &standby(1_000_000), Some(Weight::Critical)),
            ],
        );
        let mut facts = crate::rules::example::healthy();
        backend(400, Some(5), client)(&mut facts);
        assert_eq!(find(&facts).expect("found").mend, ["SELECT pg_terminate_backend(300);"]);
        postgres(&mut facts).blocking = behind_another(300);
        assert_eq!(find(&facts).expect("found").mend, ["-- pid 300 waits for a lock itself: see lock-waits"]);
        let mut facts = crate::rules::example::healthy();
        prepared(300)(&mut facts);
        assert!(find(&facts).expect("found").mend[0].starts_with("ROLLBACK PREPARED 'it''s';"));
    }
}
