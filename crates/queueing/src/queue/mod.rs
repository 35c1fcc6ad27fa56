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
//! server time, less the longest link of any class on each server and [`Account`]'s estimate of what has just begun, whatever
//! the others do. No server stays idle while an eligible session waits: one whose class is below its maximum.
//! With one class all of this is one queue, and nothing is counted.
//!
//! A pool that lives on several workers has a queue on each. What the others' servers do for a class is charged here too, as soon
//! as the board tells it ([`neighbours`]): each queue divides its own servers so that the sum is fair.

mod account;
mod class_queue;
mod counts;
mod neighbours;
mod pace;

use std::time::Duration;

use units::{ConnId, Time, WorkerId};

use crate::classes::{Class, ClassId, ClassSet, Classes, DEFAULT};

use account::Account;
pub use class_queue::{ClassQueue, Waiter};
pub use counts::ClassCounts;
use neighbours::Elsewhere;
pub use neighbours::Stranger;
use pace::Pace;

#[derive(Debug)]
pub struct Queue {
    /// Indexed by [`ClassId`]; the first is always there.
    lanes: Vec<Lane>,
    /// There are several classes, or there is a maximum for all.
    counted: bool,
    /// All have the same priority: nobody is lifted to another's.
    level: bool,
    len: u32,
    /// Classes with a waiter that may be served, kept in step with queues and accounts: no decision looks at the others.
    eligible: ClassSet,
    /// The virtual time at which the last link began: where a class begins that had nothing to do.
    virtual_time: u64,
    ageing_us: u64,
    /// What the board has shown of other workers so far.
    elsewhere: Elsewhere,
    /// By worker, which version of its row that was.
    versions_read: Vec<u64>,
}

/// One class here.
#[derive(Debug, Default)]
struct Lane {
    queue: ClassQueue,
    account: Account,
    terms: Terms,
    wait_times: WaitTimes,
    pace: Pace,
    /// Requests whose wait ended with an error, or would have been too long.
    refused: u64,
}

/// What a class may claim here.
#[derive(Copy, Clone, Debug)]
struct Terms {
    weight: u32,
    priority: u8,
    min: u32,
    max: u32,
    /// A link of so many microseconds is long.
    long_after_us: Option<u64>,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { weight: 1, priority: 0, min: 0, max: u32::MAX, long_after_us: None }
    }
}

impl Terms {
    /// Of a pool that lives on so many workers: each has its part of what is counted in servers.
    fn new(class: &Class, homes: u16) -> Terms {
        let homes = u32::from(homes.max(1));
        Terms {
            weight: class.weight.max(1),
            priority: class.priority,
            min: class.min.div_ceil(homes),
            max: class.max.map_or(u32::MAX, |max| (max / homes).max(1)),
            long_after_us: class.long.map(|long| long.after.as_micros() as u64),
        }
    }
}

/// How long a class's waiters have waited.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct WaitTimes {
    pub count: u64,
    pub(crate) sum_us: u64,
    pub max_us: u64,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue::new(&Classes::default(), 1)
    }
}

impl Lane {
    fn is_eligible(&self) -> bool {
        !self.queue.is_empty() && self.has_room()
    }

    fn has_room(&self) -> bool {
        self.account.active() < self.terms.max
    }

    fn virtual_time(&self, now: Time) -> u64 {
        self.account.virtual_time(self.terms.weight, now)
    }

    /// It is to have something to do from now on. `others`: where those are that have something already.
    fn awake(&mut self, now: Time, others: u64) {
        if self.queue.is_empty() && self.account.active() == 0 {
            self.account.awake(self.terms.weight, now, others);
        }
    }

    /// How long its oldest waiter has waited.
    fn waited(&self, now: Time) -> u64 {
        self.queue.front().map_or(0, |waiter| now.micros_since(waiter.since))
    }

    /// How many of its waiters may be served.
    fn servable(&self) -> u32 {
        self.queue.len().min(self.terms.max - self.account.active().min(self.terms.max))
    }

    /// Less is sooner.
    fn rank(&self, now: Time, ageing_us: u64, top: Option<u8>) -> (bool, i64, u64) {
        let priority = top.map_or(0, |top| self.priority(self.waited(now), ageing_us, top));
        (self.account.active() >= self.terms.min, -priority, self.virtual_time(now))
    }

    /// Of a waiter that has waited for so long, in microseconds. Ageing makes it an equal of those at the `top`, and no
    /// more: among equals server time decides, or a class with more clients than its share can serve would be old for ever.
    fn priority(&self, waited: u64, ageing_us: u64, top: u8) -> i64 {
        let aged = waited.checked_div(ageing_us).unwrap_or(0).min(256);
        let own = i64::from(self.terms.priority);
        (own + aged as i64).min(own.max(top.into()))
    }
}

