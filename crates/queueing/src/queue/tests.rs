//! A pool of model servers with clients in closed loops: who gets how much.

use units::Kind;
use units::random::Random;

use super::*;
use crate::classes::{Class, Pattern, Rule};

const MILLISECOND: u64 = 1000;
const SECOND: u64 = 1_000_000;

fn class(name: &str, weight: u32) -> Class {
    Class { weight, ..Class::new(name) }
}

fn classes(all: Vec<Class>) -> Classes {
    // Any rule will do: that there is one tells that classes matter.
    let every = || vec![Pattern::All];
    let rule = Rule { databases: every(), users: every(), applications: every(), tags: Vec::new(), class: ClassId(0) };
    Classes { all, rules: vec![rule], ..Classes::default() }
}

/// Clients of one class: each asks again `think` after it was served, for `service`, all in microseconds.
#[derive(Copy, Clone, Debug)]
struct Crowd {
    clients: u32,
    think: u64,
    service: (u64, u64),
    /// When it comes.
    from: u64,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Done { class: ClassId, since: u64 },
    Ask { class: ClassId },
}

/// What the classes got, in microseconds of server time, and how long each of their waits was.
#[derive(Debug, Default)]
struct Outcome {
    served: Vec<u64>,
    waits: Vec<Vec<u64>>,
    /// Of any class.
    longest_link: u64,
    mean_link: Vec<u64>,
}

fn run(classes: &Classes, servers: u32, crowds: &[Crowd], until: u64, seed: u64) -> Outcome {
    let mut queue = Queue::new(classes, 1);
    let mut random = Random::seeded(seed);
    let mut events: std::collections::BTreeSet<(u64, u64, What)> = std::collections::BTreeSet::new();
    let mut order = 0;
    let mut outcome = Outcome { waits: vec![Vec::new(); crowds.len()], ..Outcome::default() };
    for (index, crowd) in crowds.iter().enumerate() {
        for client in 0..crowd.clients {
            order += 1;
            let first = if crowd.think == 0 { u64::from(client) } else { random.below(crowd.think + 1) };
            events.insert((crowd.from + first, order, What::Ask { class: ClassId(index as u8) }));
        }
    }
    let mut idle = servers;
    while let Some((now, _, what)) = events.pop_first().filter(|(now, ..)| *now < until) {
        match what {
            What::Ask { class } => {
                queue.push(class, ConnId::new(Kind::Client, 0, u32::from(class.0), 0), Time(now), Time(now));
            }
            What::Done { class, since } => {
                queue.end(class, Time(since), Time(now));
                idle += 1;
                order += 1;
                events.insert((now + crowds[usize::from(class.0)].think, order, What::Ask { class }));
            }
        }
        while idle > 0 {
            let peeked = queue.peek(Time(now)).map(|waiter| (waiter.session, waiter.ticket));
            let Some(waiter) = queue.pop(Time(now)) else {
                assert_eq!(peeked, None);
                break;
            };
            assert_eq!(peeked, Some((waiter.session, waiter.ticket)));
            let class = ClassId(waiter.session.slot() as u8);
            let (least, most) = crowds[usize::from(class.0)].service;
            let lasts = least + random.below(most - least + 1);
            outcome.longest_link = outcome.longest_link.max(lasts);
            outcome.waits[usize::from(class.0)].push(now - waiter.since.0);
            queue.begin(class, Time(now));
            idle -= 1;
            order += 1;
            events.insert((now + lasts, order, What::Done { class, since: now }));
        }
        assert!(idle == 0 || !queue.has_waiters(), "nobody eligible waits beside an idle server");
    }
    outcome.served = queue.counts(Time(until)).map(|counts| counts.served_us).collect();
    outcome.mean_link = crowds.iter().map(|crowd| crowd.service.0.midpoint(crowd.service.1)).collect();
    outcome
}

fn busy(clients: u32, service: u64) -> Crowd {
    Crowd { clients, think: 0, service: (service / 2, service * 3 / 2), from: 0 }
}

fn percentile(values: &mut [u64], of: usize) -> u64 {
    values.sort_unstable();
    values[(values.len() * of / 100).min(values.len() - 1)]
}

#[test]
fn weights_1_2_4_give_shares_within_five_per_cent_over_ten_seconds() {
    let all = vec![class("default", 1), class("two", 2), class("four", 4)];
    // Links of different lengths: it is time that is shared, not turns.
    let crowds = [busy(100, MILLISECOND), busy(50, 20 * MILLISECOND), busy(200, 3 * MILLISECOND)];
    for seed in 0..20 {
        let outcome = run(&classes(all.clone()), 20, &crowds, 10 * SECOND, seed);
        let sum: u64 = outcome.served.iter().sum();
        for (served, weight) in outcome.served.iter().zip([1, 2, 4]) {
            let (share, due) = (*served as f64 / sum as f64, f64::from(weight) / 7.0);
            assert!((share / due - 1.0).abs() < 0.05, "seed {seed}, weight {weight}: {share:.4} of {due:.4}");
        }
    }
}

