//! Several workers, mail that comes late, and a clock of its own: what limits promise, over many seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use units::random::Random;
use units::{Time, WorkerId};

use super::permit_lease::PermitLease;
use super::permit_source::{PermitChanges, PermitSource};
use super::rate_lease::RateLease;
use super::rate_source::RateSource;
use super::{AHEAD, Allowance, CallBack};
use crate::classes::Rate;
use ::settings::Over;

/// What happens at a moment; moments of the same time happen in order of their making.
struct Agenda<E> {
    events: BTreeMap<(Time, u64), E>,
    made: u64,
    random: Random,
}

impl<E> Agenda<E> {
    fn new(seed: u8) -> Agenda<E> {
        Agenda { events: BTreeMap::new(), made: 0, random: Random::new([seed; 32]) }
    }

    fn below(&mut self, bound: u64) -> u64 {
        u64::from_le_bytes(self.random.bytes()) % bound.max(1)
    }

    fn add(&mut self, at: Time, event: E) {
        self.made += 1;
        self.events.insert((at, self.made), event);
    }

    fn next(&mut self, until: Time) -> Option<(Time, E)> {
        let first = self.events.first_entry().filter(|first| first.key().0 <= until)?;
        let ((at, _), event) = first.remove_entry();
        Some((at, event))
    }
}

/// The worker that an answer is for: there is no other process here.
fn worker_of(allowance: &Allowance) -> WorkerId {
    allowance.holder.worker().expect("only workers request anything")
}

const WORKERS: u16 = 4;
/// Of mail, in microseconds.
const LATE: u64 = 3000;

enum Flow {
    Want(WorkerId, u32),
    Unspent(u32),
    Allow(Allowance),
    Serve,
    /// Clients of this worker come.
    Come(WorkerId, u32),
    Look(WorkerId),
}

/// One rate over some workers; every event is noted.
struct River {
    agenda: Agenda<Flow>,
    rate_source: RateSource,
    rate_leases: Vec<RateLease>,
    waiting: Vec<u32>,
    events: Vec<Time>,
    refused: Vec<Time>,
    /// Mail of one sender keeps its order.
    last: BTreeMap<(bool, u16), Time>,
    late: u64,
    messages: u64,
}

impl River {
    fn new(seed: u8, rate: Rate, over: Over) -> River {
        River {
            agenda: Agenda::new(seed),
            rate_source: RateSource::new(rate, over, WORKERS, Time::ZERO),
            rate_leases: vec![RateLease::default(); usize::from(WORKERS)],
            waiting: vec![0; usize::from(WORKERS)],
            events: Vec::new(),
            refused: Vec::new(),
            last: BTreeMap::new(),
            late: LATE,
            messages: 0,
        }
    }

    fn post(&mut self, now: Time, upwards: bool, worker: WorkerId, mail: Flow) {
        let late = Duration::from_micros(self.agenda.below(self.late));
        let last = self.last.entry((upwards, worker.0)).or_default();
        *last = (*last).max(now + late);
        let at = *last;
        self.agenda.add(at, mail);
        self.messages += 1;
    }

    fn post_all(&mut self, now: Time, answers: Vec<Allowance>) {
        for answer in answers {
            self.post(now, false, worker_of(&answer), Flow::Allow(answer));
        }
        if let Some(at) = self.rate_source.next_serve() {
            self.agenda.add(at.max(now), Flow::Serve);
        }
    }

    /// Lets in whom there is something for, and asks for the rest.
    fn admit(&mut self, now: Time, worker: WorkerId) {
        let index = usize::from(worker.0);
        while self.waiting[index] > 0 && self.rate_leases[index].take() {
            self.waiting[index] -= 1;
            self.events.push(now);
        }
        if self.rate_leases[index].dry_until(now).is_some() && !self.rate_leases[index].has_requested() {
            self.refused.extend(std::iter::repeat_n(now, std::mem::take(&mut self.waiting[index]) as usize));
        }
        let more = self.rate_leases[index].request(now, self.waiting[index]);
        if more > 0 {
            self.post(now, true, worker, Flow::Want(worker, more));
        }
        if let Some(at) = self.rate_leases[index].next_at(now, self.waiting[index]) {
            self.agenda.add(at.max(now), Flow::Look(worker));
        }
    }

