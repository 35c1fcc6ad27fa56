//! Holders of what is shared: tokens, permits, sessions. A holder is a worker of this process, or another process.
//!
//! Promises: values of workers come first, in their order, and then those of other processes. A process that holds nothing has no value
//! here, so any number of them may come and go.

use std::collections::BTreeMap;

use crate::id::WorkerId;

/// The number of a process among its peers, from 1: `peer_id` in its settings.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u16);

/// Another process, as this one addresses it: by its part in an online upgrade, in which both have the same number, or by its number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProcessId {
    /// The process whose place this one takes, in an online upgrade.
    Predecessor,
    /// The process that takes this one's place.
    Successor,
    /// A process of `[peers]`.
    Peer(PeerId),
}

/// A worker of this process, or another process.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    Worker(WorkerId),
    Process(ProcessId),
}

impl Holder {
    /// The worker; `None`: another process.
    #[must_use]
    pub fn worker(self) -> Option<WorkerId> {
        match self {
            Holder::Worker(worker) => Some(worker),
            Holder::Process(_) => None,
        }
    }

    /// The other process; `None`: a worker of this one.
    #[must_use]
    pub fn process(self) -> Option<ProcessId> {
        match self {
            Holder::Worker(_) => None,
            Holder::Process(process) => Some(process),
        }
    }
}

impl From<WorkerId> for Holder {
    fn from(worker: WorkerId) -> Holder {
        Holder::Worker(worker)
    }
}

impl From<ProcessId> for Holder {
    fn from(process: ProcessId) -> Holder {
        Holder::Process(process)
    }
}

/// One value for each worker, and one for each other process that has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByHolder<T> {
    workers: Vec<T>,
    processes: BTreeMap<ProcessId, T>,
}

impl<T: Copy + Default> ByHolder<T> {
    #[must_use]
    pub fn new(workers: u16) -> ByHolder<T> {
        ByHolder { workers: vec![T::default(); usize::from(workers)], processes: BTreeMap::new() }
    }

    /// The values of the workers.
    #[must_use]
    pub fn workers(&self) -> &[T] {
        &self.workers
    }

    /// The value of a holder: the default for a process that has none.
    #[must_use]
    pub fn of(&self, holder: impl Into<Holder>) -> T {
        match holder.into() {
            Holder::Worker(worker) => self.workers[usize::from(worker.0)],
            Holder::Process(process) => self.processes.get(&process).copied().unwrap_or_default(),
        }
    }

    /// The value of a holder, to be changed: a process that has none gets the default.
    pub fn of_mut(&mut self, holder: impl Into<Holder>) -> &mut T {
        match holder.into() {
            Holder::Worker(worker) => &mut self.workers[usize::from(worker.0)],
            Holder::Process(process) => self.processes.entry(process).or_default(),
        }
    }

    /// Takes a holder's value, which is the default from now on.
    pub fn take(&mut self, holder: impl Into<Holder>) -> T {
        match holder.into() {
            Holder::Worker(worker) => std::mem::take(&mut self.workers[usize::from(worker.0)]),
            Holder::Process(process) => self.processes.remove(&process).unwrap_or_default(),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Holder, T)> {
        let workers = (0..).zip(&self.workers).map(|(worker, value)| (Holder::Worker(WorkerId(worker)), *value));
        workers.chain(self.processes.iter().map(|(process, value)| (Holder::Process(*process), *value)))
    }

    pub fn values(&self) -> impl Iterator<Item = T> {
        self.iter().map(|(_, value)| value)
    }

    /// Processes that have a value.
    pub fn processes(&self) -> impl Iterator<Item = ProcessId> {
        self.processes.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_value_from_its_first_change_until_it_is_taken() {
        let mut counts: ByHolder<u32> = ByHolder::new(2);
        *counts.of_mut(ProcessId::Predecessor) += 3;
        *counts.of_mut(WorkerId(1)) += 1;
        assert_eq!((counts.of(ProcessId::Predecessor), counts.of(ProcessId::Successor)), (3, 0));
        let all: Vec<(Holder, u32)> = counts.iter().collect();
        let workers = [0, 1].map(|worker| Holder::Worker(WorkerId(worker)));
        assert_eq!(all, [(workers[0], 0), (workers[1], 1), (Holder::Process(ProcessId::Predecessor), 3)]);
        assert_eq!((counts.take(ProcessId::Predecessor), counts.take(WorkerId(1))), (3, 1));
        assert_eq!((counts.values().sum::<u32>(), counts.iter().count(), counts.processes().count()), (0, 2, 0));
    }
}
