//! The same pool on other workers: what they have given to which class, and which of their sessions goes first.

use std::collections::BTreeMap;
use std::time::Duration;

use units::{Time, WorkerId};

use super::Queue;
use super::account::scaled;
use crate::board::ClassCell;
use crate::classes::ClassId;

/// Of each class on each other worker: the server time that has been charged here.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    seen: BTreeMap<WorkerId, Vec<u64>>,
    /// By worker, which version of its row that was.
    versions: Vec<u64>,
}

impl Elsewhere {
    /// Whether a worker has shown something since this was last asked: its row has a version that was not read yet.
    fn is_news(&mut self, worker: WorkerId, version: u64) -> bool {
        let index = usize::from(worker.0);
        if self.versions.len() <= index {
            self.versions.resize(index + 1, 0);
        }
        std::mem::replace(&mut self.versions[index], version) != version
    }

    /// How much more a class has had there than was seen before.
    fn grown(&mut self, worker: WorkerId, class: usize, served_us: u64) -> u64 {
        let seen = self.seen.entry(worker).or_default();
        match seen.get_mut(class) {
            // Less than before: classes have changed there.
            Some(before) => served_us.saturating_sub(std::mem::replace(before, served_us)),
            None => {
                // What was before is nobody's debt.
                seen.push(served_us);
                0
            }
        }
    }
}

/// Somebody on another worker.
#[derive(Copy, Clone, Debug)]
pub struct Stranger {
    pub worker: WorkerId,
    pub class: ClassId,
    pub since: Time,
}

impl Queue {
    /// The board has been read anew: `cells` of this version, if they are others than those that were read last.
    #[inline]
    pub fn note_board<'b>(&mut self, worker: WorkerId, version: u64, cells: impl FnOnce() -> &'b [ClassCell]) {
        if self.elsewhere.is_news(worker, version) {
            self.note_cells(worker, cells());
        }
    }

    fn note_cells(&mut self, worker: WorkerId, cells: &[ClassCell]) {
        for (index, (lane, cell)) in self.lanes.iter_mut().zip(cells).enumerate() {
            let grown = self.elsewhere.grown(worker, index, cell.served_us);
            lane.account.served_elsewhere(lane.terms.weight, grown);
        }
    }

    /// What is shown to the other workers.
    pub fn cells(&self, now: Time) -> impl Iterator<Item = ClassCell> {
        self.lanes.iter().map(move |(_, lane)| {
            let front = lane.queue.front().filter(|_| lane.is_eligible());
            ClassCell {
                waiting_since: front.map_or(Time::NEVER, |waiter| waiter.since),
                served_us: lane.account.served_us(now),
            }
        })
    }

    /// Which session of another worker is next.
    pub fn first_of(&self, strangers: impl Iterator<Item = Stranger> + Clone, now: Time) -> Option<Stranger> {
        let top = strangers
            .clone()
            .map(|stranger| self.lanes.lane(stranger.class).terms.priority)
            .max()?
            .max(self.lanes.top());
        strangers.min_by_key(|stranger| (self.standing(stranger.class, stranger.since, now, top), stranger.since))
    }

    /// Whether a stranger is to be served before everybody here, though a server has to travel for it, which takes
    /// `head_start`.
    pub fn yields_to(&self, stranger: &Stranger, head_start: Duration, now: Time) -> bool {
        let Some(own) = self.next_class(now) else { return true };
        let lane = self.lanes.lane(own);
        let own_since = lane.queue.front().map_or(now, |waiter| waiter.since);
        if own == stranger.class {
            return stranger.since + head_start < own_since;
        }
        if lane.account.active() < lane.terms.min {
            return false;
        }
        let top = self.lanes.top().max(self.lanes.lane(stranger.class).terms.priority);
        let (priority, virtual_time) = self.standing(stranger.class, stranger.since, now, top);
        let (own_priority, own_time) = self.standing(own, own_since, now, top);
        let travel = scaled(head_start.as_micros() as u64, self.lanes.lane(stranger.class).terms.weight);
        priority < own_priority || priority == own_priority && virtual_time.saturating_add(travel) < own_time
    }

    /// Less is sooner.
    fn standing(&self, class: ClassId, since: Time, now: Time, top: u8) -> (i64, u64) {
        let lane = self.lanes.lane(class);
        (-lane.priority(now.micros_since(since), self.ageing_us, top), lane.virtual_time(now))
    }
}

