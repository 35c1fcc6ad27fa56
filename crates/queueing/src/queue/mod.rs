//! The sessions that wait for a pool's servers on one worker, in a queue for each class, and which of them is next.
//!
//! ```text
//!   waiters ──► queue of their class ┐  below its minimum?  │ highest priority, │ least virtual time │
//!               (first in, first out)├─────────────────────►│ ageing counted    │ (server time ÷     ├──► the next
//!               queue …            ──┘  not at its maximum  │                   │ weight)            │
//! ```
//!
//! The rule is start-time fair queueing in server-seconds over as many servers as there are: the class that has had least for
//! its weight is next. A session that has waited for long is lifted to the highest priority that waits, not beyond. Promise, of classes of
//! equal priority without maximum: while a class has work, it gets its share of the
//! server time, less the longest link of any class on each server and [`account::Account`]'s estimate of what has just begun, whatever
//! the others do. No server stays idle while an eligible session waits: one whose class is below its maximum.
//! With one class all of this is one queue, and nothing is counted.
//!
//! A pool that lives on several workers has a queue on each. What the others' servers do for a class is charged here too, as soon
//! as the board tells it ([`neighbours`]): each queue divides its own servers so that the sum is fair.

mod account;
mod class_queue;
mod counts;
mod lanes;
mod neighbours;
mod pace;

use std::time::Duration;

use units::{ConnId, Time};

use crate::classes::{ClassId, ClassSet, Classes, DEFAULT};

pub use class_queue::{ClassQueue, Waiter};
pub use counts::ClassCounts;
use lanes::Lanes;
pub use lanes::WaitTimes;
use neighbours::Elsewhere;
pub use neighbours::Stranger;

#[derive(Debug)]
pub struct Queue {
    lanes: Lanes,
    len: u32,
    /// The virtual time at which the last link began: where a class begins that had nothing to do.
    virtual_time: u64,
    ageing_us: u64,
    /// What the board has shown of other workers so far.
    elsewhere: Elsewhere,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue::new(&Classes::default(), 1)
    }
}

impl Queue {
    pub fn new(classes: &Classes, homes: u16) -> Queue {
        Queue {
            lanes: Lanes::new(classes, homes),
            len: 0,
            virtual_time: 0,
            ageing_us: classes.ageing.as_micros() as u64,
            elsewhere: Elsewhere::default(),
        }
    }

    /// How many wait now, in all classes.
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many waiters may be served, if there are servers.
    pub fn servable(&self) -> u32 {
        if self.is_counted() { self.lanes.servable() } else { self.len }
    }