#[test]
fn the_modest_wait_as_if_the_greedy_were_not_there() {
    let all = vec![class("greedy", 1), class("modest", 1)];
    let service = (10 * MILLISECOND, 10 * MILLISECOND);
    let modest = Crowd { clients: 2, think: 7 * MILLISECOND, service, from: 0 };
    let greedy = Crowd { clients: 500, think: 0, service, from: 0 };
    let mut together = run(&classes(all), 20, &[greedy, modest], 10 * SECOND, 1);
    let waits = &mut together.waits[1];
    assert!(waits.len() > 500, "{} transactions", waits.len());
    let p99 = percentile(waits, 99) + service.0;
    // Alone they wait for nobody: what they see is the service.
    assert!(p99 <= 2 * service.0, "p99 {p99} µs, alone {} µs", service.0);
    let greedy_share = together.served[0] as f64 / (20.0 * 10.0 * SECOND as f64);
    assert!(greedy_share > 0.88, "what the modest leave is not lost: {greedy_share:.3}");
}

#[test]
fn whoever_comes_late_has_saved_nothing_up() {
    let crowds = [busy(50, MILLISECOND), Crowd { from: 5 * SECOND, ..busy(50, MILLISECOND) }];
    let outcome = run(&classes(vec![class("default", 1), class("late", 1)]), 10, &crowds, 6 * SECOND, 5);
    // All of five seconds and half of the sixth.
    let due = 10 * (5 * SECOND + SECOND / 2);
    assert!(outcome.served[0].abs_diff(due) < SECOND / 5, "{} of {due} µs", outcome.served[0]);
}

#[test]
fn ten_thousand_at_once_wait_in_order() {
    for all in [vec![class("default", 1)], vec![class("default", 1), class("other", 3)]] {
        let several = all.len() > 1;
        let classes = if several { classes(all) } else { Classes { all, ..Classes::default() } };
        let mut queue = Queue::new(&classes, 1);
        for client in 0..10_000 {
            queue.push(ClassId(0), ConnId::new(Kind::Client, 0, client, 0), Time(u64::from(client)), Time(0));
        }
        let (mut now, mut waits) = (10_000, Vec::new());
        while !queue.is_empty() {
            for _ in 0..20 {
                let waiter = queue.pop(Time(now)).expect("somebody waits");
                waits.push(now - waiter.since.0);
                queue.begin(ClassId(0), Time(now));
                queue.end(ClassId(0), Time(now), Time(now + MILLISECOND));
            }
            now += MILLISECOND;
        }
        let mean = waits.iter().sum::<u64>() / waits.len() as u64;
        let longest = waits.iter().max().expect("ten thousand were served");
        assert!(*longest < 3 * mean, "longest {longest} µs, mean {mean} µs");
    }
}

#[test]
fn higher_priority_goes_first_and_nobody_starves() {
    let mut all = vec![class("default", 1), class("first", 1)];
    all[1].priority = 1;
    // More than enough for all servers.
    let crowds = [busy(50, 10 * MILLISECOND), busy(50, 10 * MILLISECOND)];
    let classes = Classes { ageing: Duration::from_secs(2), ..classes(all) };
    let outcome = run(&classes, 10, &crowds, 30 * SECOND, 3);
    let longest = outcome.waits[0].iter().max().expect("some of the lower class are served");
    assert!(*longest < 3 * SECOND, "{longest} µs");
    let share = outcome.served[0] as f64 / (outcome.served[0] + outcome.served[1]) as f64;
    assert!(share > 0.01 && share < 0.5, "the lower class gets {share:.3}");
}

/// Found on PostgreSQL: whoever had more clients than servers for longer than class_ageing took everything.
#[test]
fn among_equals_weights_decide_however_long_somebody_waits() {
    let all = vec![class("crowd", 1), class("modest", 4)];
    let crowds = [busy(1000, 50 * MILLISECOND), busy(50, 5 * MILLISECOND)];
    let classes = Classes { ageing: Duration::from_secs(1), ..classes(all) };
    let outcome = run(&classes, 8, &crowds, 60 * SECOND, 11);
    let crowded = outcome.waits[0].iter().max().expect("some of the crowd are served");
    assert!(*crowded > 20 * SECOND, "the crowd waits for much longer than one ages in: {crowded} µs");
    let share = outcome.served[1] as f64 / (outcome.served[0] + outcome.served[1]) as f64;
    assert!((share / 0.8 - 1.0).abs() < 0.05, "the modest get {share:.3}");
    let longest = outcome.waits[1].iter().max().expect("the modest are served");
    assert!(*longest < SECOND / 2, "{longest} µs");
}

