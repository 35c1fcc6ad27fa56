//! Slow transactions that wait for something which servers do not share: more servers do more. PostgreSQL says so at once, where throughput
//! would take minutes.
//!
//! ```text
//!   60 sessions, 4 servers, statements of 0.5 s         8 transactions a second: a window of 32 lasts 4 s
//!   of 4 busy: 0 compute, 4 wait for Timeout PgSleep ──► 16 servers ──► 64: nobody waits
//!   of 60 busy: 40 wait for Lock tuple             ──► 16 again, then halfway
//! ```
//!
//! Does not judge fast transactions: of these throughput tells more, and soon enough.

use std::time::Duration;

use units::Time;

use super::evidence::Seen;
use super::ladder::Ladder;
use super::{PAUSE_MAX, REST_MIN};
use crate::wait_events::WaitCounts;

/// Transactions that take less are fast: a server ends 20 in a second.
const SLOW: Duration = Duration::from_millis(50);

/// Observations of this long are added up; then they count half.
const MEMORY: Duration = Duration::from_secs(4);

/// Where no transaction has ended for so long, they are slow.
const SILENCE: Duration = Duration::from_millis(400);

/// At most this part of the servers computes, or waits for what servers share.
const SHARED_MAX: f64 = 0.3;

/// From this part on, more servers are of no use.
const SHARED_MIN: f64 = 0.5;

/// So many servers must have been seen before a size is judged to be too large, or neither. Each look weighs less than the next one by this.
const SEEN_MIN: f64 = 6.0;
const FADING: f64 = 0.75;

/// Rungs that it goes at once: a factor of four.
const RUNGS: usize = 4;

/// A size that was too large is not tried again within this time.
const BOUND: Duration = Duration::from_secs(60);

/// How slow transactions are at the present size, and whether more servers were opened for that.
#[derive(Clone, Debug)]
pub(super) struct Climb {
    span: Duration,
    completed: u64,
    busy: Duration,
    /// Servers that were seen at what all of them share, and servers that were seen at anything.
    shared: f64,
    all: f64,
    /// The rung from which it has climbed last, and the one from which it has climbed first.
    from: Option<usize>,
    first: Option<usize>,
    /// At this rung servers shared what they waited for, and until when that counts.
    bound: Option<(usize, Time)>,
    /// Throughput is to be looked at from then on.
    search_at: Option<Time>,
    /// No climb before this, and how long after the next one that was of no use.
    not_before: Time,
    rest: Duration,
}

impl Default for Climb {
    fn default() -> Climb {
        Climb {
            span: Duration::ZERO,
            completed: 0,
            busy: Duration::ZERO,
            shared: 0.0,
            all: 0.0,
            from: None,
            first: None,
            bound: None,
            search_at: None,
            not_before: Time::ZERO,
            rest: REST_MIN,
        }
    }
}

impl Climb {
    /// The size has changed: observations of the old one do not count.
    pub(super) fn forget(&mut self) {
        (self.span, self.completed, self.busy) = (Duration::ZERO, 0, Duration::ZERO);
        (self.shared, self.all) = (0.0, 0.0);
    }

    /// PostgreSQL has answered the query for wait events.
    pub(super) fn add_wait_counts(&mut self, waits: &WaitCounts) {
        let (shared, all) = waits.shared();
        (self.shared, self.all) = (self.shared * FADING + shared, self.all * FADING + all);
    }

    fn add(&mut self, seen: Seen) {
        if self.span > MEMORY {
            (self.span, self.completed, self.busy) = (self.span / 2, self.completed / 2, self.busy / 2);
        }
        self.span += seen.span;
        self.completed += seen.completed;
        self.busy += seen.busy;
    }

    fn is_slow(&self) -> bool {
        match u32::try_from(self.completed) {
            Ok(0) => self.span >= SILENCE,
            Ok(completed) => self.busy / completed >= SLOW,
            Err(_) => false,
        }
    }
}

/// The effect of more servers, by wait events.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// Too few were seen to tell.
    Unknown,
    /// They would do more.
    Useful,
    /// They would share what there is.
    Useless,
    /// Some of both.
    Mixed,
}

fn verdict(shared: f64, all: f64) -> Verdict {
    // A single server that computes is seen waiting now and then.
    if all > 0.0 && (shared + 1.0) / (all + 2.0) <= SHARED_MAX {
        Verdict::Useful
    } else if all < SEEN_MIN {
        Verdict::Unknown
    } else if shared / all >= SHARED_MIN {
        Verdict::Useless
    } else {
        Verdict::Mixed
    }
}

