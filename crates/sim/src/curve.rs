//! A PostgreSQL whose statements take the longer the more of them run, and worlds in which a pool's size is to be found for it.
//!
//! ```text
//!   statements a second
//!     │        ▁▂▃▃▂▁▁              contention: each waits a little for each other one (the universal scalability law)
//!     │     ▃▅          ▔▔▁▁▁▁      cores: nobody waits until all work, then everybody does
//!     │   ▅                         latency: nobody waits for another, so the most servers do most
//!     └─────────┬──────────────── statements that run at a time
//!              peak        in half of the worlds it is another one from the thirtieth second on
//! ```
//!
//! Promises: nothing but the sizes is special in such a world: its clients ask for rows without a pause, nothing goes wrong, and every
//! invariant is looked at. In half of the worlds the whole database is faster or slower by some twentieth for 200 ms at a time.
//! Does not judge: `checks::i14_sizes` holds the size that was found against the best one.

use crate::random::Random;

/// Bounds of the size.
pub(crate) const FLOOR: u32 = 2;
pub(crate) const CEILING: u32 = 32;

/// From then on the law may be another one, and the database slower or faster by this. A search takes 17.2 s at most, and the next
/// may begin ten seconds after it. (A step that leaves throughput as it was at the present size is found by the next tries of
/// neighbours only: that is not looked at here.)
const STEP_US: u64 = 30_000_000;
const STEPS: [f64; 2] = [0.6, 1.6];

/// So long it has time to find the size, from the beginning and from the step.
const SEARCHED_US: u64 = 10_000_000;

/// Statements a second of the best size: enough to tell sizes apart, few enough for a simulator.
const BEST: f64 = 1_000.0;

/// For so long the database is faster or slower, by a normal variable of this deviation.
const UNREST_US: u64 = 200_000;
const UNREST: f64 = 0.05;

/// Why more servers do not do more.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Law {
    Contention { peak: f64 },
    Cores { cores: f64 },
    Latency,
}

impl Law {
    /// How much longer a statement takes beside others, so many in all, than alone.
    fn slowdown(self, busy: u32) -> f64 {
        let (busy, others) = (f64::from(busy), f64::from(busy.saturating_sub(1)));
        match self {
            Law::Contention { peak } => 1.0 + 0.02 * others + others * busy / (peak * peak),
            Law::Cores { cores } => (busy / cores).max(1.0) * (1.0 + 0.01 * (busy - cores).max(0.0)),
            Law::Latency => 1.0,
        }
    }

    /// Throughput, by that of one server.
    fn gain(self, size: u32) -> f64 {
        f64::from(size) / self.slowdown(size)
    }

    fn best(self) -> f64 {
        (FLOOR..=CEILING).map(|size| self.gain(size)).fold(0.0, f64::max)
    }
}

/// How long statements take.
#[derive(Copy, Clone, Debug, PartialEq)]
pub struct Curve {
    law: Law,
    /// Which law holds after the step, and by what its best throughput is more.
    later: Option<(Law, f64)>,
    /// The whole database is faster and slower.
    is_restless: bool,
}

impl Curve {
    pub(crate) fn draw(seed: u64) -> Curve {
        let mut random = Random::new(seed ^ 0x6375_7276_6500);
        let contended = [3.0, 6.0, 12.0, 24.0].map(|peak| Law::Contention { peak });
        let laws = [&contended[..], &[Law::Cores { cores: 4.0 }, Law::Cores { cores: 16.0 }, Law::Latency]].concat();
        let (law, other) = (*random.pick(&laws), *random.pick(&laws));
        let later = (random.chance(500) && other != law).then(|| (other, *random.pick(&STEPS)));
        Curve { law, later, is_restless: random.chance(500) }
    }

    /// The law that holds, and by what its best throughput is more than at first.
    fn law(&self, now: u64) -> (Law, f64) {
        self.later.filter(|_| now >= STEP_US).unwrap_or((self.law, 1.0))
    }

    /// How long one takes while so many run, in microseconds.
    fn service_us(&self, busy: u32, now: u64) -> f64 {
        let (law, more) = self.law(now);
        law.slowdown(busy) * law.best() / (BEST * more) * 1e6
    }

    /// What so many that run wait for: kind, event, how many. Of those that contend, the more wait the slower all are.
    pub(crate) fn waits(&self, busy: u32, now: u64) -> [(Option<&'static str>, Option<&'static str>, u32); 2] {
        let (law, _) = self.law(now);
        let (kind, event, waits) = match law {
            Law::Contention { .. } => ("Lock", "transactionid", f64::from(busy) * (1.0 - 1.0 / law.slowdown(busy))),
            Law::Cores { .. } => ("Lock", "transactionid", 0.0),
            Law::Latency => ("IO", "DataFileRead", f64::from(busy)),
        };
        let waits = waits.round() as u32;
        [(Some(kind), Some(event), waits), (None, None, busy.saturating_sub(waits))]
    }

    /// Statements a second of so many servers, by those of the best size.
    pub(crate) fn worth(&self, size: u32, now: u64) -> f64 {
        let (law, _) = self.law(now);
        law.gain(size) / law.best()
    }

    /// When the size should have been found, and which is the last of these times.
    pub(crate) fn dues(&self) -> impl Iterator<Item = u64> {
        [Some(SEARCHED_US), self.later.map(|_| STEP_US + SEARCHED_US)].into_iter().flatten()
    }

    /// When everything has been seen: how still a size lies that was found, too.
    pub(crate) fn ends(&self) -> u64 {
        self.dues().last().unwrap_or(0).max(2 * SEARCHED_US)
    }

    /// How long a statement takes that begins now, beside so many others, in microseconds; by a tenth more or less.
    pub(crate) fn work_us(&self, others: u32, seed: u64, now: u64, random: &mut Random) -> u64 {
        let chance = 0.9 + random.range(0, 200) as f64 / 1_000.0;
        let faster = self.unrest(seed, now);
        (self.service_us(others + 1, now) * chance / faster) as u64
    }

    /// By what the database is faster now.
    fn unrest(&self, seed: u64, now: u64) -> f64 {
        if !self.is_restless {
            return 1.0;
        }
        let mut random = Random::new(seed ^ (now / UNREST_US) << 8);
        // Twelve uniform variables are a normal one, nearly.
        let sum: f64 = (0..12).map(|_| random.range(0, 1_000_000) as f64 / 1e6).sum();
        1.0 + UNREST * (sum - 6.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_law_has_its_best_size() {
        let best = |law: Law| (FLOOR..=CEILING).max_by(|&a, &b| law.gain(a).total_cmp(&law.gain(b)));
        for peak in [3, 6, 12, 24] {
            assert_eq!(best(Law::Contention { peak: f64::from(peak) }), Some(peak));
        }
        assert_eq!(best(Law::Cores { cores: 16.0 }), Some(16));
        assert_eq!(best(Law::Latency), Some(CEILING));
    }

    #[test]
    fn a_step_is_judged_after_it() {
        let curve = Curve { law: Law::Latency, later: Some((Law::Cores { cores: 4.0 }, 0.6)), is_restless: false };
        assert_eq!(curve.dues().collect::<Vec<_>>(), [SEARCHED_US, STEP_US + SEARCHED_US]);
        assert!((curve.worth(4, 0) - 4.0 / 32.0).abs() < 1e-9 && (curve.worth(4, STEP_US) - 1.0).abs() < 1e-9);
    }
}
