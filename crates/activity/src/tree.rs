//! Who is in whose way at one host, as a tree: SHOW LOCKS, the page, top.
//!
//! ```text
//!   depth 0   312   idle in transaction, its client's tags     in the way of 3
//!   depth 1   └─ 407   ALTER TABLE orders …                    waits for AccessExclusiveLock on orders, in the way of 2
//!   depth 2      ├─ 511   SELECT …                             waits for AccessShareLock on orders
//!   depth 2      └─ 512   SELECT …
//! ```
//!
//! Who waits behind several stands once: behind the one that has what it wants, or else behind the one that has waited longest. In a deadlock
//! the tree begins with the one of its backends that has waited longest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use observe::{Blocker, Blocking, LockMode, Prepared, Waiter};

use crate::moment::{Moment, Row};
use crate::statement::{Ddl, ddl};

/// One line of the tree.
#[derive(Clone, Debug)]
pub struct Branch<'m> {
    /// Its place in [`Moment::hosts`].
    pub host: u16,
    pub pid: i32,
    pub row: Option<&'m Row>,
    /// 0: it waits for no lock.
    pub depth: usize,
    /// The one that it stands behind in the tree.
    pub behind: Option<i32>,
    pub waits: Option<&'m Waiter>,
    /// The strongest mode with which it is in the way of those directly behind it.
    pub blocks_with: Option<LockMode>,
    /// What those directly behind it wait for: the first one's.
    pub on: Option<&'m str>,
    /// The locks that it has and that others wait for, the strongest first: at most `HOLDS_MAX`. One that waits itself may have some, and it may
    /// have none of them: then it is in the way of others by its place in the queue.
    pub holds: Vec<(LockMode, &'m str)>,
    /// How many wait behind it, directly or through others.
    pub count: usize,
    /// If its statement is one that locks tables.
    pub ddl: Option<Ddl>,
}

/// Locks that are shown of one backend.
pub(crate) const HOLDS_MAX: usize = 4;

/// The trees of all hosts; the one with the most behind it first.
#[must_use]
pub fn tree(moment: &Moment) -> Vec<Branch<'_>> {
    let mut branches = Vec::new();
    for host in 0..moment.hosts.len() {
        let host = u16::try_from(host).expect("as many as there are places");
        let rows = moment.rows.iter().filter(|row| row.host == Some(host));
        let rows = rows.filter_map(|row| Some((row.pid()?, row))).collect();
        Walk { moment, host, rows, seen: BTreeSet::new(), branches: &mut branches }.all();
    }
    branches
}

impl Branch<'_> {
    /// The advice for this line. DDL: `CREATE INDEX, in the way of 234: CREATE INDEX CONCURRENTLY lets writers go on`. A prepared transaction:
    /// `ROLLBACK PREPARED 'order-7'; as app or a superuser, in database shop`.
    #[must_use]
    pub fn note(&self, moment: &Moment) -> Option<String> {
        if let Some(prepared) = moment.hosts[usize::from(self.host)].prepared.get(&self.pid) {
            let Prepared { owner, database, .. } = prepared;
            return Some(format!("{} as {owner} or a superuser, in database {database}", prepared.rollback()));
        }
        let ddl = self.ddl.as_ref()?;
        let behind = match self.count {
            0 => String::new(),
            count => format!(", in the way of {count}"),
        };
        let advice = ddl.advice.map(|advice| format!(": {advice}")).unwrap_or_default();
        Some(format!("{}{behind}{advice}", ddl.command))
    }
}

struct Walk<'m, 'b> {
    moment: &'m Moment,
    host: u16,
    /// Of this host, by pid.
    rows: BTreeMap<i32, &'m Row>,
    seen: BTreeSet<i32>,
    branches: &'b mut Vec<Branch<'m>>,
}

impl<'m> Walk<'m, '_> {
    fn blocking(&self) -> &'m Blocking {
        &self.moment.hosts[usize::from(self.host)].blocking
    }

    fn all(&mut self) {
        let blocking = self.blocking();
        let mut roots: Vec<i32> = blocking.roots().into_iter().collect();
        roots.sort_by_key(|pid| (Reverse(blocking.count_behind(*pid)), *pid));
        // After these, who waits in a circle, and who waits for a lock that was given up meanwhile.
        let mut others: Vec<_> = blocking.waiters().map(|(pid, waiter)| (Reverse(waiter.waiting), pid)).collect();
        others.sort();
        for pid in roots.into_iter().chain(others.into_iter().map(|(_, pid)| pid)) {
            self.from(pid);
        }
    }

    /// Without recursion: a queue may be thousands deep.
    fn from(&mut self, root: i32) {
        let mut left = vec![(root, 0, None)];
        while let Some((pid, depth, behind)) = left.pop() {
            if !self.seen.insert(pid) {
                continue;
            }
            self.branches.push(self.branch(pid, depth, behind));
            let blocking = self.blocking();
            let mut next: Vec<i32> = blocking.behind(pid).filter(|next| self.stands_behind(*next, pid)).collect();
            next.sort_by_key(|pid| (blocking.count_behind(*pid), blocking.waiter(*pid).map(|waiter| waiter.waiting)));
            left.extend(next.into_iter().map(|next| (next, depth + 1, Some(pid))));
        }
    }

    /// Whether that is the place of a waiter that may have several.
    fn stands_behind(&self, pid: i32, candidate: i32) -> bool {
        let blocking = self.blocking();
        let Some(waiter) = blocking.waiter(pid) else { return false };
        first_blocker(blocking, waiter).is_some_and(|first| first.pid == candidate)
    }

    fn branch(&self, pid: i32, depth: usize, behind: Option<i32>) -> Branch<'m> {
        let blocking = self.blocking();
        let directly = || blocking.behind(pid).filter_map(|next| blocking.waiter(next));
        let modes = directly().flat_map(|waiter| &waiter.blockers).filter(|blocker| blocker.pid == pid);
        let on = directly().next().map(|waiter| waiter.object.name.as_deref().unwrap_or(&waiter.object.kind));
        let held = directly().filter_map(|waiter| {
            let blocker = waiter.blockers.iter().find(|blocker| blocker.pid == pid && !blocker.waits_too)?;
            Some((blocker.mode, waiter.object.name.as_deref().unwrap_or(&waiter.object.kind)))
        });
        let held: BTreeSet<(LockMode, &str)> = held.collect();
        let row = self.rows.get(&pid).copied();
        Branch {
            host: self.host,
            pid,
            row,
            depth,
            behind,
            waits: blocking.waiter(pid),
            blocks_with: modes.map(|blocker| blocker.mode).max(),
            on,
            holds: held.into_iter().rev().take(HOLDS_MAX).collect(),
            count: blocking.count_behind(pid),
            ddl: row.and_then(Row::statement).and_then(ddl),
        }
    }
}