    fn run(&mut self, until: Time) {
        while let Some((now, event)) = self.agenda.next(until) {
            match event {
                Flow::Come(worker, count) => {
                    self.waiting[usize::from(worker.0)] += count;
                    self.admit(now, worker);
                }
                Flow::Want(worker, count) => {
                    let answers = self.rate_source.request(now, worker, count);
                    self.post_all(now, answers);
                }
                Flow::Unspent(count) => {
                    let answers = self.rate_source.unspent(now, count);
                    self.post_all(now, answers);
                }
                Flow::Serve if self.rate_source.next_serve().is_some_and(|at| at <= now) => {
                    let answers = self.rate_source.serve(now);
                    self.post_all(now, answers);
                }
                Flow::Serve => {}
                Flow::Allow(allowance) => {
                    let index = usize::from(worker_of(&allowance).0);
                    self.rate_leases[index].allowed(now, &allowance);
                    self.admit(now, worker_of(&allowance));
                }
                Flow::Look(worker) => {
                    let index = usize::from(worker.0);
                    let back = self.rate_leases[index].unspent(now, self.waiting[index]);
                    if back > 0 {
                        self.post(now, true, worker, Flow::Unspent(back));
                    }
                }
            }
        }
    }

    fn between(&self, from: Time, to: Time) -> usize {
        self.events.partition_point(|&at| at < to) - self.events.partition_point(|&at| at < from)
    }
}

const SECOND: Duration = Duration::from_secs(1);

fn rates() -> impl Iterator<Item = Rate> {
    [(1, 1), (1, 10), (100, 1), (100, 50), (10_000, 1), (10_000, 10_000)]
        .into_iter()
        .map(|(per_second, burst)| Rate { per_second, burst })
}

/// The bound that the module states, for a span.
fn most(rate: Rate, span: Duration) -> usize {
    let brings = (u128::from(rate.per_second) * span.as_micros()).div_ceil(1_000_000) as usize;
    let ahead = rate.per_second as usize * AHEAD.as_millis() as usize / 1000;
    // Of what is on its way: as much as comes while mail is late.
    let late = (u64::from(rate.per_second) * LATE).div_ceil(1_000_000) as usize;
    brings + rate.burst as usize + ahead * usize::from(WORKERS) + late
}

#[test]
fn who_always_waits_gets_the_rate_and_no_more_over_four_workers_with_late_mail() {
    for seed in 0..6 {
        for rate in rates() {
            let mut river = River::new(seed, rate, Over::Delay);
            for worker in 0..WORKERS {
                river.agenda.add(Time::ZERO, Flow::Come(WorkerId(worker), 200_000));
            }
            river.run(Time::ZERO + SECOND * 12);
            let after = Time::ZERO + SECOND;
            let counted = river.between(after, after + SECOND * 10) as f64;
            let wanted = f64::from(rate.per_second) * 10.0;
            let allowed = (wanted * 0.02).max(1.0);
            assert!((counted - wanted).abs() <= allowed, "seed {seed}, {rate:?}: {counted} in 10 s");
            assert!(river.between(Time::ZERO, Time::ZERO + SECOND) <= most(rate, SECOND), "seed {seed}, {rate:?}");
        }
    }
}

#[test]
fn clients_that_come_and_go_never_get_more_in_any_second() {
    for seed in 0..6 {
        for (rate, over) in rates().flat_map(|rate| [(rate, Over::Delay), (rate, Over::Reject)]) {
            let mut river = River::new(seed, rate, over);
            let mut at = 0;
            while at < 4_000_000 {
                let worker = WorkerId(river.agenda.below(u64::from(WORKERS)) as u16);
                let count = 1 + river.agenda.below(1 + u64::from(rate.per_second) / 100) as u32;
                river.agenda.add(Time(at), Flow::Come(worker, count));
                at += river.agenda.below(20_000);
            }
            river.run(Time::ZERO + SECOND * 5);
            for start in (0..4000).map(|tenth| Time(tenth * 1000)) {
                let counted = river.between(start, start + SECOND);
                assert!(counted <= most(rate, SECOND), "seed {seed}, {rate:?}, {over:?}: {counted} from {start:?}");
            }
            assert!(over == Over::Reject || river.refused.is_empty(), "seed {seed}, {rate:?}");
        }
    }
}

