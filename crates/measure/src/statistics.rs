//! What can be said about noisy samples: medians, ratios paired within a round, bootstrap intervals.
//!
//! Promises: the same samples and the same seed give the same interval on every machine. Nothing is
//! thrown away as an outlier: medians need no such choice, and a choice could be made to flatter.
//! Does not: assume any distribution, or compare samples that were taken in different rounds.

/// A small, seeded generator (xorshift64*): the bootstrap must be repeatable, not secret.
#[derive(Clone, Debug)]
pub struct Seeded {
    state: u64,
}

impl Seeded {
    /// Any seed will do; zero, which the generator could never leave, is replaced.
    pub fn new(seed: u64) -> Self {
        let state = if seed == 0 { 0x9e37_79b9_7f4a_7c15 } else { seed };
        Seeded { state }
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `bound`, which must not be zero. The bias of the remainder is below 1e-15 for the small bounds used here.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.draw() >> 1) as usize % bound
    }

    /// Puts the items into a random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

/// A median with the 95 % bootstrap interval around it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    /// How many samples it rests on.
    pub samples: usize,
}

/// A median and the range that it comes from: for samples that are too few for an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    pub median: f64,
    pub low: f64,
    pub high: f64,
}

impl Range {
    /// Of those that are numbers; `None` of nothing.
    #[must_use]
    pub fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.retain(|sample| sample.is_finite());
        samples.sort_by(f64::total_cmp);
        let (low, high) = (*samples.first()?, *samples.last()?);
        Some(Self { median: median_of_sorted(&samples)?, low, high })
    }
}

/// How often the bootstrap draws anew. The interval's ends then move by less than a hundredth of its width between seeds.
const RESAMPLES: usize = 10_000;

/// The middle of the samples (the mean of the two middle ones where their number is even); `None` if there are none.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_of_sorted(&sorted)
}

fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[middle - 1] + upper) / 2.0)
}

/// The value below which `part` (0 to 1) of the samples lie, by nearest rank; `None` if there are none.
pub fn quantile(samples: &[f64], part: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (part * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1).min(sorted.len().checked_sub(1)?)).copied()
}

/// The median and its 95 % interval by the percentile bootstrap; `None` without samples.
pub fn estimate(samples: &[f64], seed: u64) -> Option<Estimate> {
    let middle = median(samples)?;
    let mut random = Seeded::new(seed);
    let mut medians = Vec::with_capacity(RESAMPLES);
    let mut drawn = vec![0.0; samples.len()];
    for _ in 0..RESAMPLES {
        for slot in &mut drawn {
            *slot = samples[random.below(samples.len())];
        }
        drawn.sort_by(f64::total_cmp);
        medians.extend(median_of_sorted(&drawn));
    }
    Some(Estimate {
        median: middle,
        low: quantile(&medians, 0.025)?,
        high: quantile(&medians, 0.975)?,
        samples: samples.len(),
    })
}

/// `theirs ÷ ours` for every round in which both were measured and ours is not zero.
///
/// A round in which either is missing pairs with nothing: it is left out, never filled in.
pub fn paired_ratios(theirs: &[Option<f64>], ours: &[Option<f64>]) -> Vec<f64> {
    let both = theirs.iter().zip(ours).filter_map(|(theirs, ours)| Some(((*theirs)?, (*ours)?)));
    both.filter(|(_, ours)| *ours > 0.0).map(|(theirs, ours)| theirs / ours).collect()
}

/// What a figure says about its threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The median and the whole interval are on the right side.
    Reached,
    /// The median is on the right side, the interval is not: more rounds, or a quieter machine, could change the answer.
    ReachedWithinNoise,
    Missed,
}

impl Verdict {
    /// The words that stand in the table.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::ReachedWithinNoise => "reached, but the interval is not",
            Verdict::Missed => "MISSED",
        }
    }
}

