//! Events that are dealt with in several stages. A stage begins when everything that follows from the one before is done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::vec::IntoIter;

use machine::Settings;
use units::{ConnId, PoolId};

/// What is still to be done about an event.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The end of a round, once the sessions that can move to another process have moved.
    EndRound,
    /// The deadlines that have passed, one after the other.
    Deadlines,
    /// A stop has begun.
    Stop,
    /// New settings are in force; these were before.
    Reload(Arc<Settings>),
    /// A reload: its pools, one after the other; then limits, sessions, servers, and SUSPEND or RESUME.
    Pools(Box<ReloadedPools>),
    Limits(Arc<Settings>),
    /// KILL was ordered for this pool, and its sessions have ended: its servers are closed.
    KillServers(PoolId),
    Sessions(Arc<Settings>, IntoIter<ConnId>),
    Servers(Arc<Settings>, IntoIter<ConnId>),
    Suspend(Arc<Settings>),
    /// The sessions that ended because `suspend_timeout` is over are gone: their servers are closed.
    CloseUnsent(Arc<Settings>),
}

/// The pools that a reload has not reached yet.
#[derive(Debug)]
pub(crate) struct ReloadedPools {
    /// The settings before the reload.
    pub(crate) before: Arc<Settings>,
    pub(crate) pools: IntoIter<PoolId>,
    /// The servers that each pool had when the reload began.
    pub(crate) servers: BTreeMap<PoolId, Vec<ConnId>>,
}

/// Things to be done in the order in which they were noted; but what one of them adds comes before the next.
#[derive(Debug)]
pub(crate) struct InOrder<T> {
    /// Added since the last one was taken.
    new: Vec<T>,
    /// In reverse order: the next one is last.
    others: Vec<T>,
}

impl<T> Default for InOrder<T> {
    fn default() -> InOrder<T> {
        InOrder { new: Vec::new(), others: Vec::new() }
    }
}

impl<T> InOrder<T> {
    pub(crate) fn push(&mut self, one: T) {
        self.new.push(one);
    }

    /// This comes before everything that was noted so far.
    pub(crate) fn push_first(&mut self, one: T) {
        self.others.extend(self.new.drain(..).rev());
        self.others.push(one);
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Option<T> {
        if !self.new.is_empty() {
            self.others.extend(self.new.drain(..).rev());
        }
        self.others.pop()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.others.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_one_comes_before_the_next() {
        let mut queue = InOrder::default();
        queue.push(1);
        queue.push(2);
        assert_eq!(queue.next(), Some(1));
        queue.push(3);
        queue.push(4);
        assert_eq!([(); 3].map(|()| queue.next()), [Some(3), Some(4), Some(2)]);
        queue.push(5);
        queue.push_first(6);
        assert_eq!([(); 2].map(|()| queue.next()), [Some(6), Some(5)]);
        assert!(queue.is_empty() && queue.next().is_none());
    }
}
