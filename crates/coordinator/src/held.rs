//! The tokens of one pool: which holders have them, since when, and which are to give one back.

use std::collections::VecDeque;
use std::time::Duration;

use units::{ByHolder, Holder, Life, ProcessId, Time, WorkerId, limits};

use crate::sharing::SLICE;

/// The tokens of one pool that are out.
#[derive(Debug)]
pub(crate) struct Held {
    /// What workers tell of a server that travels may overtake each other, so a single count can be below zero for a moment; the
    /// sum never is, and limits are about the sum.
    by_holder: ByHolder<i32>,
    /// Of workers that have panicked, until it is known which of them are of servers that are on their way elsewhere.
    lapsing: Vec<(WorkerId, u32)>,
    /// What has gone from workers that are not known here yet, though others know them.
    gone_later: Vec<(WorkerId, Life)>,
    /// Beyond the size, since that is smaller than it was: they come back one by one.
    over: u32,
    /// When they were given out, the oldest first.
    granted_at: VecDeque<Time>,
    /// Holders that were asked to give one back at their next release, and when.
    yields: Vec<(Holder, Time)>,
}

impl Held {
    pub(crate) fn new(workers: u16) -> Held {
        Held {
            by_holder: ByHolder::new(workers),
            lapsing: Vec::new(),
            gone_later: Vec::new(),
            over: 0,
            granted_at: VecDeque::new(),
            yields: Vec::new(),
        }
    }

    pub(crate) fn total(&self) -> u32 {
        let sum: i32 = self.by_holder.values().sum();
        let gone = self.gone_later.len() as i32;
        u32::try_from(sum + self.lapsing_count() as i32 - gone).expect("I12: more tokens came back than were given out")
    }

    /// Those of one holder.
    pub(crate) fn of(&self, holder: impl Into<Holder>) -> u32 {
        u32::try_from(self.by_holder.of(holder)).unwrap_or(0)
    }

    fn lapsing_count(&self) -> u32 {
        self.lapsing.iter().map(|(_, count)| count).sum()
    }

    pub(crate) fn over(&self) -> u32 {
        self.over
    }

    pub(crate) fn granted(&mut self, now: Time, holder: impl Into<Holder>) {
        *self.by_holder.of_mut(holder) += 1;
        self.granted_at.push_back(now);
    }

    /// One has come back.
    pub(crate) fn freed(&mut self, holder: impl Into<Holder>) {
        let holder = holder.into();
        assert!(self.total() > 0, "I12: a token came back that was not out");
        *self.by_holder.of_mut(holder) -= 1;
        self.came_back();
        self.has_yielded(holder);
    }

    fn came_back(&mut self) {
        self.over = self.over.saturating_sub(1);
        self.granted_at.pop_front();
    }

    /// A worker has panicked: what it has lapses. `life`: of the next one.
    pub(crate) fn lapse(&mut self, worker: WorkerId, life: Life) {
        self.yields.retain(|(asked, _)| *asked != Holder::Worker(worker));
        let held = self.by_holder.take(worker);
        // What it has got from others it has told itself, and before.
        let held = u32::try_from(held).expect("I12: only what a worker has is lent by it");
        if held > 0 {
            self.lapsing.push((worker, held));
        }
        let gone = self.gone_later.iter().filter(|gone| **gone == (worker, life)).count() as i32;
        self.gone_later.retain(|gone| *gone != (worker, life));
        *self.by_holder.of_mut(worker) = -gone;
    }

    /// The servers are closed whose tokens have lapsed and are not held elsewhere: how many are free for that.
    pub(crate) fn release_lapsed(&mut self, worker: WorkerId) -> u32 {
        let of_worker = self.lapsing.iter().filter(|(lapsed, _)| *lapsed == worker);
        let count = of_worker.map(|(_, count)| count).sum();
        self.lapsing.retain(|(lapsed, _)| *lapsed != worker);
        (0..count).for_each(|_| self.came_back());
        count
    }

    /// A server has arrived that a worker has lent which has panicked since.
    pub(crate) fn moved_from_lapsed(&mut self, from: WorkerId, to: WorkerId) {
        let lapsed = self.lapsing.iter_mut().find(|(worker, count)| *worker == from && *count > 0);
        lapsed.expect("I12: only what a worker had is lent by it").1 -= 1;
        *self.by_holder.of_mut(to) += 1;
    }

