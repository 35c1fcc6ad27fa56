//! Whether the new process may have as many descriptors as the running one has open: what is handed over to a process without free ones is lost.

use std::fs;

use rustix::process::{Resource, getrlimit};

/// Of its own, until the hand-over is done: servers that it opens, the console, files.
const SPARE: u64 = 128;

/// How many this process has open.
pub(crate) fn open() -> u64 {
    // Without /proc it is not known, and not checked.
    fs::read_dir("/proc/self/fd").map_or(0, |open| open.count() as u64)
}

/// Whether there is room for as many as `theirs` besides our own.
///
/// # Errors
/// There is not, in words for the log.
pub(crate) fn check(theirs: u64) -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    check_room(theirs, open(), limit)
}

fn check_room(theirs: u64, ours: u64, limit: u64) -> Result<(), String> {
    let needed = theirs.saturating_add(ours).saturating_add(SPARE);
    if needed <= limit {
        return Ok(());
    }
    Err(format!(
        "it has {theirs} descriptors open, so {needed} may be needed here, and the limit is {limit} (ulimit -n)"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_below_what_the_running_process_has_open_is_refused() {
        assert_eq!(check_room(500, 30, 1024), Ok(()));
        assert_eq!(check_room(1024 - 30 - SPARE, 30, 1024), Ok(()));
        let why = check_room(1000, 30, 1024).expect_err("there are too few");
        assert!(why.contains("1000") && why.contains("1158") && why.contains("1024"), "{why}");
        assert_eq!(check_room(u64::MAX, 30, u64::MAX), Ok(()), "no limit");
    }
}
