//! The coordinator's side of a concurrency limit: permits, and the workers that hold and request them.
//!
//! Promises: never more permits out than there are (a limit that is lowered holds once what is out has come back). A worker that
//! requests one and has fewer than another gets the next that this one is done with. Where a request over the limit is refused rather than
//! kept waiting, it is refused only when no worker has a permit that it does not use. Nothing is called back from another process: what
//! that one has comes back by itself.

use std::collections::VecDeque;

use units::WorkerId;

use super::rate_source::add;
use super::{Allowance, CallBack};
use ::settings::Over;

/// Permits of one limit.
#[derive(Clone, Debug)]
pub struct PermitSource {
    limit: u32,
    over: Over,
    /// By worker, and after the workers by other processes.
    held: Vec<u32>,
    workers: usize,
    /// Of what is held: to come back once it is not used.
    called: Vec<u32>,
    /// By worker: how many unused permits it was asked for, and has not answered yet.
    inquired: Vec<u32>,
    requests: VecDeque<(WorkerId, u32)>,
    /// Every worker was asked for unused permits.
    inquired_all: bool,
}

/// What comes of something that happened to permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermitChanges {
    pub allowances: Vec<Allowance>,
    pub calls: Vec<CallBack>,
}

impl PermitSource {
    #[must_use]
    pub fn new(limit: u32, over: Over, workers: u16) -> PermitSource {
        let workers = usize::from(workers.max(1));
        let (held, called, asked) = (vec![0; workers], vec![0; workers], vec![0; workers]);
        PermitSource {
            limit: limit.max(1),
            over,
            workers: held.len(),
            held,
            called,
            inquired: asked,
            requests: VecDeque::new(),
            inquired_all: false,
        }
    }

    /// The last of the workers stand for other processes.
    #[must_use]
    pub fn with_others(mut self, others: u16) -> PermitSource {
        self.workers -= usize::from(others);
        self
    }

    /// If fewer permits are allowed than are out, some are called back.
    pub fn configure(&mut self, limit: u32, over: Over) -> PermitChanges {
        (self.limit, self.over) = (limit.max(1), over);
        let mut changes = PermitChanges::default();
        let called: u32 = self.called.iter().sum();
        let mut surplus = self.out().saturating_sub(self.limit).saturating_sub(called);
        for worker in 0..self.workers {
            let count = (self.held[worker] - self.called[worker]).min(surplus);
            surplus -= count;
            self.call(worker, count, &mut changes);
        }
        self.serve(&mut changes);
        changes
    }

    /// There is no such limit any more, or not yet: every request is granted. What is out is counted.
    pub fn lift(&mut self) -> PermitChanges {
        self.configure(u32::MAX, Over::Delay)
    }

    #[must_use]
    pub fn is_lifted(&self) -> bool {
        self.limit == u32::MAX
    }

    /// How many are out.
    #[must_use]
    pub fn out(&self) -> u32 {
        self.held.iter().sum()
    }

