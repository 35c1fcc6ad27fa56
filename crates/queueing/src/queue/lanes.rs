//! A lane for each class: its waiters, its account of server time, what it may claim; and which of them have a waiter that may
//! be served.
//!
//! Promises that who is eligible is known after each change that is noted ([`Lanes::note`]). Does not know which class is next.

use units::Time;

use super::account::Account;
use super::class_queue::ClassQueue;
use super::pace::Pace;
use crate::classes::{Class, ClassId, ClassSet, Classes, DEFAULT};

/// Of one queue.
#[derive(Debug)]
pub(super) struct Lanes {
    /// Indexed by [`ClassId`]; the first is always there.
    all: Vec<Lane>,
    /// There are several classes, or there is a maximum for all.
    counted: bool,
    /// All have the same priority: nobody is lifted to another's.
    level: bool,
    /// Classes with a waiter that may be served, kept in step with queues and accounts: no decision looks at the others.
    eligible: ClassSet,
}

impl Lanes {
    pub(super) fn new(classes: &Classes, homes: u16) -> Lanes {
        let lane = |class: &Class| Lane { terms: Terms::new(class, homes), ..Lane::default() };
        let counted = classes.counts_servers();
        let all = if counted { classes.all.iter().map(lane).collect() } else { vec![Lane::default()] };
        let level = all.iter().all(|lane: &Lane| lane.terms.priority == all[0].terms.priority);
        Lanes { all, counted, level, eligible: ClassSet::default() }
    }

    /// Whether there are several classes.
    #[inline]
    pub(super) fn is_counted(&self) -> bool {
        self.counted
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ClassId, &Lane)> {
        (0..).map(ClassId).zip(&self.all)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane> {
        self.all.iter_mut()
    }

    /// Of a class; one that is not known here counts as the first.
    #[inline]
    pub(super) fn lane(&self, class: ClassId) -> &Lane {
        self.all.get(usize::from(class.0)).unwrap_or(&self.all[0])
    }

    #[inline]
    pub(super) fn lane_mut(&mut self, class: ClassId) -> &mut Lane {
        let index = usize::from(class.0);
        let index = if index < self.all.len() { index } else { 0 };
        &mut self.all[index]
    }

    /// A queue, or how many servers its class has, has changed.
    #[inline]
    pub(super) fn note(&mut self, class: ClassId) {
        if self.counted {
            let class = if usize::from(class.0) < self.all.len() { class } else { DEFAULT };
            self.eligible.set(class, self.lane(class).is_eligible());
        }
    }

    /// Which classes have a waiter that may be served.
    #[inline]
    pub(super) fn eligible(&self) -> ClassSet {
        debug_assert!(!self.counted || self.is_in_step(), "who is eligible is noted with every change");
        self.eligible
    }

    /// Whether queues and accounts say the same.
    fn is_in_step(&self) -> bool {
        self.iter().all(|(class, lane)| self.eligible.contains(class) == lane.is_eligible())
    }

    /// How many waiters may be served, if there are servers.
    pub(super) fn servable(&self) -> u32 {
        self.eligible().iter().map(|class| self.lane(class).servable()).sum()
    }

    /// The highest priority, ageing apart, of the sessions that may be served here.
    pub(super) fn top(&self) -> u8 {
        self.eligible().iter().map(|class| self.lane(class).terms.priority).max().unwrap_or(0)
    }

    /// The same where it lifts anybody.
    pub(super) fn top_that_lifts(&self) -> Option<u8> {
        (!self.level).then(|| self.top())
    }
}

/// One class here.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) queue: ClassQueue,
    pub(super) account: Account,
    pub(super) terms: Terms,
    pub(super) wait_times: WaitTimes,
    pub(super) pace: Pace,
}

/// What a class may claim here.
#[derive(Copy, Clone, Debug)]
pub(super) struct Terms {
    pub(super) weight: u32,
    pub(super) priority: u8,
    pub(super) min: u32,
    max: u32,
    /// A link of so many microseconds is long.
    pub(super) long_after_us: Option<u64>,
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

impl Lane {
    pub(super) fn is_eligible(&self) -> bool {
        !self.queue.is_empty() && self.has_room()
    }

