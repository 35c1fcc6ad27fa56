//! What was seen, as samples that can be compared: windows of time, and how sure their means are.
//!
//! A window's throughput is kept as its logarithm, so that differences are ratios and noise that grows with throughput is
//! the same everywhere. How much windows scatter is learned from neighbours in time, which a slow drift does not inflate.

use std::time::Duration;

use super::belief::Difference;

/// What is known of a pool since it was looked at last, summed over its workers.
#[derive(Copy, Clone, Debug, Default)]
pub struct Seen {
    /// How long that is.
    pub span: Duration,
    /// Transactions that ended.
    pub completed: u64,
    /// Server-time that these took.
    pub busy: Duration,
    /// How long the sessions that were given a server had waited, summed.
    pub waited: Duration,
    /// How many wait now.
    pub waiting: u32,
    /// Servers that have logged in, now.
    pub open: u32,
}

/// A window is at least this long: several times what a thread may be kept from running.
const WINDOW_MIN: Duration = Duration::from_millis(190);

/// Where transactions are rare, a window is longer, until it has seen this many, or one for each server.
const COMPLETED_MIN: u64 = 32;

/// Whatever it has seen by then.
const WINDOW_MAX: Duration = Duration::from_secs(4);

/// What is taken for the noise of a window, and for what the level moves from one to the next, before anything was seen;
/// squared. So many differences' worth of belief that has, and so many are remembered.
const NOISE_FIRST: f64 = 0.06 * 0.06;
const DRIFT_FIRST: f64 = 0.025 * 0.025;
const BELIEF_FIRST: f64 = 4.0;
const MEMORY: f64 = 120.0;

/// A step of the curve is no noise: no difference counts for more than so many mean squares.
const ODD: f64 = 9.0;

/// Windows between which the level's way is measured.
const FAR: usize = 4;

/// So few transactions in a window say nothing about its size.
const FEW: u64 = 8;

/// Somebody waited whenever it was looked at, so often, counts as always.
const LOOKS_MIN: u32 = 4;

/// A window that is not full yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    sum: Seen,
    looks: u32,
    /// At how many of these somebody waited.
    waited: u32,
}

/// A full one.
#[derive(Copy, Clone, Debug)]
pub(super) struct Sample {
    /// The natural logarithm of transactions a second.
    pub(super) speed: f64,
    /// Seconds.
    pub(super) span: f64,
    /// Somebody waited most of the time.
    pub(super) saturated: bool,
    /// Servers at work, on average.
    pub(super) busy: f64,
    /// Servers that had logged in at its end.
    pub(super) open: u32,
    /// Too few transactions ended to tell anything.
    pub(super) few: bool,
}

impl Window {
    /// Adds what was seen; the sample, if the window is full now.
    pub(super) fn add(&mut self, seen: Seen) -> Option<Sample> {
        self.looks += 1;
        self.waited += u32::from(seen.waiting > 0);
        let sum = &mut self.sum;
        sum.span += seen.span;
        sum.completed += seen.completed;
        sum.busy += seen.busy;
        sum.waited += seen.waited;
        (sum.waiting, sum.open) = (seen.waiting, seen.open);
        let enough = sum.completed >= COMPLETED_MIN.max(u64::from(seen.open));
        if sum.span < WINDOW_MIN || !enough && sum.span < WINDOW_MAX {
            return None;
        }
        let Window { sum, looks, waited } = std::mem::take(self);
        let span = sum.span.as_secs_f64();
        // Little's law: time waited in a span is how many waited on average.
        let queue = sum.waited.as_secs_f64() / span;
        Some(Sample {
            speed: (sum.completed.max(1) as f64 / span).ln(),
            span,
            saturated: sum.waiting > 0 && (queue >= 0.5 || looks >= LOOKS_MIN && waited == looks)
                || sum.waiting > sum.open,
            busy: sum.busy.as_secs_f64() / span,
            open: sum.open,
            few: sum.completed < FEW,
        })
    }
}

/// What windows of one size scatter by, and how far the level moves meanwhile. Noise is the same between neighbours in time as
/// between windows further apart; what there is more between those is the level's.
#[derive(Clone, Debug)]
pub(super) struct Unrest {
    /// Mean squares of differences: of neighbours, and of those that are `FAR` apart.
    near: f64,
    far: f64,
    near_belief: f64,
    far_belief: f64,
    /// How long windows are, in seconds.
    span: f64,
    /// The last windows of this size, the newest last.
    last: Vec<f64>,
}

impl Default for Unrest {
    fn default() -> Unrest {
        Unrest {
            near: 2.0 * NOISE_FIRST + DRIFT_FIRST,
            far: 2.0 * NOISE_FIRST + FAR as f64 * DRIFT_FIRST,
            near_belief: BELIEF_FIRST,
            far_belief: BELIEF_FIRST,
            span: WINDOW_MIN.as_secs_f64(),
            last: Vec::new(),
        }
    }
}

impl Unrest {
    /// Another size, or another load: what comes next is not compared with what was before.
    pub(super) fn interrupt(&mut self) {
        self.last.clear();
    }

