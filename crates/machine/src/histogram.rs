//! How long things took, counted in buckets with fixed bounds.
//!
//! Promises: no allocation, no floating point, and one comparison for each time that is counted. A worker counts for each
//! of its pools; the control plane adds up what all workers have.

use units::Time;

/// The upper bounds of all buckets but the last, in microseconds; a time that equals a bound is counted below it, as
/// Prometheus wants it. From what a server on the same machine takes to what makes a person leave.
pub const BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000, 60_000_000,
];

/// For each number of bits of a time, how many bounds are below all times of so many bits. Since each bound is at least
/// twice the one before it, at most one more can be below a given time.
const FIRST: [u8; 65] = {
    let mut first = [BOUNDS_US.len() as u8; 65];
    let mut bits = 0;
    while bits <= 64 {
        let least = if bits == 0 { 0 } else { 1 << (bits - 1) };
        let mut index = 0;
        while index < BOUNDS_US.len() && BOUNDS_US[index] < least {
            index += 1;
        }
        first[bits] = index as u8;
        bits += 1;
    }
    first
};

/// Counts by bucket since the start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BOUNDS_US.len() + 1],
}

impl Histogram {
    /// Something has taken so many microseconds.
    #[inline]
    pub fn count(&mut self, micros: u64) {
        let first = usize::from(FIRST[(u64::BITS - micros.leading_zeros()) as usize]);
        let is_above = BOUNDS_US.get(first).is_some_and(|bound| *bound < micros);
        self.counts[first + usize::from(is_above)] += 1;
    }

    /// Adds those of the same pool on another worker.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
    }

    /// Upper bounds and counts, each for its bucket alone. The last one has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        BOUNDS_US.into_iter().map(Some).chain([None]).zip(self.counts)
    }

    /// How many times were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The histograms of one pool.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// How long sessions waited for a server, of each link; 0 where one was idle. And for leave to keep theirs.
    pub wait: Histogram,
    pub query: Histogram,
    pub transaction: Histogram,
}

impl Spans {
    /// Adds those of the same pool on another worker.
    pub fn add(&mut self, other: &Spans) {
        self.wait.add(&other.wait);
        self.query.add(&other.query);
        self.transaction.add(&other.transaction);
    }
}

/// The time since a moment, in microseconds, which is also counted.
#[inline]
pub fn counted(histogram: &mut Histogram, now: Time, since: Time) -> u64 {
    let micros = now.micros_since(since);
    histogram.count(micros);
    micros
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the table of bits must come to.
    fn by_looking(micros: u64) -> usize {
        BOUNDS_US.iter().filter(|bound| **bound < micros).count()
    }

    #[test]
    fn each_time_is_in_the_bucket_whose_bounds_it_lies_between() {
        let near = |micros: u64| [micros.saturating_sub(1), micros, micros.saturating_add(1)];
        let powers = (0..64).map(|bits| 1u64 << bits);
        let times = BOUNDS_US.into_iter().chain(powers).chain([0, u64::MAX]).flat_map(near);
        for micros in times.chain(0..30_000) {
            let mut histogram = Histogram::default();
            histogram.count(micros);
            assert_eq!(histogram.counts[by_looking(micros)], 1, "{micros}");
            assert_eq!(histogram.total(), 1);
        }
    }

    #[test]
    fn bounds_are_far_enough_apart_for_one_comparison() {
        assert!(BOUNDS_US.windows(2).all(|pair| pair[1] >= 2 * pair[0]));
    }

    #[test]
    fn counts_of_two_workers_are_added() {
        let (mut sum, mut other) = (Histogram::default(), Histogram::default());
        sum.count(100);
        other.count(100);
        other.count(u64::MAX);
        sum.add(&other);
        let counted: Vec<_> = sum.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Some(100), 2), (None, 1)]);
    }
}