/// A third class that waits for long is not lifted beyond the two others by a priority that nobody has who waits.
#[test]
fn the_old_are_equals_of_the_first_and_never_more() {
    let mut all = vec![class("crowd", 1), class("modest", 3), class("first", 1)];
    all[2].priority = 5;
    let rare = Crowd { clients: 1, think: SECOND, service: (MILLISECOND, MILLISECOND), from: 0 };
    let crowds = [busy(1000, 50 * MILLISECOND), busy(50, 5 * MILLISECOND), rare];
    let classes = Classes { ageing: Duration::from_secs(1), ..classes(all) };
    let outcome = run(&classes, 8, &crowds, 60 * SECOND, 12);
    let share = outcome.served[1] as f64 / (outcome.served[0] + outcome.served[1]) as f64;
    assert!((share / 0.75 - 1.0).abs() < 0.05, "the modest get {share:.3}");
}

#[test]
fn a_minimum_is_had_at_once_and_a_maximum_never_passed() {
    let mut all = vec![class("default", 100), class("least", 1), class("most", 100)];
    (all[1].min, all[2].max) = (3, Some(2));
    let mut queue = Queue::new(&classes(all), 1);
    let session = |slot| ConnId::new(Kind::Client, 0, slot, 0);
    for class in [0, 1, 2] {
        for slot in 0..10 {
            queue.push(ClassId(class), session(100 * u32::from(class) + slot), Time(0), Time(0));
        }
    }
    assert_eq!(queue.servable(), 22);
    let mut served = Vec::new();
    while let Some(waiter) = queue.pop(Time(1)) {
        let class = ClassId((waiter.session.slot() / 100) as u8);
        queue.begin(class, Time(1));
        served.push(class.0);
    }
    assert_eq!(served[..3], [1, 1, 1]);
    let active: Vec<u32> = queue.counts(Time(1)).map(|counts| counts.active).collect();
    assert_eq!((queue.len(), active), (8, vec![10, 10, 2]));
    // Nobody who waits may be served: whoever comes of another class need not wait behind them.
    assert!(!queue.has_waiters() && queue.admits(ClassId(0)) && !queue.admits(ClassId(2)));
    queue.end(ClassId(2), Time(1), Time(9));
    assert!(queue.has_waiters() && queue.pop(Time(9)).is_some_and(|waiter| waiter.session.slot() >= 200));
}

/// The bound of the module's header, over random classes, weights, services and arrivals.
#[test]
fn whoever_always_has_work_gets_its_share_whatever_the_others_do() {
    for seed in 0..300 {
        let mut random = Random::seeded(seed);
        let count = 2 + random.below(7) as usize;
        let servers = 1 + random.below(20) as u32;
        let all: Vec<Class> = (0..count).map(|_| class("any", 1 + random.below(8) as u32)).collect();
        let mut crowd = || {
            let least = 200 + random.below(20 * MILLISECOND);
            let think = if random.below(2) == 0 { 0 } else { random.below(40 * MILLISECOND) };
            Crowd {
                clients: 1 + random.below(60) as u32,
                think,
                service: (least, least * (1 + random.below(4))),
                from: 0,
            }
        };
        let mut crowds: Vec<Crowd> = (0..count).map(|_| crowd()).collect();
        // The one that is looked at: always more clients than servers.
        let last = count - 1;
        (crowds[last].clients, crowds[last].think) = (2 * servers + 1, 0);
        let weights: u64 = all.iter().map(|class| u64::from(class.weight)).sum();
        let until = 5 * SECOND;
        let outcome = run(&classes(all.clone()), servers, &crowds, until, seed);
        let due = u64::from(servers) * until * u64::from(all[last].weight) / weights;
        let means: u64 = outcome.mean_link.iter().max().copied().unwrap_or(0);
        // A longest link of somebody else on each server, one of its own that has not been counted yet, and twice the estimate.
        let slack = u64::from(servers) * (2 * outcome.longest_link + 2 * means);
        assert!(
            outcome.served[last] + slack >= due,
            "seed {seed}: {} of {due} µs, slack {slack}, {servers} servers, {crowds:?}",
            outcome.served[last]
        );
    }
}
