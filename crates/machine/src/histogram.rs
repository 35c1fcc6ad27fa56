//! How long things took, counted in buckets with fixed bounds.
//!
//! Promises: no allocation, no floating point, and one comparison for each time that is counted. A worker counts for each
//! of its pools; the control plane adds up what all workers have.

/// Buckets of a histogram: a power of two, so that no index has to be checked.
const BUCKETS: usize = 16;

/// The upper bounds of all buckets but the last, in microseconds; a time that equals a bound is counted below it, as
/// Prometheus wants it. From what a server on the same machine takes to what makes a person leave.
pub const BOUNDS_US: [u64; BUCKETS - 1] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 1_000_000, 5_000_000, 15_000_000,
    60_000_000,
];

/// The bounds of all buckets; none is above the last.
const BOUNDS: [u64; BUCKETS] = {
    let mut bounds = [u64::MAX; BUCKETS];
    let mut index = 0;
    while index < BOUNDS_US.len() {
        bounds[index] = BOUNDS_US[index];
        index += 1;
    }
    bounds
};

/// For times from each power of two up to the next one, how many bounds are below all of them. Since each bound is at
/// least twice the one before it, at most one more is below a given time.
const FIRST: [u8; 64] = {
    let mut first = [0; 64];
    let mut power = 0;
    while power < 64 {
        let mut index = 0;
        while index < BOUNDS_US.len() && BOUNDS_US[index] < 1 << power {
            index += 1;
        }
        first[power] = index as u8;
        power += 1;
    }
    first
};

/// The number of a bucket.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bucket(u8);

impl Bucket {
    /// That of 0.
    pub const LEAST: Bucket = Bucket(0);

    /// Its place among [`Histogram::buckets`].
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The one of a time of so many microseconds.
    #[inline(always)]
    #[must_use]
    pub fn of(micros: u64) -> Bucket {
        let first = FIRST[(micros | 1).ilog2() as usize];
        Bucket(first + u8::from(BOUNDS[usize::from(first) % BUCKETS] < micros))
    }
}

/// Counts by bucket since the start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
}

impl Histogram {
    /// Something has taken a time of this bucket.
    #[inline(always)]
    pub fn count(&mut self, Bucket(bucket): Bucket) {
        self.counts[usize::from(bucket) % BUCKETS] += 1;
    }

    /// Adds those of the same pool on another worker.
    pub fn add(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, more)| *sum += more);
    }

    /// Upper bounds and counts, each for its bucket alone. The last one has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        BOUNDS_US.into_iter().map(Some).chain([None]).zip(self.counts)
    }

    /// The time that this share of all was not above, estimated within its bucket as if times were spread evenly in it.
    /// `zeros`: so many more took no time at all; `max`: the longest that was counted. 0 if nothing was.
    #[must_use]
    pub fn quantile(&self, per_mille: u64, zeros: u64, max: u64) -> u64 {
        let all = self.total() + zeros;
        let rank = (u128::from(all) * u128::from(per_mille)).div_ceil(1000);
        let mut below = u128::from(zeros);
        if rank <= below && zeros > 0 {
            return 0;
        }
        let mut low = 0;
        for (high, count) in self.buckets() {
            let high = high.unwrap_or(u64::MAX).min(max);
            if count > 0 && below + u128::from(count) >= rank {
                let part = u128::from(high.saturating_sub(low)) * (rank - below) / u128::from(count);
                return low + u64::try_from(part).unwrap_or(u64::MAX);
            }
            below += u128::from(count);
            low = high;
        }
        max
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What the table of powers must come to.
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
            histogram.count(Bucket::of(micros));
            assert_eq!(histogram.counts[by_looking(micros)], 1, "{micros}");
            assert_eq!(histogram.total(), 1);
        }
    }

    #[test]
    fn bounds_are_far_enough_apart_for_one_comparison() {
        assert!(BOUNDS_US.windows(2).all(|pair| pair[1] >= 2 * pair[0]));
    }

    #[test]
    fn a_quantile_lies_in_the_bucket_of_the_time_that_has_its_rank() {
        let times: Vec<u64> = (0..1000).map(|number| number * number).collect();
        let mut histogram = Histogram::default();
        times.iter().for_each(|time| histogram.count(Bucket::of(*time)));
        for per_mille in [1, 500, 950, 990, 1000] {
            let (exact, found) = (times[per_mille - 1], histogram.quantile(per_mille as u64, 0, times[999]));
            assert_eq!(Bucket::of(exact), Bucket::of(found.max(1)), "{per_mille}: {exact}, found {found}");
        }
        assert_eq!(histogram.quantile(1000, 0, times[999]), times[999]);
        assert_eq!(Histogram::default().quantile(500, 0, 0), 0);
        // Most did not wait.
        assert_eq!(histogram.quantile(500, 2000, times[999]), 0);
        assert!(histogram.quantile(950, 2000, times[999]) > 0);
    }

    #[test]
    fn counts_of_two_workers_are_added() {
        let (mut sum, mut other) = (Histogram::default(), Histogram::default());
        sum.count(Bucket::of(100));
        other.count(Bucket::of(100));
        other.count(Bucket::of(u64::MAX));
        sum.add(&other);
        let counted: Vec<_> = sum.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(Some(100), 2), (None, 1)]);
    }
}