    /// How many a worker has.
    #[must_use]
    pub fn of(&self, worker: WorkerId) -> u32 {
        self.held[usize::from(worker.0)]
    }

    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// No worker has or requests one.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.out() == 0 && self.requests.is_empty()
    }

    /// Another process decides from now on: what was requested and not granted, by worker.
    pub fn take_requests(&mut self) -> impl Iterator<Item = (WorkerId, u32)> {
        self.requests.drain(..)
    }

    pub fn request(&mut self, worker: WorkerId, count: u32) -> PermitChanges {
        match self.requests.iter_mut().find(|(asker, _)| *asker == worker) {
            Some((_, requested)) => *requested = requested.saturating_add(count),
            None => self.requests.push_back((worker, count)),
        }
        let mut changes = PermitChanges::default();
        self.serve(&mut changes);
        changes
    }

    /// A worker was given so many without a request here: another process decides, or has decided until now.
    pub fn note_given(&mut self, worker: WorkerId, count: u32) {
        let held = &mut self.held[usize::from(worker.0)];
        *held = held.saturating_add(count);
    }

    /// So many come back; of those that it was called for, so many do not.
    pub fn returned(&mut self, worker: WorkerId, count: u32, missing: u32) -> PermitChanges {
        let index = usize::from(worker.0);
        // One that was given before a reload limited it comes back here all the same.
        self.held[index] = self.held[index].saturating_sub(count);
        let mut answered = count.saturating_add(missing);
        let of_round = answered.min(self.inquired[index]);
        self.inquired[index] -= of_round;
        answered -= of_round;
        self.called[index] = self.called[index].saturating_sub(answered).min(self.held[index]);
        let mut changes = PermitChanges::default();
        self.serve(&mut changes);
        changes
    }

    /// A worker is gone with all that it had and requested.
    pub fn worker_lost(&mut self, worker: WorkerId) -> PermitChanges {
        let index = usize::from(worker.0);
        (self.held[index], self.called[index], self.inquired[index]) = (0, 0, 0);
        self.requests.retain(|(asker, _)| *asker != worker);
        let mut changes = PermitChanges::default();
        self.serve(&mut changes);
        changes
    }

    fn serve(&mut self, changes: &mut PermitChanges) {
        let mut free = self.limit.saturating_sub(self.out());
        while free > 0 {
            let Some((worker, requested)) = self.requests.pop_front() else { break };
            self.held[usize::from(worker.0)] += 1;
            free -= 1;
            add(&mut changes.allowances, worker, 1, 1);
            if requested > 1 {
                self.requests.push_back((worker, requested - 1));
            }
        }
        match self.over {
            Over::Delay => self.call_from_the_rich(changes),
            Over::Reject => self.call_or_refuse(changes),
        }
        let remaining = self.limit.saturating_sub(self.out());
        changes.allowances.iter_mut().for_each(|allowance| allowance.remaining = remaining);
    }

    /// For each worker that waits one permit at most is on its way from one that has more.
    fn call_from_the_rich(&mut self, changes: &mut PermitChanges) {
        let called: u32 = self.called.iter().sum();
        let requesters: Vec<WorkerId> = self.requests.iter().map(|&(worker, _)| worker).skip(called as usize).collect();
        for asker in requesters {
            let own = self.held[usize::from(asker.0)];
            let others = (0..self.workers).filter(|&worker| worker != usize::from(asker.0));
            let richest = others.max_by_key(|&worker| self.held[worker] - self.called[worker]);
            let Some(richest) = richest.filter(|&worker| self.held[worker] - self.called[worker] > own) else {
                continue;
            };
            self.call(richest, 1, changes);
        }
    }

    /// A worker may have an unused permit. All are asked once; then the request is refused.
    fn call_or_refuse(&mut self, changes: &mut PermitChanges) {
        if self.requests.is_empty() {
            self.inquired_all = false;
            return;
        }
        // What a lower limit has called for may be used for long: nobody is to wait for that here.
        if self.inquired.iter().any(|&asked| asked > 0) {
            return;
        }
        let requested: u32 = self.requests.iter().map(|&(_, requested)| requested).sum();
        let answered = std::mem::take(&mut self.inquired_all);
        if !answered {
            let requesters: Vec<usize> = self.requests.iter().map(|&(worker, _)| usize::from(worker.0)).collect();
            for worker in (0..self.workers).filter(|worker| !requesters.contains(worker)) {
                self.inquire(worker, self.held[worker].min(requested), changes);
            }
            self.inquired_all = self.inquired.iter().any(|&asked| asked > 0);
        }
        if !self.inquired_all {
            for (worker, requested) in std::mem::take(&mut self.requests) {
                add(&mut changes.allowances, worker, 0, requested);
            }
        }
    }

    fn call(&mut self, worker: usize, count: u32, changes: &mut PermitChanges) {
        if count > 0 {
            self.called[worker] += count;
            changes.calls.push(CallBack { worker: WorkerId(worker as u16), count, used_too: true });
        }
    }

    fn inquire(&mut self, worker: usize, count: u32, changes: &mut PermitChanges) {
        if count > 0 {
            self.inquired[worker] += count;
            changes.calls.push(CallBack { worker: WorkerId(worker as u16), count, used_too: false });
        }
    }
}
