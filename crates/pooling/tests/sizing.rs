//! `pool_size = auto` against servers with known throughput: found, settled in time, and still.

#[path = "sizing/model.rs"]
mod model;
#[path = "sizing/rivals.rs"]
mod rivals;
#[path = "sizing/tokens.rs"]
mod tokens;

use std::time::Duration;

use model::{Curve, Model, Rule};
use queueing::sizing::{Seen, Sizing};
use units::Time;

const FLOOR: u32 = 2;
const CEILING: u32 = 80;

fn curves() -> Vec<Curve> {
    let mut curves = Vec::new();
    for peak in [2.0, 4.0, 8.0, 16.0, 32.0, 64.0] {
        for contention in [0.0, 0.05] {
            curves.push(Curve::Peak { peak, contention, alone: 1000.0 });
        }
    }
    curves.push(Curve::Latency { alone: 200.0 });
    for cores in [2.0, 4.0, 16.0] {
        curves.push(Curve::Cores { cores, alone: 1000.0, loss: 0.004 });
    }
    curves
}

/// What became of one run.
struct Outcome {
    /// Throughput at the size of the tenth second, by the best there is.
    settled: f64,
    /// Mean throughput from then on.
    after: f64,
    in_time: bool,
}

fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn run<R: Rule>(
    rule: &mut R,
    curve: Curve,
    clients: u32,
    (noise, drift): (f64, f64),
    seed: u64,
    is_settled: impl Fn(&R) -> Option<u32>,
) -> Outcome {
    let mut model = Model::new(curve, clients, noise, seed);
    model.drift = drift;
    model.run(rule, second(10), |_, _| {});
    let best = curve.best(FLOOR, CEILING.min(clients));
    let settled = is_settled(rule);
    let size = settled.unwrap_or(rule.size());
    let after = model.run(rule, second(30), |_, _| {});
    Outcome { settled: curve.at(size.min(clients)) / best, after: after / best, in_time: settled.is_some() }
}

/// Means over curves, clients and seeds.
#[derive(Default)]
struct Survey {
    runs: u32,
    /// Runs whose size of the tenth second is more than 5 % below the best.
    off: u32,
    late: u32,
    after: Vec<f64>,
}

impl Survey {
    fn of<R: Rule>(
        unrest: (f64, f64),
        seeds: u64,
        rule: impl Fn(u64) -> R,
        is_settled: impl Fn(&R) -> Option<u32> + Copy,
    ) -> Survey {
        let mut survey = Survey::default();
        for curve in curves() {
            for clients in [50, 500, 4000] {
                for seed in 1..=seeds {
                    survey.add(&run(&mut rule(seed), curve, clients, unrest, seed, is_settled));
                }
            }
        }
        survey.after.sort_by(f64::total_cmp);
        survey
    }

    fn add(&mut self, outcome: &Outcome) {
        self.runs += 1;
        self.off += u32::from(outcome.settled < 0.95);
        self.late += u32::from(!outcome.in_time);
        self.after.push(outcome.after);
    }

    fn percentile(&self, percent: usize) -> f64 {
        self.after[self.after.len() * percent / 100]
    }

    fn mean(&self) -> f64 {
        self.after.iter().sum::<f64>() / f64::from(self.runs)
    }

    fn off_percent(&self) -> f64 {
        f64::from(self.off) / f64::from(self.runs) * 100.0
    }

    fn row(&self, name: &str, (noise, drift): (f64, f64)) -> String {
        let (off, mean, p1, p5) = (self.off_percent(), self.mean(), self.percentile(1), self.percentile(5));
        format!("{name:<10} {noise:>5} {drift:>5} {off:>6.1} % {mean:>7.3} {p5:>7.3} {p1:>7.3}")
    }
}

/// The sizes that pools begin with: every run another one.
fn start(seed: u64) -> u32 {
    [4, 2, 8, 16, 32, 45][(seed % 6) as usize]
}

fn sizing(seed: u64) -> Sizing {
    Sizing::new(FLOOR, CEILING, start(seed))
}

