//! Who waits behind whom, from one reading of pg_locks.
//!
//! A backend waits behind those that hold a conflicting mode, and behind those that have waited for a conflicting mode for longer: a
//! queue of PostgreSQL's is served in order, so an `ALTER TABLE` that waits for a report stops all readers behind it. The locks of a parallel
//! query's workers are those of their leader, as in `pg_blocking_pids`: the leader is what a client has, and what can be ended.
//= pg18 functions-info#FUNCTIONS-INFO-SESSION
//!
//! ```text
//!   312  idle in transaction          holds AccessShareLock on orders
//!   └─ 407  ALTER TABLE …             waits for AccessExclusiveLock
//!      ├─ 511  SELECT …               waits for AccessShareLock, behind 407 in the queue
//!      └─ 512  SELECT …
//! ```

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::lock::{Lock, LockMode, Object};

/// Of those who wait before a waiter, at most so many are kept, those that have waited longest; of those who hold what it wants, so many more.
/// Thousands that wait for one row are thousands in each other's way.
const BEFORE_MAX: usize = 32;
const HOLDERS_MAX: usize = 1024;

/// All backends that wait for a lock, by pid.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocking {
    waiters: BTreeMap<i32, Waiter>,
    /// Of everybody who is in somebody's way.
    behind: BTreeMap<i32, Behind>,
}

/// Who waits behind one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Behind {
    /// By pid.
    directly: Vec<i32>,
    /// How many in all, through others too.
    count: usize,
}

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
        for locks in by_object.values_mut() {
            locks.sort_by_key(|lock| (lock.waiting.is_some(), Reverse(lock.waiting)));
            for lock in locks.iter() {
                let Some(waiting) = lock.waiting else { continue };
                let blockers = blockers(lock, waiting, locks);
                let waiter = Waiter { object: lock.object.clone(), mode: lock.mode, waiting, blockers };
                let known = waiters.entry(group(lock)).or_insert_with(|| waiter.clone());
                if known.waiting < waiting {
                    *known = waiter;
                }
            }
        }
        let behind = behind(&waiters);
        Blocking { waiters, behind }
    }

    #[must_use]
    pub fn waiter(&self, pid: i32) -> Option<&Waiter> {
        self.waiters.get(&pid)
    }

    /// All who wait, by pid.
    pub fn waiters(&self) -> impl Iterator<Item = (i32, &Waiter)> {
        self.waiters.iter().map(|(pid, waiter)| (*pid, waiter))
    }

    /// Those who are in somebody's way and wait for no lock themselves: the ends of all chains, by pid. In a deadlock there is none.
    #[must_use]
    pub fn roots(&self) -> BTreeSet<i32> {
        self.behind.keys().copied().filter(|pid| !self.waiters.contains_key(pid)).collect()
    }

    /// Who waits directly behind a backend, by pid.
    pub fn behind(&self, pid: i32) -> impl Iterator<Item = i32> {
        self.behind.get(&pid).into_iter().flat_map(|behind| &behind.directly).copied()
    }

    /// How many wait behind a backend, directly or through others.
    #[must_use]
    pub fn count_behind(&self, pid: i32) -> usize {
        self.behind.get(&pid).map_or(0, |behind| behind.count)
    }
}

/// Everybody who is in somebody's way, with those behind.
fn behind(waiters: &BTreeMap<i32, Waiter>) -> BTreeMap<i32, Behind> {
    let mut behind: BTreeMap<i32, Behind> = BTreeMap::new();
    for (pid, waiter) in waiters {
        for blocker in &waiter.blockers {
            behind.entry(blocker.pid).or_default().directly.push(*pid);
        }
    }
    // A bit for each waiter. Sets only grow, so this ends; in a queue two rounds do, a deadlock takes some more.
    let place: BTreeMap<i32, usize> = waiters.keys().enumerate().map(|(place, pid)| (*pid, place)).collect();
    let mut sets: BTreeMap<i32, Vec<u64>> =
        behind.keys().map(|pid| (*pid, vec![0; waiters.len().div_ceil(64)])).collect();
    // Those that came last first: they are in the way of few.
    let mut order: Vec<i32> = behind.keys().copied().collect();
    order.sort_by_key(|pid| waiters.get(pid).map_or(Duration::MAX, |waiter| waiter.waiting));
    while order.iter().filter(|pid| grow(**pid, &behind[*pid].directly, &place, &mut sets)).count() > 0 {}
    for (pid, behind) in &mut behind {
        let own = place.get(pid).is_some_and(|place| sets[pid][place / 64] & (1 << (place % 64)) != 0);
        let all: usize = sets[pid].iter().map(|word| word.count_ones() as usize).sum();
        // In a deadlock it waits behind itself.
        behind.count = all - usize::from(own);
    }
    behind
}