/// Where a size is.
#[derive(Copy, Clone, Debug)]
pub(super) struct Place {
    pub(super) rung: usize,
    /// The first rung that cannot be reached now.
    pub(super) blocked: usize,
    /// No search may begin before this; `None`: one is under way, or nobody has waited yet.
    pub(super) search_from: Option<Time>,
}

/// The change of the size.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Go up to this rung.
    Up(usize),
    /// Go back to this rung.
    Back(usize),
    /// Begin a search.
    Search,
}

impl Climb {
    /// The change of the size that follows from this observation. `None`: it stays.
    pub(super) fn decide(&mut self, now: Time, seen: Seen, ladder: &Ladder, place: Place) -> Option<Decision> {
        self.add(seen);
        let is_slow = self.is_slow();
        match verdict(self.shared, self.all) {
            Verdict::Useless if self.from.is_some() => return self.go_back(now, place),
            _ if seen.waiting == 0 => return None,
            Verdict::Useful if is_slow => {
                let needed = ladder.above(seen.open.saturating_add(seen.waiting));
                let rung = self.next(now, place).min(needed);
                if rung > place.rung && now >= self.not_before {
                    self.first.get_or_insert(place.rung);
                    (self.from, self.search_at) = (Some(place.rung), None);
                    return Some(Decision::Up(rung));
                }
            }
            // Throughput is to show whether this size is the best.
            Verdict::Useful | Verdict::Mixed if !is_slow && self.has_climbed() => {
                (self.from, self.first) = (None, None);
                self.search_at.get_or_insert(now);
            }
            _ => {}
        }
        let may_search = place.search_from.is_some_and(|at| now >= at) && !is_slow;
        let is_due = may_search && self.search_at.is_some_and(|at| now >= at);
        is_due.then(|| {
            self.search_at = None;
            Decision::Search
        })
    }

    /// Whether the size is one that it has climbed to. Then it is looked whether servers still wait for what they do not share.
    pub(super) fn has_climbed(&self) -> bool {
        self.first.is_some()
    }

    /// As far as it may go at once: halfway to a size that was too large.
    fn next(&self, now: Time, place: Place) -> usize {
        let bound = self.bound.filter(|(_, until)| now < *until);
        let half = bound.map_or(usize::MAX, |(rung, _)| (place.rung + rung) / 2);
        (place.rung + RUNGS).min(place.blocked.saturating_sub(1)).min(half)
    }