/// The first blocker of a waiter: a holder of its lock, or else the blocker that has waited longest.
pub(crate) fn first_blocker<'w>(blocking: &Blocking, waiter: &'w Waiter) -> Option<&'w Blocker> {
    waiter.blockers.iter().min_by_key(|blocker| {
        let waited = blocking.waiter(blocker.pid).map(|before| before.waiting);
        (blocker.waits_too, Reverse(waited), blocker.pid)
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use observe::{Backend, Lock, Object};

    use super::*;
    use crate::moment::{Host, Origin};
    use crate::tags::Tags;

    /// Each: pid, statement, and its locks as `mode table` or `mode table ms`.
    fn drawn(backends: &[(i32, &str, &[&str])]) -> Vec<String> {
        let mut locks = Vec::new();
        let mut moment = Moment::default();
        for (pid, statement, theirs) in backends {
            for text in *theirs {
                let words: Vec<&str> = text.split(' ').collect();
                let object = Object { kind: "relation".into(), key: words[1].into(), name: Some(words[1].into()) };
                let mode = LockMode::of(&format!("{}Lock", words[0])).expect("a mode");
                let waiting = words.get(2).map(|ms| Duration::from_millis(ms.parse().expect("a number")));
                locks.push(Lock { pid: *pid, leader_pid: None, object, mode, waiting });
            }
            let backend = Backend { pid: *pid, query: Some((*statement).to_owned()), ..Backend::default() };
            moment.rows.push(Row {
                host: Some(0),
                backend: Some(Arc::new(backend)),
                session: None,
                origin: Origin::Stranger,
                tags: Tags::default(),
                waiter: None,
                behind: 0,
            });
        }
        moment.hosts.push(Host { blocking: Blocking::of(&locks), ..Host::default() });
        let line = |branch: &Branch<'_>| {
            let indent = "  ".repeat(branch.depth);
            let blocks = branch.blocks_with.map(|mode| format!(" blocks {} with {}", branch.count, mode.name()));
            let waits = branch.waits.map(|waiter| format!(" waits for {}", waiter.mode.name()));
            let ddl = branch.ddl.as_ref().map(|ddl| format!(" [{}]", ddl.command));
            let [blocks, waits, ddl] = [blocks, waits, ddl].map(Option::unwrap_or_default);
            let holds: String =
                branch.holds.iter().map(|(mode, on)| format!(" holds {} on {on}", mode.name())).collect();
            format!("{indent}{}{waits}{blocks}{holds}{ddl}", branch.pid)
        };
        tree(&moment).iter().map(line).collect()
    }

    #[test]
    fn readers_stand_behind_the_ddl_and_the_ddl_behind_the_report() {
        let lines = drawn(&[
            (312, "select * from orders", &["AccessShare orders"]),
            (407, "alter table orders add column more int", &["AccessExclusive orders 9000"]),
            (511, "select 1", &["AccessShare orders 5000"]),
            (512, "select 1", &["AccessShare orders 4000"]),
            (900, "begin", &["Exclusive items"]),
            (901, "update", &["RowExclusive items 100"]),
        ]);
        assert_eq!(
            lines,
            [
                "312 blocks 3 with AccessShareLock holds AccessShareLock on orders",
                "  407 waits for AccessExclusiveLock blocks 2 with AccessExclusiveLock [ALTER TABLE]",
                "    511 waits for AccessShareLock",
                "    512 waits for AccessShareLock",
                "900 blocks 1 with ExclusiveLock holds ExclusiveLock on items",
                "  901 waits for RowExclusiveLock",
            ]
        );
    }

    #[test]
    fn a_deadlock_is_drawn_once_from_the_one_that_has_waited_longest() {
        let lines = drawn(&[
            (1, "", &["Exclusive a", "Exclusive b 900"]),
            (2, "", &["Exclusive b", "Exclusive a 500"]),
            (3, "", &["Exclusive b 100"]),
        ]);
        assert_eq!(
            lines,
            [
                "1 waits for ExclusiveLock blocks 2 with ExclusiveLock holds ExclusiveLock on a",
                "  2 waits for ExclusiveLock blocks 2 with ExclusiveLock holds ExclusiveLock on b",
                "    3 waits for ExclusiveLock",
            ]
        );
    }
}