#[test]
fn who_is_refused_at_once_still_gets_the_rate_within_two_in_a_hundred() {
    for seed in 0..6 {
        // Nobody waits: what comes while nobody asks is kept only as far as the burst goes.
        for rate in rates().filter(|rate| u64::from(rate.burst) * 1_000_000 > u64::from(rate.per_second) * 20 * LATE) {
            let mut river = River::new(seed, rate, Over::Reject);
            for step in 0..(12_000_000 / 250) {
                let worker = WorkerId((step % u64::from(WORKERS)) as u16);
                river.agenda.add(Time(step * 250), Flow::Come(worker, 5));
            }
            river.run(Time::ZERO + SECOND * 12);
            let after = Time::ZERO + SECOND;
            let counted = river.between(after, after + SECOND * 10) as f64;
            let wanted = f64::from(rate.per_second) * 10.0;
            let left_of_burst = if rate.burst > 1000 { f64::from(rate.burst) } else { 0.0 };
            assert!(counted <= wanted * 1.02 + 1.0 + left_of_burst, "seed {seed}, {rate:?}: {counted} in 10 s");
            assert!(counted >= wanted * 0.98 - 1.0, "seed {seed}, {rate:?}: {counted} in 10 s");
            assert!(!river.refused.is_empty());
        }
    }
}

#[test]
fn far_below_a_rate_nobody_waits_and_messages_are_few() {
    let rate = Rate { per_second: 10_000, burst: 10_000 };
    let mut river = River::new(1, rate, Over::Delay);
    river.late = 100;
    for step in 0..50_000 {
        river.agenda.add(Time(step * 200), Flow::Come(WorkerId(0), 1));
    }
    river.run(Time::ZERO + SECOND * 11);
    assert_eq!(river.events.len(), 50_000);
    // 5,000 events a second, and given 100 at a time: some are late by one exchange.
    assert!(river.messages < 5000, "{} messages for 50,000 events", river.messages);
}

enum Sitting {
    Want(WorkerId, u32),
    Unspent(WorkerId, u32, u32),
    Allow(Allowance),
    Call(CallBack),
    Come(WorkerId),
    Leave(WorkerId),
    Look(WorkerId),
}

/// One limit of transactions at a time.
struct House {
    agenda: Agenda<Sitting>,
    permits: PermitSource,
    leases: Vec<PermitLease>,
    lines: Vec<Vec<Time>>,
    last: BTreeMap<(bool, u16), Time>,
    limit: u32,
    served: u32,
    refused: u32,
    longest: u64,
    hold: u64,
    most: u32,
}

impl House {
    fn new(seed: u8, limit: u32, over: Over, hold: u64) -> House {
        House {
            agenda: Agenda::new(seed),
            permits: PermitSource::new(limit, over, WORKERS),
            leases: vec![PermitLease::default(); usize::from(WORKERS)],
            lines: vec![Vec::new(); usize::from(WORKERS)],
            last: BTreeMap::new(),
            limit,
            served: 0,
            refused: 0,
            longest: 0,
            hold,
            most: 0,
        }
    }

    fn post(&mut self, now: Time, upwards: bool, worker: WorkerId, mail: Sitting) {
        let late = Duration::from_micros(self.agenda.below(LATE));
        let last = self.last.entry((upwards, worker.0)).or_default();
        *last = (*last).max(now + late);
        let at = *last;
        self.agenda.add(at, mail);
    }

    fn turned(&mut self, now: Time, turn: PermitChanges) {
        for call in turn.calls {
            self.post(now, false, call.worker, Sitting::Call(call));
        }
        for allowance in turn.allowances {
            self.post(now, false, worker_of(&allowance), Sitting::Allow(allowance));
        }
    }

    fn admit(&mut self, now: Time, worker: WorkerId) {
        let index = usize::from(worker.0);
        while !self.lines[index].is_empty() && self.leases[index].take() {
            let since = self.lines[index].remove(0);
            self.longest = self.longest.max(now.micros_since(since));
            self.served += 1;
            let hold = Duration::from_micros(1 + self.agenda.below(self.hold));
            self.agenda.add(now + hold, Sitting::Leave(worker));
        }
        let more = self.leases[index].request(self.lines[index].len() as u32);
        if more > 0 {
            self.post(now, true, worker, Sitting::Want(worker, more));
        }
        if let Some(at) = self.leases[index].next_at(self.lines[index].len() as u32) {
            self.agenda.add(at.max(now), Sitting::Look(worker));
        }
        let used: u32 = self.leases.iter().map(PermitLease::used).sum();
        self.most = self.most.max(used);
        assert!(used <= self.limit, "{used} at a time, {} may be", self.limit);
    }

