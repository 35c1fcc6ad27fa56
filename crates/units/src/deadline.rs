//! Timers that cost nothing while they do not fire.
//!
//! A deadline is not stored: it is computed from its owner's state when it matters. What is stored is the earliest
//! moment at which somebody has to look (`Armed`). Moving a deadline later touches nothing; the owner is looked at
//! once, found not due, and armed again. So a timeout that a transaction sets and clears costs a comparison.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::id::{ConnId, PoolId};
use crate::time::Time;

/// Whose deadline it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    Conn(ConnId),
    Pool(PoolId),
}

/// Kept by the owner: the moment of its one live entry.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Armed(Time);

impl Default for Armed {
    fn default() -> Armed {
        Armed(Time::NEVER)
    }
}

/// All entries of one machine, earliest first. Entries whose owner moved on are passed over.
#[derive(Debug, Default)]
pub struct Deadlines {
    heap: BinaryHeap<Reverse<(Time, Owner)>>,
    spared_until: Time,
}

impl Deadlines {
    /// Sees to it that the owner is looked at no later than `at`.
    pub fn arm(&mut self, owner: Owner, armed: &mut Armed, at: Time) {
        if at < armed.0 {
            armed.0 = at;
            self.heap.push(Reverse((at, owner)));
        }
    }

    /// No deadline is to be before this: whoever computes one takes the later of the two.
    pub fn spared_until(&self) -> Time {
        self.spared_until
    }

    pub fn spare_until(&mut self, at: Time) {
        self.spared_until = at;
    }

    pub fn next(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    /// The next entry that is due, if any.
    pub fn pop_due(&mut self, now: Time) -> Option<(Time, Owner)> {
        let due = self.next()? <= now;
        if !due {
            return None;
        }
        self.heap.pop().map(|Reverse(entry)| entry)
    }
}

impl Armed {
    /// Whether its owner is looked at by then anyway.
    #[inline]
    pub fn is_by(self, at: Time) -> bool {
        self.0 <= at
    }

    /// Whether an entry that came due is this owner's live one; it is then spent.
    pub fn spend(&mut self, at: Time) -> bool {
        let live = self.0 == at;
        if live {
            self.0 = Time::NEVER;
        }
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moving_a_deadline_later_adds_no_entry() {
        let mut deadlines = Deadlines::default();
        let (owner, mut armed) = (Owner::Pool(PoolId(1)), Armed::default());
        deadlines.arm(owner, &mut armed, Time(10));
        deadlines.arm(owner, &mut armed, Time(20));
        assert_eq!(deadlines.heap.len(), 1);
        assert_eq!(deadlines.pop_due(Time(9)), None);
        let (at, _) = deadlines.pop_due(Time(10)).expect("it is due");
        assert!(armed.spend(at) && !armed.spend(at));
    }

    #[test]
    fn an_entry_overtaken_by_an_earlier_one_is_stale() {
        let mut deadlines = Deadlines::default();
        let (owner, mut armed) = (Owner::Pool(PoolId(1)), Armed::default());
        deadlines.arm(owner, &mut armed, Time(20));
        deadlines.arm(owner, &mut armed, Time(10));
        let (first, _) = deadlines.pop_due(Time(30)).expect("it is due");
        assert!(armed.spend(first));
        let (second, _) = deadlines.pop_due(Time(30)).expect("it is due");
        assert!(!armed.spend(second));
    }
}
