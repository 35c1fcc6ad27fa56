//! What was seen, as samples that can be compared: windows of time, and how sure their means are.
//!
//! A window's throughput is kept as its logarithm, so that differences are ratios and noise that grows with throughput is
//! the same everywhere. How much windows scatter is learned from neighbours in time, which a slow drift does not inflate.

use std::time::Duration;

/// What is known of a pool since it was looked at last, summed over its workers.
#[derive(Copy, Clone, Debug, Default)]
pub struct Seen {
    /// How long that is.
    pub span: Duration,
    /// Transactions that ended.
    pub completed: u64,
    /// Server-time that these took.
    pub busy: Duration,
    /// How long those who were given a server had waited, summed.
    pub waited: Duration,
    /// Who waits now.
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

/// What windows scatter by before anything was seen, squared, and how many windows' worth of belief that has.
const VARIANCE_FIRST: f64 = 0.06 * 0.06;
const VARIANCE_BELIEF: f64 = 3.0;

/// How many differences the scatter remembers.
const VARIANCE_MEMORY: f64 = 40.0;

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
    /// Somebody waited most of the time.
    pub(super) saturated: bool,
    /// Servers at work, on average.
    pub(super) busy: f64,
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
            saturated: sum.waiting > 0 && (queue >= 0.5 || looks >= LOOKS_MIN && waited == looks)
                || sum.waiting > sum.open,
            busy: sum.busy.as_secs_f64() / span,
            few: sum.completed < FEW,
        })
    }
}

/// How much windows scatter.
#[derive(Clone, Debug)]
pub(super) struct Scatter {
    variance: f64,
    belief: f64,
}

impl Default for Scatter {
    fn default() -> Scatter {
        Scatter { variance: VARIANCE_FIRST, belief: VARIANCE_BELIEF }
    }
}

impl Scatter {
    /// Two windows of the same size that follow each other.
    pub(super) fn learn(&mut self, earlier: Sample, later: Sample) {
        // A step of the curve is no noise.
        let difference = (later.speed - earlier.speed).clamp(-0.7, 0.7);
        self.belief = (self.belief + 1.0).min(VARIANCE_MEMORY);
        self.variance += (difference * difference / 2.0 - self.variance) / self.belief;
    }

    /// Of one window.
    pub(super) fn variance(&self) -> f64 {
        self.variance.max(1e-6)
    }
}

/// Windows of one size.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) mean: f64,
    /// Windows' worth.
    pub(super) weight: f64,
    /// Somebody waited in most of them.
    pub(super) saturated: bool,
}

/// A record remembers this many windows.
const RECORD_MEMORY: f64 = 30.0;

impl Record {
    pub(super) fn add(&mut self, sample: Sample) {
        self.weight = (self.weight + 1.0).min(RECORD_MEMORY);
        self.mean += (sample.speed - self.mean) / self.weight;
        self.saturated = sample.saturated;
    }

    pub(super) fn merge(&mut self, other: Record) {
        let weight = self.weight + other.weight;
        if weight > 0.0 {
            self.mean += (other.mean - self.mean) * other.weight / weight;
        }
        self.weight = weight.min(RECORD_MEMORY);
        self.saturated = other.saturated;
    }

    /// How far `self` is above `other`, and the standard error of that.
    pub(super) fn above(&self, other: &Record, scatter: &Scatter) -> Difference {
        let variance = scatter.variance() * (1.0 / self.weight + 1.0 / other.weight);
        Difference { mean: self.mean - other.mean, variance }
    }
}

/// Between two sizes' throughput: a logarithm of their ratio.
#[derive(Copy, Clone, Debug)]
pub(super) struct Difference {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Difference {
    /// How many standard errors it is above `bar`.
    pub(super) fn sureness(self, bar: f64) -> f64 {
        (self.mean - bar) / self.variance.sqrt()
    }

    /// What two independent observations say together.
    pub(super) fn and(self, other: Difference) -> Difference {
        let weight = 1.0 / self.variance + 1.0 / other.variance;
        let mean = (self.mean / self.variance + other.mean / other.variance) / weight;
        Difference { mean, variance: 1.0 / weight }
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
    fn a_difference_grows_surer_with_each_window() {
        let (mut low, mut high, scatter) = (Record::default(), Record::default(), Scatter::default());
        let sample = |speed| Sample { speed, saturated: true, busy: 1.0, few: false };
        let mut last = 0.0;
        for _ in 0..8 {
            low.add(sample(1.0));
            high.add(sample(1.1));
            let sureness = high.above(&low, &scatter).sureness(0.0);
            assert!(sureness > last);
            last = sureness;
        }
        assert!((high.above(&low, &scatter).mean - 0.1).abs() < 1e-9);
    }
}
