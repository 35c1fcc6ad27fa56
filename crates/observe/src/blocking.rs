//! Who waits behind whom, from one reading of pg_locks.
//!
//! A backend waits behind those that hold a conflicting mode, and behind those that have waited for a conflicting mode for longer: a
//! queue of PostgreSQL's is served in order, so an `ALTER TABLE` that waits for a report stops all readers behind it.
//= pg18 functions-info#FUNCTIONS-INFO-SESSION
//!
//! ```text
//!   312  idle in transaction          holds AccessShareLock on orders
//!   └─ 407  ALTER TABLE …             waits for AccessExclusiveLock
//!      ├─ 511  SELECT …               waits for AccessShareLock, behind 407 in the queue
//!      └─ 512  SELECT …
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::lock::{Lock, LockMode, Object};

/// All backends that wait for a lock, by pid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocking(BTreeMap<i32, Waiter>);

/// A backend that waits for a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    pub object: Object,
    pub mode: LockMode,
    pub waiting: Duration,
    /// By pid. Empty: the lock was given up between the rows of the reading.
    pub blockers: Vec<Blocker>,
}

/// One of those who are in a waiter's way.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Blocker {
    pub pid: i32,
    /// The strongest mode of its that is in the way.
    pub mode: LockMode,
    /// It does not have it yet: it is before the waiter in the queue.
    pub waits_too: bool,
}

impl Blocking {
    /// `locks`: held and waited for, of all objects that somebody waits for.
    #[must_use]
    pub fn of(locks: &[Lock]) -> Blocking {
        let mut by_object: BTreeMap<(&str, &str), Vec<&Lock>> = BTreeMap::new();
        for lock in locks {
            by_object.entry((&lock.object.kind, &lock.object.key)).or_default().push(lock);
        }
        let mut waiters = BTreeMap::new();
        for locks in by_object.values() {
            for lock in locks {
                let Some(waiting) = lock.waiting else { continue };
                let blockers = blockers(lock, waiting, locks);
                let waiter = Waiter { object: lock.object.clone(), mode: lock.mode, waiting, blockers };
                waiters.insert(lock.pid, waiter);
            }
        }
        Blocking(waiters)
    }

    #[must_use]
    pub fn waiter(&self, pid: i32) -> Option<&Waiter> {
        self.0.get(&pid)
    }

    /// All who wait, by pid.
    pub fn waiters(&self) -> impl Iterator<Item = (i32, &Waiter)> {
        self.0.iter().map(|(pid, waiter)| (*pid, waiter))
    }

    /// Those who are in somebody's way and wait for no lock themselves: the ends of all chains, by pid. In a deadlock there is none.
    #[must_use]
    pub fn roots(&self) -> BTreeSet<i32> {
        let blockers = self.0.values().flat_map(|waiter| &waiter.blockers);
        blockers.map(|blocker| blocker.pid).filter(|pid| !self.0.contains_key(pid)).collect()
    }

    /// Who waits directly behind a backend, by pid.
    pub fn behind(&self, pid: i32) -> impl Iterator<Item = i32> {
        let is_behind = move |waiter: &Waiter| waiter.blockers.iter().any(|blocker| blocker.pid == pid);
        self.0.iter().filter(move |(_, waiter)| is_behind(waiter)).map(|(waiting, _)| *waiting)
    }

    /// How many wait behind a backend, directly or through others.
    #[must_use]
    pub fn count_behind(&self, pid: i32) -> usize {
        let (mut seen, mut left) = (BTreeSet::from([pid]), vec![pid]);
        while let Some(next) = left.pop() {
            left.extend(self.behind(next).filter(|pid| seen.insert(*pid)));
        }
        seen.len() - 1
    }
}

fn blockers(waiter: &Lock, waiting: Duration, of_object: &[&Lock]) -> Vec<Blocker> {
    let mut found: BTreeMap<i32, Blocker> = BTreeMap::new();
    for other in of_object.iter().filter(|other| group(other) != group(waiter)) {
        let waits_too = other.waiting.is_some();
        let is_before = other.waiting.is_none_or(|other| other > waiting);
        if !is_before || !other.mode.conflicts_with(waiter.mode) {
            continue;
        }
        let blocker = Blocker { pid: other.pid, mode: other.mode, waits_too };
        let known = found.entry(other.pid).or_insert(blocker);
        // What it has counts more than what it waits for, and then the stronger mode.
        let rank = |blocker: &Blocker| (!blocker.waits_too, blocker.mode);
        if rank(&blocker) > rank(known) {
            *known = blocker;
        }
    }
    found.into_values().collect()
}