impl Queue {
    pub fn new(classes: &Classes, homes: u16) -> Queue {
        let lane = |class: &Class| Lane { terms: Terms::new(class, homes), ..Lane::default() };
        let counted = classes.counts_servers();
        let lanes = if counted { classes.all.iter().map(lane).collect() } else { vec![Lane::default()] };
        Queue {
            level: lanes.iter().all(|lane: &Lane| lane.terms.priority == lanes[0].terms.priority),
            lanes,
            counted,
            len: 0,
            eligible: ClassSet::default(),
            virtual_time: 0,
            ageing_us: classes.ageing.as_micros() as u64,
            elsewhere: Elsewhere::default(),
            versions_read: Vec::new(),
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
        if self.is_single() { self.len } else { self.eligible.iter().map(|class| self.lane(class).servable()).sum() }
    }

    /// Whether a session waits that would be given an idle server.
    #[inline]
    pub fn has_waiters(&self) -> bool {
        if self.is_single() { self.len > 0 } else { !self.eligible.is_empty() }
    }

    /// Whether a session that comes now is given an idle server at once.
    #[inline]
    pub fn admits(&self, class: ClassId) -> bool {
        !self.has_waiters() && self.lane(class).has_room()
    }

    /// A session waits from now on; its ticket.
    pub fn push(&mut self, class: ClassId, session: ConnId, since: Time, now: Time) -> u64 {
        self.len += 1;
        let (is_single, others) = (self.is_single(), self.virtual_time);
        let lane = self.lane_mut(class);
        if !is_single {
            lane.awake(now, others);
        }
        let ticket = lane.queue.push(session, since);
        self.note(class);
        ticket
    }

    /// A session stops waiting without having been served.
    pub fn leave(&mut self, class: ClassId, ticket: u64) {
        self.lane_mut(class).queue.leave(ticket);
        self.len -= 1;
        self.note(class);
    }

    /// The session that has waited longest of all that may be served.
    pub fn oldest(&self) -> Option<Waiter> {
        if self.is_single() {
            return self.lanes[0].queue.front();
        }
        self.eligible.iter().filter_map(|class| self.oldest_of(class)).min_by_key(|waiter| waiter.since)
    }

    /// How many of a class wait.
    pub fn waiting(&self, class: ClassId) -> u32 {
        self.lane(class).queue.len()
    }

    /// The session of a class that has waited longest.
    pub fn oldest_of(&self, class: ClassId) -> Option<Waiter> {
        self.lane(class).queue.front()
    }

    /// The session that has waited longest, whether it may be served or not.
    pub fn oldest_of_all(&self) -> Option<Waiter> {
        self.lanes.iter().filter_map(|lane| lane.queue.front()).min_by_key(|waiter| waiter.since)
    }

    /// A session of a class was refused.
    pub fn refused(&mut self, class: ClassId) {
        self.lane_mut(class).refused += 1;
    }

    /// The session that is next: the oldest waiter of the class that is next.
    #[inline]
    pub fn pop(&mut self, now: Time) -> Option<Waiter> {
        if self.len == 0 {
            return None;
        }
        let index = if self.is_single() { 0 } else { self.next(now)? };
        self.pop_of(index, now)
    }

    fn pop_of(&mut self, index: usize, now: Time) -> Option<Waiter> {
        let lane = &mut self.lanes[index];
        let waiter = lane.queue.pop()?;
        self.len -= 1;
        lane.wait_times.add(now.micros_since(waiter.since));
        lane.pace.moved(now);
        self.note(ClassId(index as u8));
        Some(waiter)
    }

    /// The first one of a class is about to wait. `service_us`: the mean time of a link, 0 if that is unknown; `busy`: servers
    /// that serve this queue now.
    pub fn queue_begins(&mut self, class: ClassId, now: Time, service_us: u64, busy: u32) {
        let lane = self.lane_mut(class);
        debug_assert!(lane.queue.is_empty(), "a line begins with its first waiter");
        let busy = if lane.has_room() { busy } else { lane.account.active() };
        lane.pace.begin(now, service_us, busy);
    }

    /// A session's place in the queue of its class, and how many are in it.
    pub fn place(&self, class: ClassId, ticket: u64) -> Option<(u32, u32)> {
        let line = &self.lane(class).queue;
        line.place(ticket).map(|place| (place, line.len()))
    }

    /// How long the session at this place of its class's queue will wait from now on; `None`: that is unknown.
    pub fn expected_wait(&self, class: ClassId, now: Time, place: u32) -> Option<Duration> {
        self.lane(class).pace.expected(now, place)
    }

    /// Whether a class has as many servers as it may.
    pub fn is_at_its_maximum(&self, class: ClassId) -> bool {
        !self.lane(class).has_room()
    }

    /// The class that is next.
    pub fn next_class(&self, now: Time) -> Option<ClassId> {
        self.next(now).map(|index| ClassId(index as u8))
    }

    fn next(&self, now: Time) -> Option<usize> {
        if self.is_single() {
            return (self.len > 0).then_some(0);
        }
        debug_assert!(self.is_in_step(), "who is eligible is noted with every change");
        let next = self.eligible.only().or_else(|| {
            let top = (!self.level).then(|| self.top());
            self.eligible.iter().min_by_key(|class| self.lane(*class).rank(now, self.ageing_us, top))
        });
        next.map(|class| usize::from(class.0))
    }

    /// The highest priority, ageing apart, of the sessions that may be served here.
    fn top(&self) -> u8 {
        self.eligible.iter().map(|class| self.lane(class).terms.priority).max().unwrap_or(0)
    }

    /// Serves the newest first: a deliberate fault, for showing that the simulator sees it.
    #[cfg(feature = "sabotage")]
    pub fn pop_newest(&mut self) -> Option<Waiter> {
        let (index, waiter) =
            self.lanes.iter_mut().enumerate().find_map(|(index, lane)| Some((index, lane.queue.pop_newest()?)))?;
        self.len -= 1;
        self.note(ClassId(index as u8));
        Some(waiter)
    }

    /// Serves the session that has waited longest, whatever its class has had: another one.
    #[cfg(feature = "sabotage")]
    pub fn pop_oldest(&mut self, now: Time) -> Option<Waiter> {
        let front = |index: usize| self.lanes[index].queue.front().filter(|_| self.lanes[index].is_eligible());
        let index = (0..self.lanes.len()).filter(|index| front(*index).is_some());
        let index = index.min_by_key(|index| front(*index).map(|waiter| waiter.since))?;
        self.pop_of(index, now)
    }

    /// A class has a server from now on.
    #[inline]
    pub fn begin(&mut self, class: ClassId, now: Time) {
        let others = self.virtual_time;
        let lane = self.lane_mut(class);
        lane.awake(now, others);
        let start = lane.virtual_time(now);
        lane.account.begin(now);
        let is_awaited = !lane.queue.is_empty();
        self.virtual_time = others.max(start);
        if is_awaited {
            self.note(class);
        }
    }

    /// A server that a class has had since then is free again.
    #[inline]
    pub fn end(&mut self, class: ClassId, since: Time, now: Time) {
        let lane = self.lane_mut(class);
        lane.account.end(lane.terms.weight, since, now);
        // Where nobody waits, nobody may be served, before and after.
        if !lane.queue.is_empty() {
            self.note(class);
        }
    }

    /// Those that wait or have servers here.
    pub fn at_work(&self) -> ClassSet {
        let mut classes = ClassSet::default();
        for (index, lane) in self.lanes.iter().enumerate() {
            if !lane.queue.is_empty() || lane.account.active() > 0 {
                classes.insert(ClassId(index as u8));
            }
        }
        classes
    }

    /// From when on a link of this class is long.
    pub fn long_after_us(&self, class: ClassId) -> Option<u64> {
        self.lane(class).terms.long_after_us
    }

    /// Everybody, oldest first in each class.
    pub fn waiters(&self) -> impl Iterator<Item = Waiter> {
        self.lanes.iter().flat_map(|lane| lane.queue.waiters())
    }

    /// The classes, if there are several.
    pub fn counts(&self, now: Time) -> impl Iterator<Item = ClassCounts> {
        let lanes = if self.is_counted() { &self.lanes[..] } else { &[] };
        lanes.iter().enumerate().map(move |(index, lane)| ClassCounts {
            class: ClassId(index as u8),
            waiting: lane.queue.len(),
            eligible: lane.servable(),
            active: lane.account.active(),
            served_us: lane.account.served_us(now),
            served_after_wait: lane.wait_times.count,
            wait_us: lane.wait_times.sum_us,
            wait_max_us: lane.wait_times.max_us.max(lane.waited(now)),
            refused: lane.refused,
        })
    }

    /// Whether a worker has shown something since this was last asked: its row has a version that was not read yet.
    pub fn is_news(&mut self, worker: WorkerId, version: u64) -> bool {
        let index = usize::from(worker.0);
        if self.versions_read.len() <= index {
            self.versions_read.resize(index + 1, 0);
        }
        std::mem::replace(&mut self.versions_read[index], version) != version
    }

    /// Whether there are several classes.
    #[inline]
    pub fn is_counted(&self) -> bool {
        self.counted
    }

    /// How many classes there are.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    fn is_single(&self) -> bool {
        !self.is_counted()
    }

    /// A queue, or how many servers its class has, has changed.
    fn note(&mut self, class: ClassId) {
        if self.counted {
            let class = if usize::from(class.0) < self.lanes.len() { class } else { DEFAULT };
            self.eligible.set(class, self.lane(class).is_eligible());
        }
    }

    /// Which classes have a waiter that may be served.
    pub fn eligible(&self) -> ClassSet {
        self.eligible
    }

    /// Whether queues and accounts say the same.
    fn is_in_step(&self) -> bool {
        (0..).zip(&self.lanes).all(|(class, lane)| self.eligible.contains(ClassId(class)) == lane.is_eligible())
    }

    fn lane(&self, class: ClassId) -> &Lane {
        self.lanes.get(usize::from(class.0)).unwrap_or(&self.lanes[0])
    }

    fn lane_mut(&mut self, class: ClassId) -> &mut Lane {
        let index = usize::from(class.0);
        let index = if index < self.lanes.len() { index } else { 0 };
        &mut self.lanes[index]
    }
}

impl WaitTimes {
    fn add(&mut self, micros: u64) {
        self.count += 1;
        self.sum_us += micros;
        self.max_us = self.max_us.max(micros);
    }
}

#[cfg(test)]
mod tests;