    /// A server is another holder's now.
    pub(crate) fn moved(&mut self, from: impl Into<Holder>, to: WorkerId) {
        *self.by_holder.of_mut(from) -= 1;
        *self.by_holder.of_mut(to) += 1;
    }

    /// A server has arrived that a worker has lent which is in the place of the one that is known here.
    pub(crate) fn moved_from_later(&mut self, from: WorkerId, life: Life, to: WorkerId) {
        self.gone_later.push((from, life));
        *self.by_holder.of_mut(to) += 1;
    }

    /// Those of servers whose lifetime does not end soon.
    pub(crate) fn lasting(&self, now: Time, lifetime: Duration) -> u32 {
        if lifetime.is_zero() {
            return self.total();
        }
        let lasts = lifetime - limits::RENEWAL.min(lifetime / 10);
        // The oldest first. A server that is lent on its way may be counted below zero.
        let ending = self.granted_at.iter().take_while(|at| **at + lasts <= now).count() as u32;
        self.total().saturating_sub(ending)
    }

    /// Those that the pool has had for a slice.
    pub(crate) fn tenured(&self, now: Time) -> u32 {
        self.granted_at.iter().take_while(|at| **at + SLICE <= now).count() as u32
    }

    /// Those that it was asked to give back not longer ago than a slice, and before.
    pub(crate) fn yielding(&self, now: Time) -> (u32, u32) {
        let coming = self.yields.iter().filter(|(_, at)| now < *at + SLICE).count();
        (coming as u32, (self.yields.len() - coming) as u32)
    }

    /// The holder that has most tokens beyond those that it is to give back is asked to give one. `None`: nobody has any, as
    /// after a panic, until it is known what becomes of them.
    pub(crate) fn yields_next(&mut self, now: Time) -> Option<Holder> {
        let to_give = |holder: Holder| self.yields.iter().filter(|(asked, _)| *asked == holder).count();
        let holders = self.by_holder.iter().filter(|(_, held)| *held > 0);
        let (holder, _) = holders.max_by_key(|(holder, held)| held - to_give(*holder) as i32)?;
        self.yields.push((holder, now));
        Some(holder)
    }

    /// As [`Held::yields_next`], of this process, or of the workers here. `None`: they have none.
    pub(crate) fn yields_of(&mut self, now: Time, process: Option<ProcessId>) -> Option<Holder> {
        let asked = self.by_holder.iter().filter(|(holder, _)| holder.process() == process);
        let (richest, _) = asked.max_by_key(|(_, held)| *held).filter(|(_, held)| *held > 0)?;
        self.yields.push((richest, now));
        Some(richest)
    }

    /// A process has left that has nothing any more, and gives nothing back.
    pub(crate) fn forget(&mut self, process: ProcessId) {
        self.yields.retain(|(asked, _)| asked.process() != Some(process));
        if self.by_holder.of(process) == 0 {
            self.by_holder.take(process);
        }
    }

    /// The other processes that are counted to have some, or to have had some since they joined.
    pub(crate) fn processes(&self) -> impl Iterator<Item = ProcessId> {
        self.by_holder.processes()
    }

    /// A holder that was asked to give one back has, or has none. Whether it was asked.
    pub(crate) fn has_yielded(&mut self, holder: Holder) -> bool {
        let index = self.yields.iter().position(|(asked, _)| *asked == holder);
        index.map(|index| self.yields.remove(index)).is_some()
    }

    /// Of these workers, the one that has fewest.
    pub(crate) fn poorest(&self, homes: &[WorkerId]) -> Option<WorkerId> {
        homes.iter().copied().min_by_key(|home| self.by_holder.of(*home))
    }

    /// Whether no holder is counted to have any, or to owe one.
    pub(crate) fn is_nothing(&self) -> bool {
        self.by_holder.values().all(|held| held == 0) && self.lapsing_count() == 0 && self.gone_later.is_empty()
    }

    /// Holders that have some.
    pub(crate) fn holders(&self) -> impl Iterator<Item = Holder> {
        self.by_holder.iter().filter(|(_, held)| *held > 0).map(|(holder, _)| holder)
    }

