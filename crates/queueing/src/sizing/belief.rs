//! What is believed of all sizes at once, and how surely: a curve, and a level that drifts.
//!
//! What is seen in a window is `f(size) + level + noise`, all of them logarithms. `f` is some smooth curve over the logarithm of the
//! size (a Gaussian process: neighbours are alike, the more the nearer); the level is what everything else does to the
//! database meanwhile: a random walk. Both are estimated together by a Kalman filter, so that
//! windows close in time are compared closely, windows minutes apart hardly, and how far apart that is follows from how
//! much the level was seen to move. Where it does not move, all windows count.
//!
//! Does not decide anything. Costs, for each window, the square of the number of rungs.

use super::ladder::Ladder;

/// How far the logarithm of throughput may go up or down with the logarithm of the size: one is proportional.
const SLOPE: f64 = 0.6;

/// How far it may lie off that line, and over which distance, as a logarithm of sizes, it comes back. The curve may have a kink, as
/// where all cores have work: it is as rough as a Matérn kernel of order 3/2. One of order 5/2 rounds a kink off, and takes
/// the size beyond it for the better one.
const BEND: f64 = 0.9;
const REACH: f64 = 2.6;

/// Nothing is known of the level before the first window.
const LEVEL_UNKNOWN: f64 = 100.0;

/// In so many seconds a curve becomes another one altogether.
const CURVE_LASTS_S: f64 = 3600.0;

#[derive(Clone, Debug)]
pub(super) struct Belief {
    /// Of each rung, and last the level.
    mean: Vec<f64>,
    /// Of all of these with each other, row by row.
    covariance: Vec<f64>,
    /// Of rungs, before anything was seen.
    prior: Vec<f64>,
    /// Windows seen at each rung.
    seen: Vec<u32>,
}

/// Between two rungs' throughput, as a logarithm of their ratio.
#[derive(Copy, Clone, Debug)]
pub(super) struct Difference {
    pub(super) mean: f64,
    pub(super) variance: f64,
}

impl Difference {
    /// How many standard errors it is above `bar`.
    pub(super) fn sureness(self, bar: f64) -> f64 {
        (self.mean - bar) / self.variance.max(1e-12).sqrt()
    }
}

impl Belief {
    pub(super) fn new(ladder: &Ladder) -> Belief {
        let places: Vec<f64> = (0..ladder.len()).map(|rung| f64::from(ladder.size(rung)).ln()).collect();
        let middle = places.iter().sum::<f64>() / places.len() as f64;
        let kernel = |a: f64, b: f64| {
            let away = (a - b).abs() / REACH * 3.0_f64.sqrt();
            SLOPE * SLOPE * (a - middle) * (b - middle) + BEND * BEND * (1.0 + away) * (-away).exp()
        };
        let prior: Vec<f64> = places.iter().flat_map(|&a| places.iter().map(move |&b| kernel(a, b))).collect();
        let count = places.len();
        let mut belief = Belief { mean: vec![0.0; count + 1], covariance: Vec::new(), prior, seen: vec![0; count] };
        belief.forget();
        belief
    }

    fn rungs(&self) -> usize {
        self.seen.len()
    }

    fn at(&self, row: usize, column: usize) -> f64 {
        self.covariance[row * self.mean.len() + column]
    }

    /// As if nothing had been seen.
    pub(super) fn forget(&mut self) {
        let (rungs, width) = (self.rungs(), self.mean.len());
        self.mean.fill(0.0);
        self.seen.fill(0);
        self.covariance = vec![0.0; width * width];
        for row in 0..rungs {
            let from = &self.prior[row * rungs..(row + 1) * rungs];
            self.covariance[row * width..row * width + rungs].copy_from_slice(from);
        }
        self.covariance[width * width - 1] = LEVEL_UNKNOWN;
    }

    pub(super) fn is_known(&self, rung: usize) -> bool {
        self.seen[rung] > 0
    }

    /// Time passes: the level may have moved by this variance, and the curve has changed a little.
    pub(super) fn pass(&mut self, seconds: f64, drift: f64) {
        let (rungs, width) = (self.rungs(), self.mean.len());
        self.covariance[width * width - 1] = (self.covariance[width * width - 1] + drift).min(LEVEL_UNKNOWN);
        let faded = seconds / CURVE_LASTS_S;
        for row in 0..rungs {
            for column in 0..rungs {
                self.covariance[row * width + column] += self.prior[row * rungs + column] * faded;
            }
        }
    }