/// docs/adr/0018 has what this prints.
#[test]
#[ignore = "a comparison for people to read: cargo test -p pooling --test sizing -- --ignored --nocapture"]
fn comparison() {
    println!(
        "            noise drift  off 5 %    mean      p5      p1   throughput of seconds 10 to 40, by the best there is"
    );
    for noise in [(0.0, 0.0), (0.05, 0.0), (0.1, 0.0), (0.2, 0.0), (0.05, 0.1), (0.1, 0.2)] {
        let own = |seed| f64::from(start(seed));
        println!("{}", Survey::of(noise, 100, sizing, Sizing::settled).row("ladder", noise));
        println!("{}", Survey::of(noise, 30, |_| rivals::Golden::new(), |_| None).row("golden", noise));
        println!("{}", Survey::of(noise, 30, |seed| rivals::Fitted::new(own(seed)), |_| None).row("fitted", noise));
        println!("{}", Survey::of(noise, 30, |seed| rivals::Climber::new(own(seed)), |_| None).row("climber", noise));
        println!("{}", Survey::of(noise, 30, |seed| rivals::Vegas::new(own(seed)), |_| None).row("vegas", noise));
    }
}

/// How many of all runs may be off: noise makes the whole database faster or slower for 200 ms at a time, so that within ten
/// seconds a fifth of noise leaves some sizes that cannot be told apart; drift does so for some seconds.
#[test]
fn the_best_size_is_found_within_ten_seconds() {
    // Of noise and drift: how many percent are off, the worst twentieth, the mean, and how many settle late.
    let bounds = [
        ((0.0, 0.0), 1.0, 0.96, 0.97, 0.0),
        ((0.05, 0.0), 1.0, 0.96, 0.97, 0.0),
        ((0.1, 0.0), 3.0, 0.955, 0.97, 0.0),
        ((0.2, 0.0), 12.0, 0.9, 0.97, 0.02),
        ((0.05, 0.1), 3.0, 0.93, 0.97, 0.0),
        ((0.1, 0.2), 10.0, 0.9, 0.96, 0.03),
    ];
    for (noise, off_percent, p5, mean, late_max) in bounds {
        let survey = Survey::of(noise, 30, sizing, Sizing::settled);
        let row = survey.row("ladder", noise);
        assert!(survey.off_percent() <= off_percent, "{row}");
        assert!(survey.percentile(5) >= p5 && survey.mean() >= mean, "{row}");
        let late = f64::from(survey.late) / f64::from(survey.runs);
        assert!(late <= late_max, "{row}: {late} settled late");
    }
}

/// Where all cores have work, the curve has a kink, and each server beyond costs: a smooth curve laid through it takes a size beyond
/// the kink for the better one.
#[test]
fn a_kink_is_not_rounded_off() {
    for (cores, loss, noise, off_max) in
        [(16.0, 0.01, 0.0, 1), (16.0, 0.01, 0.05, 3), (32.0, 0.01, 0.05, 2), (8.0, 0.02, 0.05, 15)]
    {
        let curve = Curve::Cores { cores, alone: 1000.0, loss };
        let outcomes = (1..=60).map(|seed| run(&mut sizing(seed), curve, 500, (noise, 0.0), seed, Sizing::settled));
        let off = outcomes.filter(|outcome| outcome.settled < 0.95).count();
        assert!(off <= off_max, "{curve:?} noise {noise}: {off} of 60");
    }
}

/// From the 25th second on the database is another one; by the 35th its best size is found.
#[test]
fn a_step_is_seen_and_answered_within_ten_seconds() {
    let peak = |peak, alone| Curve::Peak { peak, contention: 0.02, alone };
    let slow = Curve::Latency { alone: 50.0 };
    let steps = [
        (peak(8.0, 1000.0), peak(32.0, 1000.0)),
        (peak(32.0, 1000.0), peak(8.0, 1000.0)),
        (peak(16.0, 1000.0), peak(4.0, 2000.0)),
        (peak(8.0, 1000.0), slow),
        (slow, peak(8.0, 1000.0)),
    ];
    for (before, after) in steps {
        for (clients, noise) in [(50, 0.05), (500, 0.05), (500, 0.1), (4000, 0.05)] {
            let (mut off, runs) = (0, 40);
            for seed in 1..=runs {
                let mut rule = sizing(seed);
                let mut model = Model::new(before, clients, noise, seed);
                model.run(&mut rule, second(25), |_, _| {});
                model.curve = after;
                model.run(&mut rule, second(10), |_, _| {});
                let speed = after.at(rule.settled().unwrap_or(rule.size()).min(clients));
                off += u32::from(speed < 0.95 * after.best(FLOOR, CEILING.min(clients)));
            }
            let off_max = if noise > 0.05 { 6 } else { 4 };
            assert!(off <= off_max, "{before:?} {after:?} {clients} {noise}: {off} of {runs}");
        }
    }
}

