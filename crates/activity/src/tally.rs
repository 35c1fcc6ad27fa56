//! A moment in numbers, for whoever keeps them over time: by PostgreSQL server, and by pool. None is of a single client.
//!
//! Classes of wait events are those that PostgreSQL has today; one of a later version is [`OTHER`], so that there is a bound.

use std::collections::BTreeMap;
use std::time::Duration;

use observe::State;
use units::PoolKey;

use crate::holders::{Reason, holders};
use crate::moment::{CPU, Moment, POOL_WAIT, Row};
use crate::tree::tree;

/// All classes of wait events: PostgreSQL's, and ours for what has none.
//= pg18 monitoring-stats#WAIT-EVENT-TABLE
pub const WAIT_CLASSES: [&str; 13] = [
    "Activity",
    "BufferPin",
    CPU.0,
    "Client",
    "Extension",
    "IO",
    "IPC",
    "InjectionPoint",
    "LWLock",
    "Lock",
    POOL_WAIT.0,
    "Timeout",
    OTHER,
];

/// A class that is not known.
pub const OTHER: &str = "other";

/// The class as one of [`WAIT_CLASSES`].
#[must_use]
pub fn wait_class(class: &str) -> &'static str {
    WAIT_CLASSES.into_iter().find(|known| *known == class).unwrap_or(OTHER)
}

/// One moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Sessions and backends by class of wait event; those that wait for a server are all counted.
    pub waits: BTreeMap<&'static str, u64>,
    /// In the order of [`Moment::hosts`].
    pub servers: Vec<ServerTally>,
    pub holders: BTreeMap<(PoolKey, Reason), HolderTally>,
}

/// One PostgreSQL server.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerTally {
    /// Clients of the pooler that wait for a lock.
    pub blocked_clients: u32,
    /// All backends that do.
    pub blocked: u32,
    /// Those who are in somebody's way and wait for no lock themselves.
    pub blockers: u32,
    /// How many stand one behind the other, at most; without the first.
    pub depth: u32,
    /// The longest wait for a lock.
    pub lock_wait: Duration,
    /// For how long a blocker has said nothing in its transaction.
    pub idle_blocker: Duration,
    pub ages: OldestAges,
}

/// The oldest of each. Zero: there is none.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct OldestAges {
    /// Of clients' backends, as the next two.
    pub transaction: Duration,
    pub idle_in_transaction: Duration,
    pub query: Duration,
    /// In transactions. Of all but autovacuum, which holds up nobody's vacuum.
    pub xmin: u32,
}

/// The sessions of a pool that have its servers for one reason.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct HolderTally {
    pub count: u32,
    /// The longest.
    pub held: Duration,
}

impl Tally {
    #[must_use]
    pub fn of(moment: &Moment) -> Tally {
        let mut tally = Tally { servers: vec![ServerTally::default(); moment.hosts.len()], ..Tally::default() };
        for row in &moment.rows {
            tally.add(row);
        }
        // Most of those who wait for a server have no row.
        let waiting: u64 = moment.pools.values().map(|pool| u64::from(pool.waiting)).sum();
        let in_pool = tally.waits.entry(POOL_WAIT.0).or_default();
        *in_pool = waiting.max(*in_pool);
        for branch in tree(moment) {
            let server = &mut tally.servers[usize::from(branch.host)];
            server.blockers += u32::from(branch.depth == 0 && branch.waits.is_none());
            server.depth = server.depth.max(u32::try_from(branch.depth).unwrap_or(u32::MAX));
        }
        for holder in holders(moment) {
            let sum = tally.holders.entry((holder.pool.clone(), holder.reason)).or_default();
            sum.count += 1;
            sum.held = sum.held.max(holder.held);
        }
        tally
    }