    fn run(&mut self, until: Time) {
        while let Some((now, event)) = self.agenda.next(until) {
            match event {
                Sitting::Come(worker) => {
                    self.lines[usize::from(worker.0)].push(now);
                    self.admit(now, worker);
                }
                Sitting::Leave(worker) => {
                    let back = self.leases[usize::from(worker.0)].release(now, Duration::from_micros(self.hold / 2));
                    if back > 0 {
                        self.post(now, true, worker, Sitting::Unspent(worker, back, 0));
                    }
                    self.admit(now, worker);
                }
                Sitting::Look(worker) => {
                    let index = usize::from(worker.0);
                    let waiting = self.lines[index].len() as u32;
                    let back = self.leases[index].return_recalled(waiting) + self.leases[index].unspent(now, waiting);
                    if back > 0 {
                        self.post(now, true, worker, Sitting::Unspent(worker, back, 0));
                    }
                }
                Sitting::Want(worker, count) => {
                    let turn = self.permits.request(worker, count);
                    self.turned(now, turn);
                }
                Sitting::Unspent(worker, count, missing) => {
                    let turn = self.permits.returned(worker, count, missing);
                    self.turned(now, turn);
                }
                Sitting::Call(call) => {
                    let index = usize::from(call.worker.0);
                    let (back, missing) = self.leases[index].called(&call, self.lines[index].len() as u32);
                    if back + missing > 0 {
                        self.post(now, true, call.worker, Sitting::Unspent(call.worker, back, missing));
                    }
                }
                Sitting::Allow(allowance) => {
                    let index = usize::from(worker_of(&allowance).0);
                    self.leases[index].allowed(now, &allowance);
                    let refused = (allowance.answered - allowance.granted) as usize;
                    let refused = refused.min(self.lines[index].len());
                    self.refused += refused as u32;
                    self.lines[index].drain(..refused);
                    self.admit(now, worker_of(&allowance));
                }
            }
        }
    }
}

#[test]
fn never_more_at_a_time_than_may_be_and_everybody_is_served() {
    for seed in 0..40 {
        for (limit, hold) in [(1, 500), (2, 20_000), (3, 3000), (10, 5000), (100, 50_000)] {
            let mut house = House::new(seed, limit, Over::Delay, hold);
            let clients = 400;
            for _ in 0..clients {
                let (worker, at) = (house.agenda.below(u64::from(WORKERS)) as u16, house.agenda.below(1_000_000));
                house.agenda.add(Time(at), Sitting::Come(WorkerId(worker)));
            }
            house.run(Time::ZERO + SECOND * 60);
            assert_eq!(house.served, clients, "seed {seed}, limit {limit}: some wait for ever");
            assert_eq!(house.permits.out(), 0, "seed {seed}, limit {limit}: slots are lost");
            assert!(house.permits.is_unused() && house.leases.iter().all(PermitLease::is_unused));
        }
    }
}

#[test]
fn one_permit_goes_round_and_no_worker_keeps_it() {
    let mut house = House::new(7, 1, Over::Delay, 1000);
    // One worker has work for ten seconds, the others one client each.
    for _ in 0..20_000 {
        house.agenda.add(Time::ZERO, Sitting::Come(WorkerId(0)));
    }
    house.run(Time(1_000_000));
    let mut arrived = BTreeSet::new();
    for worker in 1..WORKERS {
        house.agenda.add(Time(1_000_000), Sitting::Come(WorkerId(worker)));
        arrived.insert(worker);
    }
    house.run(Time(1_000_000 + 50_000));
    assert!(arrived.iter().all(|&worker| house.lines[usize::from(worker)].is_empty()), "they still wait");
}

#[test]
fn permits_are_used_well_where_all_workers_want_them() {
    let mut house = House::new(3, 8, Over::Delay, 20_000);
    for worker in (0..WORKERS).flat_map(|worker| [worker; 4000]) {
        house.agenda.add(Time::ZERO, Sitting::Come(WorkerId(worker)));
    }
    house.run(Time::ZERO + SECOND * 10);
    // 8 at a time of 10 ms each.
    let best = 8 * 100 * 10;
    assert!(house.served * 100 >= best * 90, "{} of {best}", house.served);
}