/// The stated bound: settled, one rung from there at most, and mostly not even that.
#[test]
fn once_settled_the_size_stays_within_one_rung() {
    for curve in curves() {
        for (noise, seed) in [(0.0, 1), (0.05, 2), (0.1, 3), (0.2, 4)] {
            let mut rule = sizing(seed);
            let mut model = Model::new(curve, 500, noise, seed);
            model.run(&mut rule, second(12), |_, _| {});
            let (mut away, mut searching, mut ticks, mut changes, mut last) = (0, 0, 0, 0, rule.size());
            model.run(&mut rule, second(120), |_, rule| {
                ticks += 1;
                changes += u32::from(rule.size() != last);
                last = rule.size();
                match rule.settled() {
                    Some(settled) => {
                        assert!(
                            rule.neighbours(settled).any(|size| size == rule.size()),
                            "{} from {settled}",
                            rule.size()
                        );
                        away += u32::from(settled != rule.size());
                    }
                    None => searching += 1,
                }
            });
            let told =
                format!("{curve:?} noise {noise}: {away} away, {searching} searching of {ticks}, {changes} changes");
            assert!(away * 4 < ticks, "{told}");
            assert!(searching * 10 < ticks, "{told}");
            assert!(changes <= 60, "{told}");
        }
    }
}

#[test]
fn a_pool_that_nobody_waits_for_stays_as_it_is() {
    let curve = Curve::Peak { peak: 2.0, contention: 0.0, alone: 1000.0 };
    for seed in 1..=20 {
        let mut rule = Sizing::new(FLOOR, CEILING, 16);
        let mut model = Model::new(curve, 15, 0.1, seed);
        model.run(&mut rule, second(60), |_, rule| assert_eq!(rule.size(), 16));
        assert_eq!((rule.account().changes.len(), rule.settled()), (0, None));
    }
}

/// PostgreSQL has max_connections, and other pools use them too.
#[test]
fn servers_that_cannot_be_opened_are_not_waited_for() {
    let curve = Curve::Latency { alone: 100.0 };
    for seed in 1..=20 {
        let mut rule = Sizing::new(FLOOR, CEILING, 4);
        let mut model = Model::new(curve, 500, 0.05, seed);
        model.available = 20;
        model.run(&mut rule, second(15), |_, _| {});
        assert!(rule.account().changes.iter().any(|change| change.why.contains("could not be opened")));
        model.run(&mut rule, second(60), |_, rule| {
            assert!(rule.settled() == Some(16), "{}: {}", rule.size(), rule.account().why)
        });
    }
}

#[test]
fn what_was_done_is_told() {
    let mut rule = Sizing::new(FLOOR, CEILING, 4);
    assert_eq!(rule.account().why, "nobody has waited yet");
    let mut model = Model::new(Curve::Peak { peak: 16.0, contention: 0.0, alone: 1000.0 }, 500, 0.0, 7);
    model.run(&mut rule, second(10), |_, _| {});
    assert_eq!(rule.account().why, "best; 11 servers: -7.2 %, 23 servers: -5.1 %");
    let moves: Vec<(u32, u32)> = rule.account().changes.iter().map(|change| (change.from, change.to)).collect();
    assert_eq!(moves, [(4, 8), (8, 32), (32, 45), (45, 16), (16, 11), (11, 23), (23, 16)]);
    model.run(&mut rule, second(300), |_, _| {});
    assert_eq!(rule.account().changes.len(), 10);
}

/// Reports that run for minutes: every size looks the same, and the least would be the worst.
#[test]
fn transactions_that_hardly_end_change_nothing() {
    let mut rule = Sizing::new(FLOOR, CEILING, 8);
    let mut model = Model::new(Curve::Latency { alone: 0.02 }, 50, 0.0, 1);
    model.run(&mut rule, second(120), |_, rule| assert_eq!(rule.size(), 8));
    assert_eq!(rule.account().why, "too few transactions end to compare sizes");
}