    pub(super) fn learn(&mut self, sample: Sample) {
        let last = &mut self.last;
        let back = |steps: usize| last.len().checked_sub(steps).map(|index| last[index]);
        let square = |then: f64| (sample.speed - then).powi(2);
        let take = |mean: &mut f64, belief: &mut f64, square: f64| {
            *belief = (*belief + 1.0).min(MEMORY);
            *mean += (square.min(ODD * *mean) - *mean) / *belief;
        };
        if let Some(then) = back(1) {
            let before = self.near;
            take(&mut self.near, &mut self.near_belief, square(then));
            if self.far_belief <= BELIEF_FIRST {
                // Visits of a search are too short to see it: it is taken for as much of the whole as before.
                self.far *= self.near / before;
            }
            self.span += (sample.span - self.span) / self.near_belief;
        }
        if let Some(then) = back(FAR) {
            take(&mut self.far, &mut self.far_belief, square(then));
        }
        if last.len() == FAR {
            last.remove(0);
        }
        last.push(sample.speed);
    }

    /// The variance of the noise of one window.
    pub(super) fn noise(&self) -> f64 {
        ((self.near - self.step()) / 2.0).max(self.near / 8.0).max(1e-6)
    }

    /// The variance of what the level moves by in this time.
    pub(super) fn drift(&self, seconds: f64) -> f64 {
        self.step() * seconds / self.span.max(1e-3)
    }

    fn step(&self) -> f64 {
        ((self.far - self.near) / (FAR as f64 - 1.0)).max(1e-7)
    }
}

/// Windows of one size.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) mean: f64,
    /// Windows' worth.
    pub(super) weight: f64,
}

/// A record remembers this many windows: what is long ago is of another level.
const RECORD_MEMORY: f64 = 10.0;

impl Record {
    pub(super) fn add(&mut self, value: f64) {
        self.weight = (self.weight + 1.0).min(RECORD_MEMORY);
        self.mean += (value - self.mean) / self.weight;
    }

    pub(super) fn merge(&mut self, other: Record) {
        let weight = self.weight + other.weight;
        if weight > 0.0 {
            self.mean += (other.mean - self.mean) * other.weight / weight;
        }
        self.weight = weight.min(RECORD_MEMORY);
    }

    /// How far `self`, of the last windows, is above `earlier`, and how sure that is.
    pub(super) fn since(&self, earlier: &Record, unrest: &Unrest) -> Difference {
        let noise = unrest.noise() * (1.0 / self.weight + 1.0 / earlier.weight);
        // A step is one also where it follows slow ways of the level: those of the last windows count.
        let apart = self.weight * unrest.span;
        Difference { mean: self.mean - earlier.mean, variance: noise + unrest.drift(apart) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(millis: u64, completed: u64) -> Seen {
        let span = Duration::from_millis(millis);
        Seen { span, completed, busy: span * 4, waited: span * 3, waiting: 2, open: 4 }
    }

    #[test]
    fn a_window_is_full_when_it_is_long_and_has_seen_enough() {
        let mut window = Window::default();
        assert!(window.add(seen(150, 400)).is_none());
        let sample = window.add(seen(50, 100)).expect("long enough");
        assert!((sample.speed - 2500_f64.ln()).abs() < 1e-9 && sample.saturated && sample.busy > 3.9);
        for _ in 0..3 {
            assert!(window.add(seen(1000, 3)).is_none(), "transactions are rare");
        }
        let sample = window.add(seen(1000, 3)).expect("as long as it may be");
        assert!((sample.speed - 3_f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn nobody_waits_in_a_window_whose_clients_were_served_at_once() {
        let mut window = Window::default();
        let calm = Seen { waited: Duration::ZERO, waiting: 0, ..seen(200, 100) };
        assert!(!window.add(calm).expect("full").saturated);
    }

    #[test]
    fn noise_and_drift_are_told_apart() {
        let mut random = 7_u64;
        let mut unit = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        for (noise, drift) in [(0.1, 0.0), (0.1, 0.1), (0.02, 0.1)] {
            let (mut unrest, mut level, mut noises, mut steps) = (Unrest::default(), 5.0, 0.0, 0.0);
            for turn in 0..2000 {
                // A uniform draw has a twelfth of its width squared.
                level += drift * 12.0_f64.sqrt() * unit();
                let speed = level + noise * 12.0_f64.sqrt() * unit();
                unrest.learn(Sample { speed, span: 0.2, saturated: true, busy: 1.0, open: 4, few: false });
                if turn >= 100 {
                    noises += unrest.noise() / 1900.0;
                    steps += unrest.drift(0.2) / 1900.0;
                }
            }
            assert!((noises - noise * noise).abs() < 0.5 * noise * noise + 0.001, "{noise} {drift}: {noises}");
            assert!((steps - drift * drift).abs() < 0.4 * drift * drift + 0.001, "{noise} {drift}: {steps}");
        }
    }

    /// The sample of five looks at four servers, of which somebody waits at these.
    fn sample(waits: [bool; 5]) -> Sample {
        let mut window = Window::default();
        let span = Duration::from_millis(40);
        let seen = |waits| Seen { span, completed: 20, waiting: u32::from(waits), open: 4, ..Seen::default() };
        let samples = waits.map(|waits| window.add(seen(waits)));
        samples.into_iter().flatten().last().expect("100 transactions in 200 ms fill a window")
    }

    #[test]
    fn one_who_waits_at_last_says_less_than_somebody_at_every_look() {
        assert!(sample([true; 5]).saturated);
        assert!(!sample([false, false, false, false, true]).saturated);
        assert!(!sample([true, true, true, true, false]).saturated);
    }
}
