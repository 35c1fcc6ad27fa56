//! The coordinator's side of a concurrency limit: permits, and the holders that have and request them.
//!
//! Promises: never more permits out than there are (a limit that is lowered holds once what is out has come back). A worker that
//! requests one and has fewer than another gets the next that this one is done with. Where a request over the limit is refused rather than
//! kept waiting, it is refused only when no worker has a permit that it does not use. Nothing is called back from another process: what
//! that one has comes back by itself.

use std::collections::VecDeque;

use units::{ByHolder, Holder, WorkerId};

use super::rate_source::add;
use super::{Allowance, CallBack};
use ::settings::Over;

/// Permits of one limit.
#[derive(Clone, Debug)]
pub struct PermitSource {
    limit: u32,
    over: Over,
    held: ByHolder<u32>,
    /// Of what each worker holds: to come back once it is not used.
    called: Vec<u32>,
    /// By worker: how many unused permits it was asked for, and has not answered yet.
    inquired: Vec<u32>,
    requests: VecDeque<(Holder, u32)>,
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
        let workers = workers.max(1);
        let of_workers = vec![0; usize::from(workers)];
        PermitSource {
            limit: limit.max(1),
            over,
            held: ByHolder::new(workers),
            called: of_workers.clone(),
            inquired: of_workers,
            requests: VecDeque::new(),
            inquired_all: false,
        }
    }

    /// If fewer permits are allowed than are out, some are called back.
    pub fn configure(&mut self, limit: u32, over: Over) -> PermitChanges {
        (self.limit, self.over) = (limit.max(1), over);
        let mut changes = PermitChanges::default();
        let called: u32 = self.called.iter().sum();
        let mut surplus = self.out().saturating_sub(self.limit).saturating_sub(called);
        for worker in 0..self.called.len() {
            let count = self.left_to(worker).min(surplus);
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
        self.held.values().sum()
    }

    /// How many a holder has.
    #[must_use]
    pub fn of(&self, holder: impl Into<Holder>) -> u32 {
        self.held.of(holder)
    }

    /// Of what a worker has, what it was not called for.
    fn left_to(&self, worker: usize) -> u32 {
        self.held.workers()[worker] - self.called[worker]
    }

    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Nobody has or requests one.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.out() == 0 && self.requests.is_empty()
    }

    /// Another process decides from now on: what was requested and not granted.
    pub fn take_requests(&mut self) -> impl Iterator<Item = (Holder, u32)> {
        self.requests.drain(..)
    }

    pub fn request(&mut self, holder: impl Into<Holder>, count: u32) -> PermitChanges {
        let holder = holder.into();
        match self.requests.iter_mut().find(|(asker, _)| *asker == holder) {
            Some((_, requested)) => *requested = requested.saturating_add(count),
            None => self.requests.push_back((holder, count)),
        }
        let mut changes = PermitChanges::default();
        self.serve(&mut changes);
        changes
    }

    /// A holder was given `count` without a request here: another process decides, or has decided until now.
    pub fn note_given(&mut self, holder: Holder, count: u32) {
        let held = self.held.of_mut(holder);
        *held = held.saturating_add(count);
    }

    /// So many come back; of those that it was called for, so many do not.
    pub fn returned(&mut self, holder: impl Into<Holder>, count: u32, missing: u32) -> PermitChanges {
        let holder = holder.into();
        // One that was given before a reload limited it comes back here all the same.
        let held = self.held.of_mut(holder);
        *held = held.saturating_sub(count);
        if let Some(worker) = holder.worker() {
            let (index, held) = (usize::from(worker.0), *held);
            let mut answered = count.saturating_add(missing);
            let of_round = answered.min(self.inquired[index]);
            self.inquired[index] -= of_round;
            answered -= of_round;
            self.called[index] = self.called[index].saturating_sub(answered).min(held);
        }
        let mut changes = PermitChanges::default();
        self.serve(&mut changes);
        changes
    }

    /// A holder is gone with all that it had and requested.
    pub fn holder_lost(&mut self, holder: Holder) -> PermitChanges {
        self.held.take(holder);
        if let Some(worker) = holder.worker() {
            let index = usize::from(worker.0);
            (self.called[index], self.inquired[index]) = (0, 0);
        }
        self.requests.retain(|(asker, _)| *asker != holder);
        let mut changes = PermitChanges::default();
        self.serve(&mut changes);
        changes
    }

    fn serve(&mut self, changes: &mut PermitChanges) {
        let mut free = self.limit.saturating_sub(self.out());
        while free > 0 {
            let Some((holder, requested)) = self.requests.pop_front() else { break };
            *self.held.of_mut(holder) += 1;
            free -= 1;
            add(&mut changes.allowances, holder, 1, 1);
            if requested > 1 {
                self.requests.push_back((holder, requested - 1));
            }
        }
        match self.over {
            Over::Delay => self.call_from_the_rich(changes),
            Over::Reject => self.call_or_refuse(changes),
        }
        let remaining = self.limit.saturating_sub(self.out());
        changes.allowances.iter_mut().for_each(|allowance| allowance.remaining = remaining);
    }

    /// For each holder that waits one permit at most is on its way from a worker that has more.
    fn call_from_the_rich(&mut self, changes: &mut PermitChanges) {
        let called: u32 = self.called.iter().sum();
        let requesters: Vec<Holder> = self.requests.iter().map(|&(holder, _)| holder).skip(called as usize).collect();
        for asker in requesters {
            let own = self.held.of(asker);
            let others = (0..self.called.len()).filter(|&worker| asker.worker() != Some(WorkerId(worker as u16)));
            let richest = others.max_by_key(|&worker| self.left_to(worker));
            let Some(richest) = richest.filter(|&worker| self.left_to(worker) > own) else {
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
            let requesters: Vec<WorkerId> = self.requests.iter().filter_map(|(holder, _)| holder.worker()).collect();
            for worker in (0..self.called.len()).filter(|worker| !requesters.contains(&WorkerId(*worker as u16))) {
                self.inquire(worker, self.held.workers()[worker].min(requested), changes);
            }
            self.inquired_all = self.inquired.iter().any(|&asked| asked > 0);
        }
        if !self.inquired_all {
            for (holder, requested) in std::mem::take(&mut self.requests) {
                add(&mut changes.allowances, holder, 0, requested);
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