    /// Whether a session waits that would be given an idle server.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        if self.is_counted() { !self.lanes.eligible().is_empty() } else { self.len > 0 }
    }

    /// Whether a session that comes now is given an idle server at once.
    #[inline]
    pub fn admits(&self, class: ClassId) -> bool {
        !self.has_waiters() && self.lanes.lane(class).has_room()
    }

    /// A session waits from now on; its ticket.
    pub fn push(&mut self, class: ClassId, session: ConnId, since: Time, now: Time) -> u64 {
        self.len += 1;
        let (is_counted, others) = (self.is_counted(), self.virtual_time);
        let lane = self.lanes.lane_mut(class);
        if is_counted {
            lane.awake(now, others);
        }
        let ticket = lane.queue.push(session, since);
        self.lanes.note(class);
        ticket
    }

    /// A session stops waiting without having been served.
    pub fn leave(&mut self, class: ClassId, ticket: u64) {
        self.lanes.lane_mut(class).queue.leave(ticket);
        self.len -= 1;
        self.lanes.note(class);
    }

    /// The session that has waited longest of all that may be served.
    pub fn oldest(&self) -> Option<Waiter> {
        if !self.is_counted() {
            return self.oldest_of(DEFAULT);
        }
        self.lanes.eligible().iter().filter_map(|class| self.oldest_of(class)).min_by_key(|waiter| waiter.since)
    }

    /// How many of a class wait.
    pub fn waiting(&self, class: ClassId) -> u32 {
        self.lanes.lane(class).queue.len()
    }

    /// The session of a class that has waited longest.
    pub fn oldest_of(&self, class: ClassId) -> Option<Waiter> {
        self.lanes.lane(class).queue.front()
    }

    /// The session that has waited longest, whether it may be served or not.
    pub fn oldest_of_all(&self) -> Option<Waiter> {
        self.lanes.iter().filter_map(|(_, lane)| lane.queue.front()).min_by_key(|waiter| waiter.since)
    }

    /// The session that is next, which goes on waiting.
    #[inline]
    pub fn peek(&self, now: Time) -> Option<Waiter> {
        if self.len == 0 {
            return None;
        }
        let class = if self.is_counted() { self.next_class(now)? } else { DEFAULT };
        self.oldest_of(class)
    }

    /// The session that is next: the oldest waiter of the class that is next.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Waiter> {
        if self.len == 0 {
            return None;
        }
        let class = if self.is_counted() { self.next_class(now)? } else { DEFAULT };
        self.pop_of(class, now)
    }

    fn pop_of(&mut self, class: ClassId, now: Time) -> Option<Waiter> {
        let lane = self.lanes.lane_mut(class);
        let waiter = lane.queue.pop()?;
        self.len -= 1;
        lane.wait_times.add(now.micros_since(waiter.since));
        lane.pace.moved(now);
        self.lanes.note(class);
        Some(waiter)
    }

    /// The first one of a class is about to wait. `service_us`: the mean time of a link, 0 if that is unknown; `busy`: servers
    /// that serve this queue now.
    pub fn queue_begins(&mut self, class: ClassId, now: Time, service_us: u64, busy: u32) {
        let lane = self.lanes.lane_mut(class);
        debug_assert!(lane.queue.is_empty(), "a line begins with its first waiter");
        let busy = if lane.has_room() { busy } else { lane.account.active() };
        lane.pace.begin(now, service_us, busy);
    }

    /// A session's place in the queue of its class, and how many are in it.
    pub fn place(&self, class: ClassId, ticket: u64) -> Option<(u32, u32)> {
        let line = &self.lanes.lane(class).queue;
        line.place(ticket).map(|place| (place, line.len()))
    }

    /// How long the session at this place of its class's queue will wait from now on; `None`: that is unknown.
    pub fn expected_wait(&self, class: ClassId, now: Time, place: u32) -> Option<Duration> {
        self.lanes.lane(class).pace.expected(now, place)
    }

    /// Whether a class has as many servers as it may.
    pub fn is_at_its_maximum(&self, class: ClassId) -> bool {
        !self.lanes.lane(class).has_room()
    }

    /// The class that is next.
    pub fn next_class(&self, now: Time) -> Option<ClassId> {
        if !self.is_counted() {
            return (self.len > 0).then_some(DEFAULT);
        }
        let eligible = self.lanes.eligible();
        eligible.only().or_else(|| {
            let top = self.lanes.top_that_lifts();
            eligible.iter().min_by_key(|class| self.lanes.lane(*class).rank(now, self.ageing_us, top))
        })
    }

    /// Serves the newest first: a deliberate fault, for showing that the simulator sees it.
    #[cfg(debug_assertions)]
    pub fn pop_newest(&mut self) -> Option<Waiter> {
        let class = self.lanes.iter().find_map(|(class, lane)| (!lane.queue.is_empty()).then_some(class))?;
        let waiter = self.lanes.lane_mut(class).queue.pop_newest()?;
        self.len -= 1;
        self.lanes.note(class);
        Some(waiter)
    }

    /// Serves the session that has waited longest, whatever its class has had: another one.
    #[cfg(debug_assertions)]
    pub fn pop_oldest(&mut self, now: Time) -> Option<Waiter> {
        let fronts = self.lanes.iter().filter(|(_, lane)| lane.is_eligible());
        let fronts = fronts.filter_map(|(class, lane)| Some((class, lane.queue.front()?.since)));
        let (class, _) = fronts.min_by_key(|(_, since)| *since)?;
        self.pop_of(class, now)
    }

    /// A class has a server from now on.
    #[inline]
    pub fn begin(&mut self, class: ClassId, now: Time) {
        let others = self.virtual_time;
        let lane = self.lanes.lane_mut(class);
        lane.awake(now, others);
        let start = lane.virtual_time(now);
        lane.account.begin(now);
        let is_awaited = !lane.queue.is_empty();
        self.virtual_time = others.max(start);
        if is_awaited {
            self.lanes.note(class);
        }
    }

    /// A server that a class has had since then is free again.
    #[inline]
    pub fn end(&mut self, class: ClassId, since: Time, now: Time) {
        let lane = self.lanes.lane_mut(class);
        lane.account.end(lane.terms.weight, since, now);
        // Where nobody waits, nobody may be served, before and after.
        if !lane.queue.is_empty() {
            self.lanes.note(class);
        }
    }

    /// Those that wait or have servers here.
    pub fn at_work(&self) -> ClassSet {
        let mut classes = ClassSet::default();
        for (class, _) in self.lanes.iter().filter(|(_, lane)| !lane.queue.is_empty() || lane.account.active() > 0) {
            classes.insert(class);
        }
        classes
    }

    /// From when on a link of this class is long.
    pub fn long_after_us(&self, class: ClassId) -> Option<u64> {
        self.lanes.lane(class).terms.long_after_us
    }

    /// Everybody, oldest first in each class.
    pub fn waiters(&self) -> impl Iterator<Item = Waiter> {
        self.lanes.iter().flat_map(|(_, lane)| lane.queue.waiters())
    }

    /// The classes, if there are several.
    pub fn counts(&self, now: Time) -> impl Iterator<Item = ClassCounts> {
        self.lanes.iter().filter(|_| self.is_counted()).map(move |(class, lane)| ClassCounts {
            class,
            waiting: lane.queue.len(),
            eligible: lane.servable(),
            active: lane.account.active(),
            served_us: lane.account.served_us(now),
            served_after_wait: lane.wait_times.count,
            wait_us: lane.wait_times.sum_us,
            wait_max_us: lane.wait_times.max_us.max(lane.waited(now)),
        })
    }

    /// Whether there are several classes.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.lanes.is_counted()
    }

    /// How many classes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Which classes have a waiter that may be served.
    pub fn eligible(&self) -> ClassSet {
        self.lanes.eligible()
    }
}

#[cfg(test)]
mod tests;
