//! How long a test waits for what has to happen.

use std::time::{Duration, Instant};

/// How long something may take that has to happen. A machine that is busy with something else takes seconds; only a defect
/// takes a minute.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for what another process does; the deadline of a minute is a failure, not a result.
///
/// # Panics
/// If it is not so by then.
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "after {PATIENCE:?} still not so: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