/// Compares an estimate with a threshold that it must be at least as large as (or, with `at_most`, at most as large as).
pub fn judge(figure: Estimate, threshold: f64, at_most: bool) -> Verdict {
    let right = |value: f64| if at_most { value <= threshold } else { value >= threshold };
    let worst = if at_most { figure.high } else { figure.low };
    match (right(figure.median), right(worst)) {
        (true, true) => Verdict::Reached,
        (true, false) => Verdict::ReachedWithinNoise,
        (false, _) => Verdict::Missed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_whatever_the_order() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }

    #[test]
    fn a_range_is_of_numbers_only() {
        assert_eq!(Range::of(vec![f64::NAN]), None);
        let range = Range { median: 2.5, low: 1.0, high: 9.0 };
        assert_eq!(Range::of(vec![9.0, f64::INFINITY, 2.0, 1.0, 3.0]), Some(range));
    }

    #[test]
    fn quantiles_are_nearest_ranks() {
        let samples: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(quantile(&samples, 0.5), Some(50.0));
        assert_eq!(quantile(&samples, 0.99), Some(99.0));
        assert_eq!(quantile(&samples, 1.0), Some(100.0));
        assert_eq!(quantile(&samples, 0.0), Some(1.0));
        assert_eq!(quantile(&[], 0.5), None);
    }

    #[test]
    fn the_interval_holds_the_median_and_repeats() {
        let samples: Vec<f64> = (0..41).map(|n| 1.0 + f64::from((n * 7) % 41) / 100.0).collect();
        let first = estimate(&samples, 5).expect("there are samples");
        assert_eq!(Some(first), estimate(&samples, 5));
        assert!(first.low < first.median && first.median < first.high, "{first:?}");
        assert_eq!(first.samples, 41);
    }

    #[test]
    fn equal_samples_leave_no_doubt() {
        let sure = estimate(&[2.0; 9], 1).expect("there are samples");
        assert_eq!((sure.low, sure.median, sure.high), (2.0, 2.0, 2.0));
        assert_eq!(estimate(&[], 1), None);
    }

    /// The interval is a promise about coverage: over many made-up experiments with a known median, about 95 % of the intervals hold it.
    #[test]
    fn about_ninety_five_of_a_hundred_intervals_hold_the_truth() {
        let mut random = Seeded::new(11);
        let mut held = 0;
        for experiment in 0..200 {
            // The sum of twelve uniform draws is close to a normal distribution around 6.
            let mut draw = || (0..12).map(|_| random.below(1_000_000) as f64 / 1e6).sum::<f64>();
            let samples: Vec<f64> = (0..41).map(|_| draw()).collect();
            let interval = estimate(&samples, experiment).expect("there are samples");
            held += usize::from(interval.low <= 6.0 && 6.0 <= interval.high);
        }
        assert!((180..=199).contains(&held), "{held} of 200");
    }

    #[test]
    fn ratios_pair_within_the_round_only() {
        let theirs = [Some(10.0), None, Some(30.0), Some(8.0)];
        let ours = [Some(5.0), Some(1.0), None, Some(0.0)];
        assert_eq!(paired_ratios(&theirs, &ours), vec![2.0]);
    }

    #[test]
    fn a_verdict_admits_doubt() {
        let figure = Estimate { median: 1.5, low: 1.4, high: 1.6, samples: 41 };
        assert_eq!(judge(figure, 1.4, false), Verdict::Reached);
        assert_eq!(judge(figure, 1.45, false), Verdict::ReachedWithinNoise);
        assert_eq!(judge(figure, 1.51, false), Verdict::Missed);
        assert_eq!(judge(figure, 1.6, true), Verdict::Reached);
        assert_eq!(judge(figure, 1.55, true), Verdict::ReachedWithinNoise);
        assert_eq!(judge(figure, 1.2, true), Verdict::Missed);
    }

    #[test]
    fn shuffling_keeps_every_item() {
        let mut items: Vec<u32> = (0..50).collect();
        Seeded::new(3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}
