//! The coordinator's side of a limit of what happens at a time: permits, and the workers that hold and want them.
//!
//! Promises: never more permits out than there are (a limit that is lowered holds once what is out has come back). A worker that
//! wants one and has fewer than another gets the next that this one is done with. Where the class is to be told rather than to
//! wait, it is told only when no worker has one that it does not use.

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
    /// By worker.
    held: Vec<u32>,
    /// Of what is held: to come back once it is not used.
    called: Vec<u32>,
    /// Whether there is so much that is not used is asked, and not answered yet.
    asked: Vec<u32>,
    wants: VecDeque<(WorkerId, u32)>,
    /// Everybody was asked for what is not used.
    asked_all: bool,
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
        PermitSource { limit: limit.max(1), over, held, called, asked, wants: VecDeque::new(), asked_all: false }
    }

    /// With fewer permits than are out, some are asked for.
    pub fn configure(&mut self, limit: u32, over: Over) -> PermitChanges {
        (self.limit, self.over) = (limit.max(1), over);
        let mut turn = PermitChanges::default();
        let called: u32 = self.called.iter().sum();
        let mut surplus = self.out().saturating_sub(self.limit).saturating_sub(called);
        for worker in 0..self.held.len() {
            let count = (self.held[worker] - self.called[worker]).min(surplus);
            surplus -= count;
            self.call(worker, count, &mut turn);
        }
        self.serve(&mut turn);
        turn
    }

    /// There is no such limit any more, or not yet: whoever wants one gets it. What is out is counted.
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

    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Nobody has or wants one.
    #[must_use]
    pub fn is_unused(&self) -> bool {
        self.out() == 0 && self.wants.is_empty()
    }

    pub fn want(&mut self, worker: WorkerId, count: u32) -> PermitChanges {
        match self.wants.iter_mut().find(|(asker, _)| *asker == worker) {
            Some((_, wanted)) => *wanted = wanted.saturating_add(count),
            None => self.wants.push_back((worker, count)),
        }
        let mut turn = PermitChanges::default();
        self.serve(&mut turn);
        turn
    }

    /// So many come back; of those that it was called for, so many do not.
    pub fn returned(&mut self, worker: WorkerId, count: u32, missing: u32) -> PermitChanges {
        let index = usize::from(worker.0);
        // One that was given before a reload limited it comes back here all the same.
        self.held[index] = self.held[index].saturating_sub(count);
        let mut answered = count.saturating_add(missing);
        let of_round = answered.min(self.asked[index]);
        self.asked[index] -= of_round;
        answered -= of_round;
        self.called[index] = self.called[index].saturating_sub(answered).min(self.held[index]);
        let mut turn = PermitChanges::default();
        self.serve(&mut turn);
        turn
    }

    fn serve(&mut self, turn: &mut PermitChanges) {
        let mut free = self.limit.saturating_sub(self.out());
        while free > 0 {
            let Some((worker, wanted)) = self.wants.pop_front() else { break };
            self.held[usize::from(worker.0)] += 1;
            free -= 1;
            add(&mut turn.allowances, worker, 1, 1);
            if wanted > 1 {
                self.wants.push_back((worker, wanted - 1));
            }
        }
        match self.over {
            Over::Delay => self.call_from_the_rich(turn),
            Over::Reject => self.call_or_refuse(turn),
        }
        let remaining = self.limit.saturating_sub(self.out());
        turn.allowances.iter_mut().for_each(|allowance| allowance.remaining = remaining);
    }

    /// For each worker that waits one permit at most is on its way from one that has more.
    fn call_from_the_rich(&mut self, turn: &mut PermitChanges) {
        let called: u32 = self.called.iter().sum();
        let askers: Vec<WorkerId> = self.wants.iter().map(|&(worker, _)| worker).skip(called as usize).collect();
        for asker in askers {
            let own = self.held[usize::from(asker.0)];
            let others = (0..self.held.len()).filter(|&worker| worker != usize::from(asker.0));
            let richest = others.max_by_key(|&worker| self.held[worker] - self.called[worker]);
            let Some(richest) = richest.filter(|&worker| self.held[worker] - self.called[worker] > own) else {
                continue;
            };
            self.call(richest, 1, turn);
        }
    }

    /// Somebody may have a permit without use. Everybody is asked once; then it is told.
    fn call_or_refuse(&mut self, turn: &mut PermitChanges) {
        if self.wants.is_empty() {
            self.asked_all = false;
            return;
        }
        // What a lower limit has called for may be used for long: nobody is to wait for that here.
        if self.asked.iter().any(|&asked| asked > 0) {
            return;
        }
        let wanted: u32 = self.wants.iter().map(|&(_, wanted)| wanted).sum();
        let answered = std::mem::take(&mut self.asked_all);
        if !answered {
            let askers: Vec<usize> = self.wants.iter().map(|&(worker, _)| usize::from(worker.0)).collect();
            for worker in (0..self.held.len()).filter(|worker| !askers.contains(worker)) {
                self.ask(worker, self.held[worker].min(wanted), turn);
            }
            self.asked_all = self.asked.iter().any(|&asked| asked > 0);
        }
        if !self.asked_all {
            for (worker, wanted) in std::mem::take(&mut self.wants) {
                add(&mut turn.allowances, worker, 0, wanted);
            }
        }
    }

    fn call(&mut self, worker: usize, count: u32, turn: &mut PermitChanges) {
        if count > 0 {
            self.called[worker] += count;
            turn.calls.push(CallBack { worker: WorkerId(worker as u16), count, used_too: true });
        }
    }

    fn ask(&mut self, worker: usize, count: u32, turn: &mut PermitChanges) {
        if count > 0 {
            self.asked[worker] += count;
            turn.calls.push(CallBack { worker: WorkerId(worker as u16), count, used_too: false });
        }
    }
}