/// The coordinator gives tokens up to the size, and takes back what is beyond it.
#[test]
fn tokens_follow_the_size() {
    for (peak, seed) in [(2.0, 1), (8.0, 2), (32.0, 3), (64.0, 4)] {
        let curve = Curve::Peak { peak, contention: 0.0, alone: 1000.0 };
        let mut stage = tokens::Stage::new(curve, seed);
        stage.run(10);
        let speed = stage.run(20);
        assert!(speed >= 0.95 * curve.best(FLOOR, CEILING), "peak {peak}: {} servers", stage.size());
        assert_eq!(stage.held(), stage.size(), "everybody waits, so all are open");
        stage.run(120);
        assert_eq!(stage.granted - stage.freed, stage.held());
        assert!(stage.freed > 0, "what was too many was closed");
    }
}

/// A machine that is busy with something else opens servers slowly: the size that was found stays the one that was found.
#[test]
fn a_size_that_is_reached_late_is_not_given_up() {
    let mut rule = Sizing::new(FLOOR, CEILING, 4);
    let mut model = Model::new(Curve::Peak { peak: 16.0, contention: 0.0, alone: 1000.0 }, 500, 0.0, 1);
    model.run(&mut rule, second(10), |_, _| {});
    assert_eq!(rule.settled(), Some(16));
    (model.available, model.open) = (8, 8);
    model.run(&mut rule, second(15), |_, _| {});
    model.available = u32::MAX;
    model.run(&mut rule, second(30), |_, _| {});
    assert!(
        !rule.account().changes.iter().any(|change| change.why.contains("16 servers could not be opened")),
        "{}",
        rule.account().why
    );
    assert_eq!(rule.settled(), Some(16));
}

/// The first crowd: what two servers do while the others open says nothing of the size that is aimed at.
#[test]
fn a_search_begins_when_the_first_servers_are_there() {
    let mut rule = Sizing::new(FLOOR, CEILING, 8);
    let window = Duration::from_millis(200);
    let mut now = Time::ZERO;
    let mut observe = |rule: &mut Sizing, open: u32| {
        now = now + window;
        let seen = Seen { span: window, completed: 100, busy: window * open, waited: window * 40, waiting: 40, open };
        rule.observe(now, seen);
    };
    for _ in 0..10 {
        observe(&mut rule, 2);
        assert!(!rule.is_searching() && rule.size() == 8, "{}", rule.account().why);
    }
    for _ in 0..5 {
        observe(&mut rule, 8);
    }
    assert!(rule.is_searching(), "{}", rule.account().why);
}

#[test]
fn a_search_ends_when_the_load_goes_away() {
    let mut rule = Sizing::new(FLOOR, CEILING, 8);
    let mut model = Model::new(Curve::Peak { peak: 32.0, contention: 0.0, alone: 1000.0 }, 500, 0.0, 1);
    model.run(&mut rule, second(2), |_, _| {});
    assert!(rule.is_searching());
    model.clients = 1;
    model.run(&mut rule, second(1), |_, _| {});
    assert_eq!((rule.is_searching(), &*rule.account().why), (false, "the load went away while looking"));
}

/// Slow transactions of a few clients say nothing of a size that many clients settled.
#[test]
fn a_size_is_not_looked_for_again_under_a_light_load() {
    let mut rule = Sizing::new(FLOOR, CEILING, 8);
    let mut model = Model::new(Curve::Peak { peak: 16.0, contention: 0.0, alone: 1000.0 }, 500, 0.0, 1);
    model.run(&mut rule, second(15), |_, _| {});
    let (settled, changes) = (rule.settled(), rule.account().change_count);
    assert_eq!(settled, Some(16));
    (model.clients, model.curve) = (3, Curve::Peak { peak: 16.0, contention: 0.0, alone: 20.0 });
    model.run(&mut rule, second(60), |_, _| {});
    assert_eq!((rule.settled(), rule.account().change_count), (settled, changes), "{}", rule.account().why);
}