    fn add(&mut self, row: &Row) {
        if let Some((class, _)) = row.wait() {
            *self.waits.entry(wait_class(class)).or_default() += 1;
        }
        let (Some(host), Some(backend)) = (row.host, &row.backend) else { return };
        let server = &mut self.servers[usize::from(host)];
        if let Some(waiter) = &row.waiter {
            server.blocked += 1;
            server.blocked_clients += u32::from(row.session.is_some());
            server.lock_wait = server.lock_wait.max(waiter.waiting);
        }
        let ages = &mut server.ages;
        if backend.kind.as_deref() != Some("autovacuum worker") {
            ages.xmin = ages.xmin.max(backend.xmin_age.unwrap_or(0));
        }
        if backend.kind.as_deref().is_some_and(|kind| kind != "client backend") {
            return;
        }
        ages.transaction = ages.transaction.max(backend.ages.transaction.unwrap_or_default());
        match backend.state {
            Some(State::Active | State::FastpathFunctionCall) => {
                ages.query = ages.query.max(backend.ages.query.unwrap_or_default());
            }
            Some(state) if state.is_idle_in_transaction() => {
                let idle = backend.ages.state.unwrap_or_default();
                ages.idle_in_transaction = ages.idle_in_transaction.max(idle);
                if row.behind > 0 {
                    server.idle_blocker = server.idle_blocker.max(idle);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use observe::{Ages, Backend, Blocking, Lock, LockMode, Object, WaitEvent};

    use super::*;
    use crate::moment::{Host, Origin, Pool};
    use crate::tags::Tags;

    fn lock(pid: i32, mode: LockMode, waiting: Option<u64>) -> Lock {
        let object = Object { kind: "relation".into(), key: "1".into(), name: None };
        Lock { pid, leader_pid: None, object, mode, waiting: waiting.map(Duration::from_secs) }
    }

    fn row(pid: i32, kind: &str, state: State, wait: Option<(&str, &str)>, blocking: &Blocking) -> Row {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let age = u64::try_from(pid).expect("a pid");
        let backend = Backend {
            pid,
            kind: Some(kind.to_owned()),
            state: Some(state),
            wait: wait.map(|(class, event)| WaitEvent { class: class.to_owned(), event: event.to_owned() }),
            ages: Ages { transaction: seconds(age * 10), query: seconds(age * 5), state: seconds(age), backend: None },
            xmin_age: u32::try_from(pid * 100).ok(),
            ..Backend::default()
        };
        let (waiter, behind) = (blocking.waiter(pid).cloned(), blocking.count_behind(pid));
        let (host, backend) = (Some(0), Some(Arc::new(backend)));
        Row { host, backend, session: None, origin: Origin::Stranger, tags: Tags::default(), waiter, behind }
    }

    #[test]
    fn a_moment_in_numbers() {
        let blocking = Blocking::of(&[
            lock(1, LockMode::AccessShare, None),
            lock(2, LockMode::AccessExclusive, Some(9)),
            lock(3, LockMode::AccessShare, Some(4)),
            lock(4, LockMode::AccessShare, Some(3)),
        ]);
        let client = "client backend";
        let relation = Some(("Lock", "relation"));
        let rows = vec![
            row(1, client, State::IdleInTransaction, Some(("Client", "ClientRead")), &blocking),
            row(2, client, State::Active, relation, &blocking),
            row(3, client, State::Active, relation, &blocking),
            row(4, client, State::Active, None, &blocking),
            row(5, client, State::IdleInFailedTransaction, Some(("Client", "ClientRead")), &blocking),
            row(6, "walsender", State::Active, Some(("Tomorrow", "New")), &blocking),
            row(7, "autovacuum worker", State::Active, Some(("IO", "DataFileRead")), &blocking),
            // These have nothing to do.
            row(8, "walsender", State::Active, Some(("Activity", "WalSenderMain")), &blocking),
            row(9, "walsender", State::Active, Some(("Client", "WalSenderWaitForWAL")), &blocking),
        ];
        let pool = Pool { waiting: 40, ..Pool::default() };
        let pools = [(PoolKey { database: "shop".into(), user: "app".into() }, pool)].into();
        let hosts = vec![Host { blocking, ..Host::default() }, Host::default()];
        let tally = Tally::of(&Moment { hosts, rows, pools, ..Moment::default() });
        let waits = [("CPU", 1), ("Client", 2), ("IO", 1), ("Lock", 2), ("Pool", 40), (OTHER, 1)];
        assert_eq!(tally.waits, waits.into());
        let seconds = Duration::from_secs;
        let ages =
            OldestAges { transaction: seconds(50), idle_in_transaction: seconds(5), query: seconds(20), xmin: 900 };
        let expected = ServerTally {
            blocked_clients: 0,
            blocked: 3,
            blockers: 1,
            depth: 2,
            lock_wait: seconds(9),
            idle_blocker: seconds(1),
            ages,
        };
        assert_eq!(tally.servers, [expected, ServerTally::default()]);
        assert!(tally.holders.is_empty(), "strangers hold no server of a pool");
    }
}