/// Parallel workers and their leader never wait for each other.
fn group(lock: &Lock) -> i32 {
    lock.leader_pid.unwrap_or(lock.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `pid mode` of one that holds, `pid mode ms` of one that waits, all for one table.
    fn blocking(locks: &[&str]) -> Blocking {
        let object = Object { kind: "relation".into(), key: "5/1259".into(), name: Some("orders".into()) };
        let lock = |text: &&str| {
            let mut words = text.split(' ');
            let pid = words.next().and_then(|pid| pid.parse().ok()).expect("a pid");
            let mode = words.next().and_then(|mode| LockMode::of(&format!("{mode}Lock"))).expect("a mode");
            let waiting = words.next().map(|ms| Duration::from_millis(ms.parse().expect("a number")));
            Lock { pid, leader_pid: None, object: object.clone(), mode, waiting }
        };
        Blocking::of(&locks.iter().map(lock).collect::<Vec<_>>())
    }

    fn pids(blocking: &Blocking, pid: i32) -> Vec<i32> {
        blocking.waiter(pid).expect("it waits").blockers.iter().map(|blocker| blocker.pid).collect()
    }

    #[test]
    fn readers_wait_behind_the_ddl_that_waits_for_a_report() {
        let found = blocking(&[
            "312 AccessShare",
            "407 AccessExclusive 9000",
            "511 AccessShare 5000",
            "512 AccessShare 4000",
            "513 RowExclusive 4000",
        ]);
        assert_eq!(pids(&found, 407), [312]);
        for pid in [511, 512, 513] {
            assert_eq!(pids(&found, pid), [407], "{pid}: a reader is in no reader's way, nor in a writer's");
        }
        let waiter = found.waiter(511).expect("it waits");
        assert_eq!(waiter.blockers, [Blocker { pid: 407, mode: LockMode::AccessExclusive, waits_too: true }]);
        assert_eq!(found.roots(), BTreeSet::from([312]));
        assert_eq!((found.count_behind(312), found.count_behind(407), found.count_behind(511)), (4, 3, 0));
        assert_eq!(found.behind(407).collect::<Vec<_>>(), [511, 512, 513]);
        assert_eq!(found.waiters().count(), 4);
    }

    #[test]
    fn what_a_backend_has_counts_more_than_what_it_waits_for() {
        let found = blocking(&["1 RowExclusive", "1 AccessExclusive 9000", "2 RowShare", "3 Share 1000"]);
        let waiter = found.waiter(3).expect("it waits");
        assert_eq!(waiter.blockers, [Blocker { pid: 1, mode: LockMode::RowExclusive, waits_too: false }]);
    }

    #[test]
    fn parallel_workers_are_in_nobodys_way_of_their_own() {
        let object = Object { kind: "extend".into(), key: "5/1".into(), name: None };
        let lock = |pid, leader_pid, waiting: Option<u64>| Lock {
            pid,
            leader_pid,
            object: object.clone(),
            mode: LockMode::Exclusive,
            waiting: waiting.map(Duration::from_millis),
        };
        let found = Blocking::of(&[lock(1, None, None), lock(2, Some(1), Some(5)), lock(3, None, Some(4))]);
        assert_eq!(pids(&found, 2), [] as [i32; 0]);
        assert_eq!(pids(&found, 3), [1, 2]);
    }

    #[test]
    fn a_deadlock_has_no_root_and_is_counted_to_its_end() {
        let of = |key: &str, pid, waiting: Option<u64>| Lock {
            pid,
            leader_pid: None,
            object: Object { kind: "transactionid".into(), key: key.into(), name: None },
            mode: if waiting.is_some() { LockMode::Share } else { LockMode::Exclusive },
            waiting: waiting.map(Duration::from_millis),
        };
        let found = Blocking::of(&[of("7", 1, None), of("8", 2, None), of("8", 1, Some(10)), of("7", 2, Some(9))]);
        assert_eq!((pids(&found, 1), pids(&found, 2)), (vec![2], vec![1]));
        assert!(found.roots().is_empty());
        assert_eq!(found.count_behind(1), 1);
    }
}