/// Adds those directly behind it, and those behind them. Whether any was not there yet.
fn grow(pid: i32, directly: &[i32], place: &BTreeMap<i32, usize>, sets: &mut BTreeMap<i32, Vec<u64>>) -> bool {
    let mut set = sets.remove(&pid).expect("everybody in the way has one");
    let before: u32 = set.iter().map(|word| word.count_ones()).sum();
    for next in directly {
        let place = place[next];
        set[place / 64] |= 1 << (place % 64);
        let theirs = sets.get(next).into_iter().flatten();
        set.iter_mut().zip(theirs).for_each(|(word, more)| *word |= more);
    }
    let after: u32 = set.iter().map(|word| word.count_ones()).sum();
    sets.insert(pid, set);
    after > before
}

/// `of_object`: those that hold first, then by how long they have waited.
fn blockers(waiter: &Lock, waiting: Duration, of_object: &[&Lock]) -> Vec<Blocker> {
    let mut found: BTreeMap<i32, Blocker> = BTreeMap::new();
    let (mut holders, mut before) = (0, 0);
    for other in of_object.iter().filter(|other| group(other) != group(waiter)) {
        let waits_too = other.waiting.is_some();
        let is_before = other.waiting.is_none_or(|other| other > waiting);
        if !is_before || before == BEFORE_MAX {
            break;
        }
        if !other.mode.conflicts_with(waiter.mode) || (!waits_too && holders == HOLDERS_MAX) {
            continue;
        }
        let blocker = Blocker { pid: group(other), mode: other.mode, waits_too };
        let known = found.entry(blocker.pid).or_insert_with(|| {
            (holders, before) = (holders + usize::from(!waits_too), before + usize::from(waits_too));
            blocker
        });
        // What it has counts more than what it waits for, and then the stronger mode.
        let rank = |blocker: &Blocker| (!blocker.waits_too, blocker.mode);
        if rank(&blocker) > rank(known) {
            *known = blocker;
        }
    }
    found.into_values().collect()
}

/// The pid of its leader for a parallel worker, otherwise its own. Those of one group never wait for each other.
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
    fn parallel_workers_wait_and_block_as_their_leader() {
        let object = Object { kind: "extend".into(), key: "5/1".into(), name: None };
        let lock = |pid, leader_pid, waiting: Option<u64>| Lock {
            pid,
            leader_pid,
            object: object.clone(),
            mode: LockMode::Exclusive,
            waiting: waiting.map(Duration::from_millis),
        };
        // Workers 2 and 5 of leader 1; what the leader itself has is not in its workers' way.
        let locks = [lock(1, None, None), lock(2, Some(1), Some(5)), lock(3, None, Some(4)), lock(5, Some(1), Some(7))];
        let found = Blocking::of(&locks);
        assert_eq!(pids(&found, 1), [] as [i32; 0]);
        assert_eq!(pids(&found, 3), [1]);
        assert_eq!(
            found.waiters().map(|(pid, waiter)| (pid, waiter.waiting.as_millis())).collect::<Vec<_>>(),
            [(1, 7), (3, 4)]
        );
        assert_eq!(found.roots().into_iter().collect::<Vec<_>>(), [] as [i32; 0]);
    }

    /// Each of 4,000 who want one row waits for who has it, and behind all who came before.
    #[test]
    fn thousands_who_wait_for_one_row_are_counted_and_take_little() {
        let mut locks = vec!["1 Exclusive".to_owned()];
        locks.extend((2..4002).map(|pid| format!("{pid} Exclusive {}", 10_000 - pid)));
        let found = blocking(&locks.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!((found.count_behind(1), found.count_behind(2), found.count_behind(4001)), (4000, 3999, 0));
        assert_eq!(found.waiters().map(|(_, waiter)| waiter.blockers.len()).max(), Some(BEFORE_MAX + 1));
        assert_eq!(found.waiter(4001).and_then(|waiter| waiter.blockers.get(1)).map(|blocker| blocker.pid), Some(2));
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