    /// To the last size at which servers shared nothing; if they do there now, to the first.
    fn go_back(&mut self, now: Time, place: Place) -> Option<Decision> {
        let from = self.from.take()?;
        self.bound = Some((place.rung, now + BOUND));
        self.not_before = now + self.rest;
        self.rest = (self.rest * 2).min(PAUSE_MAX);
        self.search_at = place.search_from.or(Some(now));
        self.first = self.first.filter(|first| *first < from);
        self.from = self.first;
        Some(Decision::Back(from.min(place.rung)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{LOOK, Sizing};
    use super::*;

    /// Its type and its event, as PostgreSQL names them.
    type Wait = (Option<&'static str>, Option<&'static str>);

    const SLEEP: Wait = (Some("Timeout"), Some("PgSleep"));
    const COMPUTE: Wait = (None, None);

    /// Clients that ask again as soon as they are answered. One server more is opened each look, and PostgreSQL is asked when one is free.
    struct Load {
        now: Time,
        open: u32,
        clients: u32,
        seconds: f64,
        waits: Vec<(Wait, f64)>,
        /// Servers beyond so many wait for a lock.
        unlocked: u32,
        /// Transactions that have been done in part.
        done: f64,
    }

    impl Load {
        fn sleeping(clients: u32, seconds: f64) -> Load {
            Load {
                now: Time::ZERO,
                open: 0,
                clients,
                seconds,
                waits: vec![(SLEEP, 1.0)],
                unlocked: u32::MAX,
                done: 0.0,
            }
        }

        fn run(&mut self, sizing: &mut Sizing, span: Duration) {
            let end = self.now + span;
            while self.now < end {
                self.open = sizing.size().min(self.clients.max(self.open)).min(self.open + 8);
                let busy = self.open.min(self.clients);
                self.done += f64::from(busy.min(self.unlocked)) * LOOK.as_secs_f64() / self.seconds;
                let completed = self.done.floor();
                self.done -= completed;
                self.now = self.now + LOOK;
                if completed > 0.0 {
                    let free = busy.min(self.unlocked);
                    let count = |part: f64| (part * f64::from(free)).round() as u32;
                    let rows = self.waits.iter().map(|((kind, event), part)| (*kind, *event, count(*part)));
                    let locked = (Some("Lock"), Some("tuple"), busy - free);
                    sizing.add_wait_counts(&WaitCounts::of_rows(rows.chain([locked])));
                }
                let seen = Seen {
                    span: LOOK,
                    completed: completed as u64,
                    busy: Duration::from_secs_f64(completed * self.seconds),
                    waited: LOOK * (self.clients - busy),
                    waiting: self.clients - busy,
                    open: self.open,
                };
                sizing.observe(self.now, seen);
            }
        }
    }

    #[test]
    fn statements_that_wait_get_a_server_each_within_seconds() {
        for (clients, seconds, ceiling, expected) in [
            (60, 0.5, 80, 64),
            (60, 0.1, 80, 64),
            (60, 2.0, 80, 64),
            (10, 0.5, 80, 11),
            (60, 0.5, 20, 20),
            (3000, 2.0, 80, 80),
            (5, 2.0, 80, 6),
        ] {
            let mut sizing = Sizing::new(2, ceiling, 4);
            let mut load = Load::sleeping(clients, seconds);
            load.run(&mut sizing, Duration::from_secs(8));
            assert_eq!(sizing.size(), expected, "{clients} clients, {seconds} s: {:?}", sizing.account());
            load.run(&mut sizing, Duration::from_secs(120));
            assert!(sizing.size() >= expected * 7 / 10, "{clients} clients, {seconds} s: {:?}", sizing.account());
        }
    }

    #[test]
    fn statements_that_compute_or_share_get_no_more_for_that() {
        for shared in [
            COMPUTE,
            (Some("IO"), Some("DataFileRead")),
            (Some("Lock"), Some("tuple")),
            (Some("IPC"), Some("ExecuteGather")),
        ] {
            let mut sizing = Sizing::new(2, 80, 4);
            let mut load = Load::sleeping(60, 2.0);
            load.waits = vec![(shared, 1.0)];
            load.run(&mut sizing, Duration::from_secs(60));
            assert!(sizing.size() <= 6 && !sizing.waits.have_decided(), "{shared:?}: {:?}", sizing.account());
        }
    }

    #[test]
    fn it_goes_back_when_servers_compute() {
        let mut sizing = Sizing::new(2, 80, 4);
        let mut load = Load::sleeping(60, 0.5);
        load.run(&mut sizing, Duration::from_secs(8));
        assert_eq!(sizing.size(), 64);
        (load.clients, load.waits) = (200, vec![(COMPUTE, 0.75), (SLEEP, 0.25)]);
        load.run(&mut sizing, Duration::from_millis(2200));
        let snapshot = sizing.account();
        assert!(snapshot.changes.iter().any(|change| change.from >= 64 && change.to == 4), "{snapshot:?}");
    }

    #[test]
    fn it_goes_back_when_servers_share_though_nobody_waits_for_one() {
        let mut sizing = Sizing::new(2, 80, 4);
        let mut load = Load::sleeping(60, 0.5);
        load.run(&mut sizing, Duration::from_secs(8));
        assert_eq!(sizing.size(), 64);
        load.unlocked = 1;
        load.run(&mut sizing, Duration::from_secs(4));
        assert!(sizing.size() <= 16, "{:?}", sizing.account());
    }

    #[test]
    fn a_size_between_is_found_and_kept() {
        let mut sizing = Sizing::new(2, 80, 4);
        let mut load = Load::sleeping(60, 0.3);
        load.unlocked = 20;
        load.run(&mut sizing, Duration::from_secs(40));
        let (size, changes) = (sizing.size(), sizing.account().change_count);
        assert!((16..=32).contains(&size), "{:?}", sizing.account());
        load.run(&mut sizing, Duration::from_secs(120));
        assert!(sizing.account().change_count <= changes + 12, "{:?}", sizing.account());
        assert!((11..=45).contains(&sizing.size()), "{:?}", sizing.account());
    }

    #[test]
    fn throughput_decides_where_transactions_are_fast() {
        let mut sizing = Sizing::new(2, 80, 4);
        let mut load = Load::sleeping(60, 0.005);
        load.run(&mut sizing, Duration::from_secs(1));
        assert!(!sizing.waits.have_decided() && sizing.is_searching(), "{:?}", sizing.account());
    }

    #[test]
    fn a_few_servers_that_do_not_compute_just_then_are_no_reason() {
        for (compute, sleep, expected) in [
            (0, 0, Verdict::Unknown),
            (0, 1, Verdict::Unknown),
            (0, 2, Verdict::Useful),
            (1, 3, Verdict::Unknown),
            (2, 3, Verdict::Unknown),
            (1, 7, Verdict::Useful),
            (3, 5, Verdict::Mixed),
            (4, 4, Verdict::Useless),
            (3, 0, Verdict::Unknown),
        ] {
            let found = verdict(f64::from(compute), f64::from(compute + sleep));
            assert_eq!(found, expected, "{compute} compute, {sleep} sleep");
        }
    }
}