    pub(super) fn has_room(&self) -> bool {
        self.account.active() < self.terms.max
    }

    pub(super) fn virtual_time(&self, now: Time) -> u64 {
        self.account.virtual_time(self.terms.weight, now)
    }

    /// It is to have something to do from now on. `others`: where those are that have something already.
    pub(super) fn awake(&mut self, now: Time, others: u64) {
        if self.queue.is_empty() && self.account.active() == 0 {
            self.account.awake(self.terms.weight, now, others);
        }
    }

    /// How long its oldest waiter has waited.
    pub(super) fn waited(&self, now: Time) -> u64 {
        self.queue.front().map_or(0, |waiter| now.micros_since(waiter.since))
    }

    /// How many of its waiters may be served.
    pub(super) fn servable(&self) -> u32 {
        self.queue.len().min(self.terms.max - self.account.active().min(self.terms.max))
    }

    /// Less is sooner.
    pub(super) fn rank(&self, now: Time, ageing_us: u64, top: Option<u8>) -> (bool, i64, u64) {
        let priority = top.map_or(0, |top| self.priority(self.waited(now), ageing_us, top));
        (self.account.active() >= self.terms.min, -priority, self.virtual_time(now))
    }

    /// Of a waiter that has waited for so long, in microseconds. Ageing makes it an equal of those at the `top`, and no
    /// more: among equals server time decides, or a class with more clients than its share can serve would be old for ever.
    pub(super) fn priority(&self, waited: u64, ageing_us: u64, top: u8) -> i64 {
        let aged = waited.checked_div(ageing_us).unwrap_or(0).min(256);
        let own = i64::from(self.terms.priority);
        (own + aged as i64).min(own.max(top.into()))
    }
}

impl WaitTimes {
    pub(super) fn add(&mut self, micros: u64) {
        self.count += 1;
        self.sum_us += micros;
        self.max_us = self.max_us.max(micros);
    }
}

#[cfg(test)]
mod tests {
    use units::{ConnId, Kind};

    use super::*;
    use crate::classes::{Pattern, Rule};

    fn lanes(classes: &[(u8, Option<u32>)]) -> Lanes {
        let class = |&(priority, max)| Class { priority, max, ..Class::new("c") };
        let any = || vec![Pattern::All];
        let rule = Rule { databases: any(), users: any(), applications: any(), tags: Vec::new(), class: DEFAULT };
        let rules = if classes.len() > 1 { vec![rule] } else { Vec::new() };
        Lanes::new(&Classes { all: classes.iter().map(class).collect(), rules, ..Classes::default() }, 1)
    }

    fn wait(lanes: &mut Lanes, class: u8) {
        lanes.lane_mut(ClassId(class)).queue.push(ConnId::new(Kind::Client, 0, 1, 0), Time(0));
        lanes.note(ClassId(class));
    }

    #[test]
    fn a_class_at_its_maximum_is_not_eligible() {
        let mut lanes = lanes(&[(0, None), (3, Some(1))]);
        wait(&mut lanes, 1);
        assert_eq!((lanes.servable(), lanes.top(), lanes.top_that_lifts()), (1, 3, Some(3)));
        lanes.lane_mut(ClassId(1)).account.begin(Time(0));
        lanes.note(ClassId(1));
        assert_eq!((lanes.servable(), lanes.top()), (0, 0));
        lanes.lane_mut(ClassId(1)).account.end(1, Time(0), Time(5));
        lanes.note(ClassId(1));
        assert!(lanes.eligible().contains(ClassId(1)));
    }

    #[test]
    fn an_unknown_class_counts_as_the_first() {
        let mut lanes = lanes(&[(0, None), (0, Some(1))]);
        wait(&mut lanes, 9);
        assert_eq!(lanes.eligible().only(), Some(DEFAULT));
        assert_eq!(lanes.top_that_lifts(), None, "all have one priority");
    }

    #[test]
    fn a_single_class_is_not_counted() {
        let mut lanes = lanes(&[(0, None)]);
        wait(&mut lanes, 0);
        assert!(!lanes.is_counted() && lanes.eligible().is_empty());
    }
}