#[cfg(test)]
mod tests {
    use units::{ConnId, Kind};

    use super::*;
    use crate::classes::{Class, Classes, Pattern, Rule};

    fn queue() -> Queue {
        queue_of(0, 0)
    }

    /// Of two classes with these priorities.
    fn queue_of(default: u8, other: u8) -> Queue {
        let any = || vec![Pattern::All];
        let rule = Rule { databases: any(), users: any(), applications: any(), tags: Vec::new(), class: ClassId(1) };
        let class = |name, priority| Class { priority, ..Class::new(name) };
        let all = vec![class("default", default), class("other", other)];
        Queue::new(&Classes { all, rules: vec![rule], ..Classes::default() }, 2)
    }

    fn cell(served_us: u64) -> ClassCell {
        ClassCell { waiting_since: Time::NEVER, served_us }
    }

    #[test]
    fn what_others_serve_is_charged_once() {
        let mut queue = queue();
        let there = WorkerId(1);
        // What was before is nobody's debt; then the second class has a second there.
        let (first, second) = ([cell(500), cell(9_000_000)], [cell(500), cell(10_000_000)]);
        queue.note_board(there, 1, || &first);
        queue.note_board(there, 2, || &second);
        queue.note_board(there, 2, || unreachable!("that version was read"));
        queue.note_board(there, 3, || &second);
        assert_eq!(queue.standing(ClassId(0), Time(0), Time(0), 0).1, 0);
        assert_eq!(queue.standing(ClassId(1), Time(0), Time(0), 0).1, scaled(1_000_000, 1));
        // Classes have changed there: they begin again.
        let third = [cell(0), cell(3)];
        queue.note_board(there, 4, || &third);
        assert_eq!(queue.standing(ClassId(1), Time(0), Time(0), 0).1, scaled(1_000_000, 1));
    }

    #[test]
    fn a_stranger_of_a_class_that_has_had_less_goes_first() {
        let mut queue = queue();
        let session = ConnId::new(Kind::Client, 0, 1, 0);
        let stranger = |class| Stranger { worker: WorkerId(1), class: ClassId(class), since: Time(0) };
        let (head_start, now) = (Duration::from_millis(2), Time(10_000));
        assert!(queue.yields_to(&stranger(1), head_start, now), "nobody waits here");
        queue.begin(ClassId(0), Time(0));
        queue.end(ClassId(0), Time(0), now);
        queue.push(ClassId(0), session, Time(5_000), now);
        // Ten milliseconds were had by the own class, none by the stranger's.
        assert!(queue.yields_to(&stranger(1), head_start, now));
        assert!(!queue.yields_to(&stranger(1), Duration::from_millis(11), now), "it is not worth the way");
        // Of the same class: the one that has waited clearly longer.
        assert!(queue.yields_to(&stranger(0), head_start, now));
        assert!(!queue.yields_to(&stranger(0), Duration::from_millis(6), now));
        let first = queue.first_of([stranger(0), stranger(1)].into_iter(), now);
        assert_eq!(first.map(|stranger| stranger.class), Some(ClassId(1)));
    }

    #[test]
    fn the_higher_priority_goes_first_whoever_has_had_less() {
        for (own, strangers, yields) in [(0, 1, true), (1, 0, false)] {
            let mut queue = queue_of(own, strangers);
            // The class of lower priority has had nothing yet, the other one ten milliseconds.
            let served = ClassId(u8::from(yields));
            queue.begin(served, Time(0));
            queue.end(served, Time(0), Time(10_000));
            queue.push(ClassId(0), ConnId::new(Kind::Client, 0, 1, 0), Time(9_000), Time(10_000));
            let stranger = Stranger { worker: WorkerId(1), class: ClassId(1), since: Time(9_000) };
            assert_eq!(queue.yields_to(&stranger, Duration::from_millis(2), Time(10_000)), yields);
        }
    }
}
