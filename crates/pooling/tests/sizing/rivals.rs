//! Other ways to find a size, as they are known: what docs/adr/0018 compares the chosen one with.
//!
//! Each sees exactly what the chosen one sees, and gets a second per size, which is about what that takes.

use std::time::Duration;

use queueing::sizing::Seen;
use units::Time;

use crate::model::Rule;

pub(crate) const FLOOR: f64 = 2.0;
pub(crate) const CEILING: f64 = 80.0;

/// Throughput of whole seconds at one size, the first part of each left out.
#[derive(Clone, Debug, Default)]
struct Second {
    looks: u32,
    completed: u64,
    busy: Duration,
    span: Duration,
}

struct Result {
    speed: f64,
    service: f64,
}

impl Second {
    fn add(&mut self, seen: Seen) -> Option<Result> {
        self.looks += 1;
        if self.looks > 2 {
            self.completed += seen.completed;
            self.busy += seen.busy;
            self.span += seen.span;
        }
        if self.looks < 6 {
            return None;
        }
        let done = std::mem::take(self);
        let completed = done.completed.max(1) as f64;
        Some(Result { speed: completed / done.span.as_secs_f64(), service: done.busy.as_secs_f64() / completed })
    }
}

fn within(size: f64) -> f64 {
    size.clamp(FLOOR, CEILING)
}

/// A quarter up or down; on while it gets better, back when it gets worse.
#[derive(Clone, Debug)]
pub(crate) struct Climber {
    size: f64,
    upwards: bool,
    last: f64,
    second: Second,
}

impl Climber {
    pub(crate) fn new(size: f64) -> Climber {
        Climber { size, upwards: true, last: 0.0, second: Second::default() }
    }
}

impl Rule for Climber {
    fn size(&self) -> u32 {
        self.size.round() as u32
    }

    fn observe(&mut self, _now: Time, seen: Seen) {
        let Some(result) = self.second.add(seen) else { return };
        if result.speed < self.last {
            self.upwards = !self.upwards;
        }
        self.last = result.speed;
        let factor = if self.upwards { 1.25 } else { 0.8 };
        self.size = within(self.size * factor);
    }
}

/// Golden section over the logarithm of the size, and then it stays.
#[derive(Clone, Debug)]
pub(crate) struct Golden {
    low: f64,
    high: f64,
    probes: [(f64, Option<f64>); 2],
    at: usize,
    second: Second,
    found: Option<f64>,
}

const SECTION: f64 = 0.618_033_988_749_895;

impl Golden {
    pub(crate) fn new() -> Golden {
        let (low, high) = (FLOOR.ln(), CEILING.ln());
        let probes = [(high - SECTION * (high - low), None), (low + SECTION * (high - low), None)];
        Golden { low, high, probes, at: 0, second: Second::default(), found: None }
    }
}

impl Rule for Golden {
    fn size(&self) -> u32 {
        self.found.unwrap_or(self.probes[self.at].0).exp().round() as u32
    }

    fn observe(&mut self, _now: Time, seen: Seen) {
        let Some(result) = self.second.add(seen).filter(|_| self.found.is_none()) else { return };
        self.probes[self.at].1 = Some(result.speed);
        let [(lower, left), (upper, right)] = self.probes;
        let (Some(left), Some(right)) = (left, right) else {
            self.at = 1 - self.at;
            return;
        };
        if left >= right {
            self.high = upper;
            self.probes = [(self.high - SECTION * (self.high - self.low), None), (lower, Some(left))];
            self.at = 0;
        } else {
            self.low = lower;
            self.probes = [(upper, Some(right)), (self.low + SECTION * (self.high - self.low), None)];
            self.at = 1;
        }
        if self.high - self.low < 0.3 {
            self.found = Some((self.low + self.high) / 2.0);
        }
    }
}

/// As TCP Vegas: what service takes beyond the shortest it ever took is queueing below, which is kept near a few servers.
#[derive(Clone, Debug)]
pub(crate) struct Vegas {
    size: f64,
    shortest: f64,
    second: Second,
}

impl Vegas {
    pub(crate) fn new(size: f64) -> Vegas {
        Vegas { size, shortest: f64::INFINITY, second: Second::default() }
    }
}

impl Rule for Vegas {
    fn size(&self) -> u32 {
        self.size.round() as u32
    }

    fn observe(&mut self, _now: Time, seen: Seen) {
        let Some(result) = self.second.add(seen) else { return };
        self.shortest = self.shortest.min(result.service);
        let queued = self.size * (1.0 - self.shortest / result.service);
        if queued < 2.0 {
            self.size = within(self.size * 1.25);
        } else if queued > 4.0 {
            self.size = within(self.size * 0.8);
        }
    }
}

/// The universal scalability law fitted to all that was seen by least squares: service time is a parabola of the size. Goes
/// to its peak, and every other second a third beside it, or else there would be nothing to fit.
#[derive(Clone, Debug)]
pub(crate) struct Fitted {
    size: f64,
    base: f64,
    turn: usize,
    sums: [[f64; 4]; 3],
    second: Second,
}

impl Fitted {
    pub(crate) fn new(size: f64) -> Fitted {
        Fitted { size, base: size, turn: 0, sums: [[0.0; 4]; 3], second: Second::default() }
    }

    fn peak(&self) -> Option<f64> {
        let [a, b, c] = self.sums;
        let minor = |i: usize, j: usize, k: usize| {
            a[i] * (b[j] * c[k] - b[k] * c[j]) - a[j] * (b[i] * c[k] - b[k] * c[i]) + a[k] * (b[i] * c[j] - b[j] * c[i])
        };
        let (alone, coherency) = (minor(3, 1, 2) / minor(0, 1, 2), minor(0, 1, 3) / minor(0, 1, 2));
        let peak = (alone / coherency).sqrt();
        (coherency <= 0.0).then_some(CEILING).or(peak.is_finite().then_some(peak))
    }
}

impl Rule for Fitted {
    fn size(&self) -> u32 {
        self.size.round() as u32
    }

    fn observe(&mut self, _now: Time, seen: Seen) {
        let Some(result) = self.second.add(seen) else { return };
        let n = f64::from(self.size());
        let service = n / result.speed;
        for (row, left) in self.sums.iter_mut().zip([1.0, n, n * n]) {
            for (cell, right) in row.iter_mut().zip([1.0, n, n * n, service]) {
                // Relative errors are equal, so what is larger weighs less; what is old fades.
                *cell = *cell * 0.95 + left * right / (service * service);
            }
        }
        self.turn += 1;
        if self.turn > 2 {
            self.base = within(self.peak().unwrap_or(self.base).clamp(self.base / 2.0, self.base * 2.0));
        }
        self.size = within(self.base * [1.0, 1.33, 1.0, 0.75][self.turn % 4]);
    }
}
