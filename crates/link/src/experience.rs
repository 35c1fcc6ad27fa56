//! Which transactions run long, by how they began: what sends a class's long transactions to a class of their own.
//!
//! ```text
//!   first text ──► origin ──► known to run long? ──► its class's `long`, else its class
//!                    ▲                 ▲
//!    only BEGIN: its session           └── how long its server was not free, when it is again
//! ```
//!
//! Promises: what has run for as long as the class says is known from then on; what has become shorter than half of that,
//! on average of its last runs, is forgotten: after eight runs at most where they take less than a ninth of it, ten where they take a
//! quarter, a dozen or so where they take two fifths. At most [`KNOWN_MAX`] are known in each pool on each worker: what has not been met
//! for longest goes first. Whatever runs for less time is not noted at all: most cost one look-up.

use std::collections::BTreeMap;

use connections::Origin;
use machine::snapshot::LongCounts;

/// Nobody grows this: a client that makes up statements by the thousand only has the oldest forgotten.
const KNOWN_MAX: usize = 1024;

/// A mean is no more than so many times what counts as long: else one run of an hour would need a day of short ones.
const MEAN_MAX: u64 = 4;

/// So much of a text is kept, to tell people.
const TEXT_MAX: usize = 200;

/// What is known of one origin.
#[derive(Clone, Debug)]
struct Course {
    /// Smoothed time from link to release, in microseconds.
    mean_us: u64,
    /// Since it is known.
    runs: u64,
    /// The beginning of a text that had this origin.
    text: Box<[u8]>,
    /// What counts as long.
    after_us: u64,
    used: u64,
}

/// What has run long in one pool.
#[derive(Debug, Default)]
pub struct Experience {
    known: BTreeMap<Origin, Course>,
    uses: u64,
}

impl Experience {
    /// Whether transactions that begin so run long, as far as is known.
    pub fn expects_long(&mut self, origin: Origin, text: &[u8]) -> bool {
        // What is not known is expected to be short.
        let Some(course) = self.known.get_mut(&origin) else { return false };
        self.uses += 1;
        course.used = self.uses;
        if course.text.is_empty() {
            course.text = text[..text.len().min(TEXT_MAX)].into();
        }
        true
    }

    /// One has run for so long. `after_us`: from when on that is long; `None`: it was expected to be.
    pub fn learn(&mut self, origin: Origin, lasted_us: u64, after_us: Option<u64>) {
        if let Some(course) = self.known.get_mut(&origin) {
            let after_us = after_us.unwrap_or(course.after_us).max(1);
            let most = after_us.saturating_mul(MEAN_MAX);
            course.mean_us = (course.mean_us.min(most) * 3 + lasted_us.min(most)) / 4;
            (course.after_us, course.runs) = (after_us, course.runs + 1);
            if course.mean_us < after_us / 2 {
                self.known.remove(&origin);
            }
            return;
        }
        // Short ones are not remembered.
        let Some(after_us) = after_us.filter(|after| lasted_us >= *after) else { return };
        if self.known.len() >= KNOWN_MAX {
            let oldest = self.known.iter().min_by_key(|(_, course)| course.used).map(|(origin, _)| *origin);
            oldest.and_then(|origin| self.known.remove(&origin));
        }
        self.uses += 1;
        let mean_us = lasted_us.min(after_us.saturating_mul(MEAN_MAX));
        self.known.insert(origin, Course { mean_us, runs: 1, text: Box::default(), after_us, used: self.uses });
    }

    pub fn counts(&self) -> impl Iterator<Item = LongCounts> {
        self.known.values().map(|course| LongCounts {
            count: course.runs,
            mean_us: course.mean_us,
            text: String::from_utf8_lossy(&course.text).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Option<u64> = Some(1_000_000);

    fn origin(bits: u64) -> Origin {
        Origin::from_bits(bits)
    }

    #[test]
    fn what_has_run_long_once_is_expected_to() {
        let mut experience = Experience::default();
        experience.learn(origin(7), 999_999, AFTER);
        assert!(!experience.expects_long(origin(7), b"select 7"));
        experience.learn(origin(7), 1_000_000, AFTER);
        assert!(experience.expects_long(origin(7), b"select 7"));
        assert!(!experience.expects_long(origin(8), b"select 8"));
        let known = LongCounts { count: 1, mean_us: 1_000_000, text: "select 7".to_owned() };
        assert_eq!(experience.counts().collect::<Vec<_>>(), [known]);
    }

    #[test]
    fn one_long_run_of_a_short_statement_is_forgotten() {
        for outlier in [1_000_000, 3_600_000_000] {
            let mut experience = Experience::default();
            experience.learn(origin(7), outlier, AFTER);
            let short = (1..).find(|_| {
                // In the other class, whose own is no matter.
                experience.learn(origin(7), 10_000, None);
                !experience.expects_long(origin(7), b"")
            });
            assert!((2..=8).contains(&short.expect("numbers do not end")), "{outlier}: {short:?}");
        }
    }

    #[test]
    fn how_soon_a_run_of_an_hour_is_forgotten_depends_on_how_short_the_next_are() {
        for (lasted, runs) in [(1000, 8), (110_000, 8), (250_000, 10), (400_000, 13)] {
            let mut experience = Experience::default();
            experience.learn(origin(7), 3_600_000_000, AFTER);
            let forgotten = (1..).find(|_| {
                experience.learn(origin(7), lasted, None);
                !experience.expects_long(origin(7), b"")
            });
            assert_eq!(forgotten, Some(runs), "{lasted}");
        }
    }

    #[test]
    fn what_is_long_three_times_out_of_four_stays_known() {
        let mut experience = Experience::default();
        for run in 0..1000 {
            let lasted = if run % 4 == 3 { 1000 } else { 2_000_000 };
            experience.learn(origin(7), lasted, if run == 0 { AFTER } else { None });
            assert!(experience.expects_long(origin(7), b""), "run {run}");
        }
    }

    #[test]
    fn the_table_is_bounded_and_keeps_what_is_met() {
        let mut experience = Experience::default();
        for bits in 1..=10 * KNOWN_MAX as u64 {
            experience.learn(origin(bits), 2_000_000, AFTER);
            assert!(experience.expects_long(origin(1), b"the report"));
        }
        assert_eq!(experience.counts().count(), KNOWN_MAX);
    }
}
