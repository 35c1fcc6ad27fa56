//! What a person sees while it runs: a line a step, what it is and how long is left.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Steps done and to do.
pub(crate) struct Progress {
    began: Instant,
    /// What all steps are expected to take; corrected by what those done did take.
    expected: Duration,
    done: Cell<Duration>,
}

impl Progress {
    pub(crate) fn new(expected: Duration) -> Self {
        Self { began: Instant::now(), expected, done: Cell::default() }
    }

    /// The measuring begins now.
    pub(crate) fn begin(&mut self) {
        self.began = Instant::now();
    }

    pub(crate) fn expected(&self) -> Duration {
        self.expected
    }

    /// Something that has no length.
    pub(crate) fn doing(&self, what: &str) {
        eprintln!("{what}");
    }

    /// A step of an expected length begins.
    pub(crate) fn step(&self, what: &str) {
        eprintln!("{what}  ({} left)", words(self.left()));
    }

    /// It is over.
    pub(crate) fn finished(&self, expected: Duration) {
        self.done.set(self.done.get() + expected);
    }

    fn left(&self) -> Duration {
        let done = self.done.get().as_secs_f64();
        let pace = if done > 20.0 { self.began.elapsed().as_secs_f64() / done } else { 1.0 };
        self.expected.saturating_sub(self.done.get()).mul_f64(pace)
    }
}

/// Seconds, or minutes where seconds would be false precision.
pub(crate) fn words(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.0} min", seconds / 60.0) }
}