    /// What a window at this rung would show: mean, and variance without the window's own noise.
    pub(super) fn expected(&self, rung: usize) -> (f64, f64) {
        let level = self.rungs();
        let variance = self.at(rung, rung) + 2.0 * self.at(rung, level) + self.at(level, level);
        (self.mean[rung] + self.mean[level], variance.max(0.0))
    }

    /// A window at this rung has shown this, with noise of this variance.
    pub(super) fn see(&mut self, rung: usize, speed: f64, noise: f64) {
        let (width, level) = (self.mean.len(), self.rungs());
        let (expected, variance) = self.expected(rung);
        let shared: Vec<f64> = (0..width).map(|row| self.at(row, rung) + self.at(row, level)).collect();
        let whole = variance + noise;
        for (mean, shared) in self.mean.iter_mut().zip(&shared) {
            *mean += shared / whole * (speed - expected);
        }
        for (row, left) in shared.iter().enumerate() {
            for (column, right) in shared.iter().enumerate() {
                self.covariance[row * width + column] -= left * right / whole;
            }
        }
        self.seen[rung] = self.seen[rung].saturating_add(1);
    }

    /// The level has jumped by about this much.
    pub(super) fn jump(&mut self, by: f64) {
        let last = self.covariance.len() - 1;
        self.covariance[last] += by * by;
    }

    /// How far `rung` is above `other`.
    pub(super) fn above(&self, rung: usize, other: usize) -> Difference {
        let variance = self.at(rung, rung) + self.at(other, other) - 2.0 * self.at(rung, other);
        Difference { mean: self.mean[rung] - self.mean[other], variance: variance.max(0.0) }
    }

    /// By what standard deviation a look at `where_to` would move what is believed of `rung` above `other`, if that look has
    /// this much noise.
    pub(super) fn would_tell(&self, where_to: usize, noise: f64, rung: usize, other: usize) -> f64 {
        let level = self.rungs();
        let shared = |row: usize| self.at(row, where_to) + self.at(row, level);
        let (_, variance) = self.expected(where_to);
        (shared(rung) - shared(other)).abs() / (variance + noise).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn belief() -> Belief {
        Belief::new(&Ladder::new(2, 80))
    }

    #[test]
    fn a_curve_is_learned_through_a_level_that_drifts() {
        let mut belief = belief();
        let curve = |rung: usize| -0.02 * (rung as f64 - 5.0).powi(2);
        for turn in 0..400_usize {
            let rung = turn * 5 % 12;
            let level = 7.0 + 0.01 * turn as f64;
            belief.pass(0.0, 0.0004);
            belief.see(rung, curve(rung) + level, 0.0004);
        }
        for rung in 0..12 {
            let Difference { mean, variance } = belief.above(rung, 5);
            assert!((mean - curve(rung)).abs() < 0.03, "{rung}: {mean}");
            assert!(variance.sqrt() < 0.03);
        }
    }

    #[test]
    fn neighbours_tell_of_each_other_and_nothing_tells_of_the_level_alone() {
        let mut belief = belief();
        let unsure = |belief: &Belief, rung| belief.above(rung, 4).variance;
        let before = unsure(&belief, 5);
        belief.see(4, 3.0, 0.01);
        assert!((unsure(&belief, 5) - before).abs() < 0.1 * before, "one size says nothing of another");
        let far = unsure(&belief, 11);
        belief.see(6, 3.5, 0.01);
        assert!(unsure(&belief, 5) < 0.2 * before);
        assert!(unsure(&belief, 11) < far && unsure(&belief, 11) > unsure(&belief, 7));
        assert!(belief.above(6, 4).mean > 0.4);
        assert!(belief.above(5, 4).sureness(0.0) > 1.0);
    }

    #[test]
    fn what_is_long_ago_counts_less_where_the_level_moves() {
        let compared = |drift: f64| {
            let mut belief = belief();
            belief.see(4, 3.0, 0.0004);
            belief.pass(10.0, drift);
            belief.see(6, 3.5, 0.0004);
            belief.above(6, 4)
        };
        assert!(compared(0.0).variance < 0.01);
        assert!(compared(0.25).variance > 0.1 && compared(0.25).mean < compared(0.0).mean);
    }

    #[test]
    fn a_look_is_worth_more_where_less_is_known() {
        let mut belief = belief();
        belief.see(4, 3.0, 0.001);
        belief.see(6, 3.1, 0.001);
        let told = |rung| belief.would_tell(rung, 0.001, rung, 6);
        assert!(told(9) > told(7) && told(7) > told(5) && told(5) > 0.0);
        assert!(belief.would_tell(6, 0.001, 5, 6) < told(9));
    }
}
