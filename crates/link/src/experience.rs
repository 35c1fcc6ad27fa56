//! Learns which transactions run long, by how they begin, so that a class's long transactions can have a class of their
//! own.
//!
//! ```text
//!   first text ──► origin ──► known to run long? ──► its class's `long`, else its class
//!                    ▲                 ▲
//! only BEGIN: its session └── how long its server was in use, when it is free again
//! ```
//!
//! An origin that has once run for as long as the class says is known as long from then on. It is forgotten when the
//! average of its last runs falls below half of that time. This takes at most eight runs if they last less than a ninth
//! of it, ten if they last a quarter, about a dozen if they last two fifths. At most [`KNOWN_MAX`] origins are known in
//! each pool on each worker; the least recently used one is dropped first. Origins that never ran long are not stored:
//! they cost one look-up.

use std::collections::BTreeMap;

use machine::snapshot::LongCounts;

use crate::charge::Origin;

/// No client can exceed this: one that makes up thousands of statements only causes the oldest ones to be dropped.
const KNOWN_MAX: usize = 1024;

/// A mean is at most so many times what counts as long. Otherwise one run of an hour would need a day of short ones to
/// be forgotten.
const MEAN_MAX: u64 = 4;

/// So much of a text is kept for SHOW LANES.
const TEXT_MAX: usize = 200;

/// What is known about one origin.
#[derive(Clone, Debug)]
struct Course {
    /// Smoothed time from link to release, in microseconds.
    mean_us: u64,
    /// Runs since it is known.
    runs: u64,
    /// The beginning of a text that had this origin.
    text: Box<[u8]>,
    /// What counts as long.
    after_us: u64,
    used: u64,
}

/// The origins that have run long in one pool.
#[derive(Debug, Default)]
pub struct Experience {
    known: BTreeMap<Origin, Course>,
    uses: u64,
}

impl Experience {
    /// Whether transactions with this origin are known to run long.
    pub fn expects_long(&mut self, origin: Origin, text: &[u8]) -> bool {
        // An unknown origin is expected to be short.
        let Some(course) = self.known.get_mut(&origin) else { return false };
        self.uses += 1;
        course.used = self.uses;
        if course.text.is_empty() {
            course.text = text[..text.len().min(TEXT_MAX)].into();
        }
        true
    }

    /// A transaction has lasted so long. `after_us`: what counts as long; `None`: it ran in the class for long ones.
    pub(crate) fn learn(&mut self, origin: Origin, lasted_us: u64, after_us: Option<u64>) {
        if let Some(course) = self.known.get_mut(&origin) {
            let after_us = after_us.unwrap_or(course.after_us).max(1);
            let most = after_us.saturating_mul(MEAN_MAX);
            course.mean_us = (course.mean_us.min(most) * 3 + lasted_us.min(most)) / 4;
            debug_assert!(
                course.mean_us <= most,
                "one run of an hour must not need a day of short ones to be forgotten"
            );
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
        debug_assert!(self.known.len() <= KNOWN_MAX, "the least recently used origin makes room");
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
                // It runs in the class for long ones, which has no limit of its own.
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
