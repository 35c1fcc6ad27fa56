//! The few figures of the kernel that the doctor looks at: the machine's memory, the name and the own memory of a process.
//!
//! Promises 0, `None` or an empty name where the kernel has no figure. The benchmark reads many more, with `measure`.

use std::fs;

/// The name of a process; empty if it is gone.
pub(super) fn process_name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Bytes of a process that it shares with no other, and that are free once it ends; `None` if it is gone or not ours to look at.
pub(super) fn private_memory(pid: u32) -> Option<u64> {
    let figures = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let private = ["Private_Clean", "Private_Dirty", "Private_Hugetlb"];
    Some(private.iter().filter_map(|name| bytes(&figures, name)).sum())
}

/// Bytes of memory that programs like this one may use: the machine's, or what a control group leaves.
pub(super) fn memory() -> u64 {
    let all = fs::read_to_string("/proc/meminfo").ok().and_then(|figures| bytes(&figures, "MemTotal")).unwrap_or(0);
    programs::memory::limit().map_or(all, |limit| limit.min(all))
}

/// A figure by its name, as in `MemTotal:  2046560 kB`.
fn bytes(figures: &str, name: &str) -> Option<u64> {
    let value = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    value.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_read_by_its_whole_name() {
        let figures = "Rss:  9 kB\nPrivate_Clean:         4 kB\nPrivate_Dirty:        1024 kB\nTHPeligible:    0\n";
        assert_eq!(bytes(figures, "Private_Clean"), Some(4096));
        assert_eq!(bytes(figures, "Private_Dirty"), Some(1 << 20));
        for none in ["Private", "Private_Hugetlb", "THPeligible"] {
            assert_eq!(bytes(figures, none), None, "{none}");
        }
    }

    #[test]
    fn we_are_seen_with_our_memory() {
        let own = std::process::id();
        assert!(!process_name(own).is_empty() && process_name(u32::MAX).is_empty());
        let block = vec![1u8; 16 << 20];
        assert!(private_memory(own).is_some_and(|bytes| bytes > 8 << 20), "{}", block.len());
        assert_eq!(private_memory(u32::MAX), None);
        assert!(memory() > 1 << 28);
    }
}