    /// The pool may have `most` from now on: how many each holder is to give up, from the one that has most.
    pub(crate) fn shrink(&mut self, most: u32) -> impl Iterator<Item = (Holder, u32)> {
        self.over = self.total().saturating_sub(most);
        let mut left: Vec<(Holder, i32, i32)> =
            self.by_holder.iter().map(|(holder, held)| (holder, held, held)).collect();
        // What lapses comes back by itself.
        for _ in 0..self.over.saturating_sub(self.lapsing_count()) {
            if let Some((_, _, most)) = left.iter_mut().max_by_key(|(_, _, left)| *left) {
                *most -= 1;
            }
        }
        left.into_iter().map(|(holder, held, left)| (holder, u32::try_from(held - left).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: WorkerId = WorkerId(0);
    const THERE: WorkerId = WorkerId(1);

    #[test]
    fn nobody_is_asked_for_what_a_panicked_worker_had() {
        let mut held = Held::new(2);
        held.granted(Time::ZERO, THERE);
        held.lapse(THERE, Life(1));
        assert_eq!((held.total(), held.yields_next(Time::ZERO)), (1, None));
    }

    #[test]
    fn whoever_has_most_gives_up_first_and_gives_back_next() {
        let mut held = Held::new(2);
        for worker in [HERE, THERE, THERE, THERE] {
            held.granted(Time::ZERO, worker);
        }
        assert_eq!(held.shrink(2).collect::<Vec<_>>(), [(HERE.into(), 0), (THERE.into(), 2)]);
        assert_eq!(held.over(), 2);
        assert_eq!([held.yields_next(Time::ZERO), held.yields_next(Time::ZERO)], [Some(THERE.into()); 2]);
        held.freed(THERE);
        assert_eq!((held.total(), held.over(), held.yielding(Time::ZERO)), (3, 1, (1, 0)));
    }

    #[test]
    fn what_workers_tell_may_come_out_of_order() {
        let mut held = Held::new(2);
        held.granted(Time::ZERO, HERE);
        // The borrower's close has overtaken the news that the server is its own.
        held.freed(THERE);
        held.moved(HERE, THERE);
        assert_eq!((held.total(), held.holders().count()), (0, 0));
    }

    #[test]
    fn what_lapses_counts_until_it_is_known_to_be_closed() {
        let mut held = Held::new(2);
        for worker in [HERE, HERE, THERE] {
            held.granted(Time::ZERO, worker);
        }
        held.lapse(HERE, Life::default().next());
        assert_eq!((held.total(), held.holders().collect::<Vec<_>>()), (3, vec![THERE.into()]));
        assert_eq!(held.shrink(1).map(|(_, count)| count).collect::<Vec<_>>(), [0, 0], "two come back by themselves");
        // One of the two was on its way.
        held.moved_from_lapsed(HERE, THERE);
        assert_eq!((held.release_lapsed(HERE), held.total()), (1, 2));
        held.freed(THERE);
        held.freed(THERE);
        assert!(held.is_nothing() && held.release_lapsed(HERE) == 0);
    }

    #[test]
    fn what_a_worker_lends_that_is_not_known_yet_is_not_of_the_one_before() {
        let mut held = Held::new(2);
        let life = Life::default().next();
        held.granted(Time::ZERO, HERE);
        held.granted(Time::ZERO, THERE);
        // The other lends to the next one here, and gets it back; of that the next one's word comes last.
        held.moved_from_later(HERE, life, THERE);
        assert_eq!(held.total(), 2);
        held.lapse(HERE, life);
        held.moved(THERE, HERE);
        assert_eq!(
            (held.release_lapsed(HERE), held.total(), held.holders().collect::<Vec<_>>()),
            (1, 1, vec![THERE.into()])
        );
    }

    #[test]
    fn a_token_about_to_end_does_not_last() {
        let mut held = Held::new(1);
        let lifetime = Duration::from_secs(100);
        held.granted(Time::ZERO, HERE);
        let end = Time::ZERO + lifetime;
        assert_eq!((held.lasting(Time::ZERO, lifetime), held.lasting(end, lifetime)), (1, 0));
    }
}
