//! A PostgreSQL whose statements take longer the more of them run, and worlds in which a pool's best size must be
//! found.
//!
//! ```text
//!   statements a second
//!     │        ▁▂▃▃▂▁▁              contention: each statement waits a little for each other (the universal scalability law)
//!     │     ▃▅          ▔▔▁▁▁▁      cores: no statement waits until all are busy, then all do
//!     │   ▅                         latency: no statement waits for another: more servers, more throughput
//!     │                             sleep: the same, and each statement takes a tenth of a second to two seconds
//!     └─────────┬──────────────── statements that run at a time
//!              peak        in half of the worlds it is another one from the thirtieth second on
//! ```
//!
//! Only the size is special in such a world: its clients query rows without a pause, nothing goes wrong, and every
//! invariant is checked. In half of the worlds the speed of the whole database changes by some twentieth every 200 ms.
//! `checks::i15_sizes` compares the size that was found with the best one.

use crate::random::Random;

/// Bounds of the size.
pub(crate) const FLOOR: u32 = 2;
pub(crate) const CEILING: u32 = 32;

/// From this time on the law may be another one, and the database slower or faster. A search takes 17.2 s at most, and
/// the next may begin ten seconds after it. (A step that does not change throughput at the present size is found only
/// by later tries of neighbours: that is not checked here.)
const STEP_US: u64 = 30_000_000;
const STEPS: [f64; 2] = [0.6, 1.6];

/// The time to find the size, from the beginning and from the step.
const SEARCHED_US: u64 = 10_000_000;

/// Statements a second of the best size: enough to tell sizes apart, few enough for a simulator.
const BEST: f64 = 1_000.0;

/// The database's speed changes every so often, by a normal variable with this deviation.
const UNREST_US: u64 = 200_000;
const UNREST: f64 = 0.05;

/// Why throughput does not grow with more servers.
#[derive(Copy, Clone, Debug, PartialEq)]
enum Law {
    Contention { peak: f64 },
    Cores { cores: f64 },
    Latency,
    Sleep { seconds: f64 },
}

impl Law {
    /// How many times longer a statement takes if so many run, itself included, than alone.
    fn slowdown(self, busy: u32) -> f64 {
        let (busy, others) = (f64::from(busy), f64::from(busy.saturating_sub(1)));
        match self {
            Law::Contention { peak } => 1.0 + 0.02 * others + others * busy / (peak * peak),
            Law::Cores { cores } => (busy / cores).max(1.0) * (1.0 + 0.01 * (busy - cores).max(0.0)),
            Law::Latency | Law::Sleep { .. } => 1.0,
        }
    }

    /// Throughput relative to that of one server.
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
    /// The law after the step, and its best throughput relative to the first law's.
    later: Option<(Law, f64)>,
    /// The speed of the whole database changes.
    is_restless: bool,
}

/// Whether the PostgreSQL of this world refuses the query for wait events, as one that is too old.
pub(crate) fn refuses_wait_query(seed: u64) -> bool {
    seed.is_multiple_of(4)
}

impl Curve {
    pub(crate) fn draw(seed: u64) -> Curve {
        let mut random = Random::new(seed ^ 0x6375_7276_6500);
        let contended = [3.0, 6.0, 12.0, 24.0].map(|peak| Law::Contention { peak });
        let cores = [4.0, 16.0].map(|cores| Law::Cores { cores });
        // Only what servers wait for shows what slow statements need: a PostgreSQL that does not tell has none.
        let told = !refuses_wait_query(seed);
        let slow: &[Law] = if told { &[0.1, 0.5, 2.0].map(|seconds| Law::Sleep { seconds }) } else { &[] };
        let laws = [&contended[..], &cores, &[Law::Latency], slow].concat();
        let (law, other) = (*random.pick(&laws), *random.pick(&laws));
        let later = (random.chance(500) && other != law).then(|| (other, *random.pick(&STEPS)));
        Curve { law, later, is_restless: random.chance(500) }
    }

    /// The current law, and its best throughput relative to the first law's.
    fn law(&self, now: u64) -> (Law, f64) {
        self.later.filter(|_| now >= STEP_US).unwrap_or((self.law, 1.0))
    }

    /// How long a statement takes while so many run, in microseconds.
    fn service_us(&self, busy: u32, now: u64) -> f64 {
        let (law, more) = self.law(now);
        if let Law::Sleep { seconds } = law {
            return seconds * 1e6;
        }
        law.slowdown(busy) * law.best() / (BEST * more) * 1e6
    }

    /// The wait events of so many running statements: type, event, how many. The slower statements are by contention,
    /// the more of them wait.
    pub(crate) fn waits(&self, busy: u32, now: u64) -> [(Option<&'static str>, Option<&'static str>, u32); 2] {
        let (law, _) = self.law(now);
        let (kind, event, waits) = match law {
            Law::Contention { .. } => ("Lock", "transactionid", f64::from(busy) * (1.0 - 1.0 / law.slowdown(busy))),
            Law::Cores { .. } => ("Lock", "transactionid", 0.0),
            Law::Latency => ("IO", "DataFileRead", f64::from(busy)),
            Law::Sleep { .. } => ("Timeout", "PgSleep", f64::from(busy)),
        };
        let waits = waits.round() as u32;
        [(Some(kind), Some(event), waits), (None, None, busy.saturating_sub(waits))]
    }

    /// Throughput of so many servers, relative to that of the best size.
    pub(crate) fn worth(&self, size: u32, now: u64) -> f64 {
        let (law, _) = self.law(now);
        law.gain(size) / law.best()
    }

    /// The times at which the size should have been found.
    pub(crate) fn dues(&self) -> impl Iterator<Item = u64> {
        [Some(SEARCHED_US), self.later.map(|_| STEP_US + SEARCHED_US)].into_iter().flatten()
    }

    /// When the world ends: late enough to see also whether a size that was found is kept.
    pub(crate) fn ends(&self) -> u64 {
        self.dues().last().unwrap_or(0).max(2 * SEARCHED_US)
    }

    /// How long a statement takes that begins now while so many others run, in microseconds, plus or minus a tenth.
    pub(crate) fn work_us(&self, others: u32, seed: u64, now: u64, random: &mut Random) -> u64 {
        let chance = 0.9 + random.range(0, 200) as f64 / 1_000.0;
        let faster = self.unrest(seed, now);
        (self.service_us(others + 1, now) * chance / faster) as u64
    }

    /// The factor by which the database is faster now.
    fn unrest(&self, seed: u64, now: u64) -> f64 {
        if !self.is_restless {
            return 1.0;
        }
        let mut random = Random::new(seed ^ (now / UNREST_US) << 8);
        // The sum of twelve uniform variables is nearly normal.
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
        assert_eq!(best(Law::Sleep { seconds: 2.0 }), Some(CEILING));
    }

    #[test]
    fn a_step_is_judged_after_it() {
        let curve = Curve { law: Law::Latency, later: Some((Law::Cores { cores: 4.0 }, 0.6)), is_restless: false };
        assert_eq!(curve.dues().collect::<Vec<_>>(), [SEARCHED_US, STEP_US + SEARCHED_US]);
        assert!((curve.worth(4, 0) - 4.0 / 32.0).abs() < 1e-9 && (curve.worth(4, STEP_US) - 1.0).abs() < 1e-9);
    }
}