#[test]
fn who_may_not_wait_is_refused_only_when_all_permits_are_used() {
    for seed in 0..40 {
        let mut house = House::new(seed, 4, Over::Reject, 30_000);
        for _ in 0..600 {
            let (worker, at) = (house.agenda.below(u64::from(WORKERS)) as u16, house.agenda.below(1_000_000));
            house.agenda.add(Time(at), Sitting::Come(WorkerId(worker)));
        }
        house.run(Time::ZERO + SECOND * 60);
        assert_eq!(house.served + house.refused, 600, "seed {seed}: some are told nothing");
        assert!(house.refused > 0 && house.most == 4, "seed {seed}");
        assert!(house.permits.is_unused(), "seed {seed}");
        // One client alone, after permits were left with a worker that has no use for them.
        let refused = house.refused;
        for (worker, at) in [(0, 61_000_000), (1, 61_050_000), (2, 61_100_000), (3, 61_150_000), (0, 61_200_000)] {
            house.agenda.add(Time(at), Sitting::Come(WorkerId(worker)));
        }
        house.run(Time::ZERO + SECOND * 70);
        assert_eq!(house.refused, refused, "seed {seed}: refused beside slots that nobody uses");
    }
}

#[test]
fn a_lower_limit_holds_once_what_is_out_has_come_back() {
    let mut permits = PermitSource::new(4, Over::Delay, 2);
    let turn = permits.request(WorkerId(0), 4);
    assert_eq!(turn.allowances.iter().map(|answer| answer.granted).sum::<u32>(), 4);
    let turn = permits.configure(1, Over::Delay);
    assert_eq!(turn.calls, [CallBack { worker: WorkerId(0), count: 3, used_too: true }]);
    assert!(permits.request(WorkerId(1), 1).allowances.is_empty());
    for _ in 0..3 {
        assert!(permits.returned(WorkerId(0), 1, 0).allowances.is_empty());
    }
    let turn = permits.returned(WorkerId(0), 1, 0);
    assert_eq!(turn.allowances.len(), 1);
    assert_eq!(permits.out(), 1);
}

#[test]
fn what_is_called_from_a_worker_is_not_counted_as_its_own() {
    let mut permits = PermitSource::new(6, Over::Delay, 4);
    permits.request(WorkerId(0), 3);
    permits.request(WorkerId(1), 3);
    // Two workers have three each: the two that want one call from one each.
    let calls = [permits.request(WorkerId(2), 1).calls, permits.request(WorkerId(3), 1).calls].concat();
    let called: BTreeSet<u16> = calls.iter().map(|call| call.worker.0).collect();
    assert_eq!((calls.len(), called), (2, BTreeSet::from([0, 1])));
}

#[test]
fn nobody_is_refused_before_every_worker_has_answered() {
    let mut permits = PermitSource::new(2, Over::Reject, 3);
    permits.request(WorkerId(0), 1);
    permits.request(WorkerId(1), 1);
    assert_eq!(permits.request(WorkerId(2), 1).calls.len(), 2);
    // The first one uses what it has.
    assert_eq!(permits.returned(WorkerId(0), 0, 1), PermitChanges::default());
    let turn = permits.returned(WorkerId(1), 0, 1);
    let answers = turn.allowances.iter().map(|answer| (worker_of(answer), answer.granted, answer.answered));
    assert_eq!(answers.collect::<Vec<_>>(), [(WorkerId(2), 0, 1)]);
}

#[test]
fn what_is_given_ahead_is_divided_among_all_who_share_it() {
    let rate = Rate { per_second: 100_000, burst: 100_000 };
    let mut rate_source = RateSource::new(rate, Over::Delay, 4, Time::ZERO);
    let ahead = |rate_source: &mut RateSource| rate_source.request(Time::ZERO, WorkerId(0), 1)[0].granted;
    assert_eq!(ahead(&mut rate_source), 1000, "what comes in within AHEAD");
    rate_source.set_holders(16);
    assert_eq!(ahead(&mut rate_source), 250, "no more than 4 × AHEAD over all");
    rate_source.set_holders(4);
    assert_eq!(ahead(&mut rate_source), 1000);
}
