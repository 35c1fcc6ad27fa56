//! How much memory a control group leaves to the programs in it.

use std::fs;
use std::path::Path;

/// The limit in bytes of this program's control group, version 2 or 1; `None` where there is no limit.
///
/// Source: Linux, admin-guide/cgroup-v2 (`memory.max`) and cgroup-v1/memory (`memory.limit_in_bytes`).
#[must_use]
pub fn limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").trim_start_matches('/');
    let base = Path::new("/sys/fs/cgroup");
    let files = [base.join(path).join("memory.max"), base.join("memory/memory.limit_in_bytes")];
    let limits = files.iter().filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
    // Version 1 shows "no limit" as a number beyond all memory.
    limits.filter(|limit| *limit < 1 << 60).min()
}
