//! What a running contestant has used so far, as the kernel counts it, and where it may run.
//!
//! Promises: sums over all threads that are alive. Does not: see threads that have ended; a contestant
//! that starts a thread for each login would look cheaper than it is (none does).

use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// CPU time and context switches of all threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Time on a core, in user space and in the kernel, in ns.
    pub cpu_ns: u64,
    /// Times it went to sleep.
    pub voluntary: u64,
    /// Times it was interrupted in favour of somebody else.
    pub involuntary: u64,
    pub threads: u64,
}

impl Usage {
    /// What was used since an earlier reading.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            voluntary: self.voluntary.saturating_sub(earlier.voluntary),
            involuntary: self.involuntary.saturating_sub(earlier.involuntary),
            threads: self.threads,
        }
    }
}

/// Threads of a process. Errors: the process is gone.
fn tasks(pid: u32) -> Result<Vec<u32>, String> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder).map_err(|error| format!("cannot read {folder}: {error}"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Reads what a process has used. Errors: the process is gone.
pub fn usage(pid: u32) -> Result<Usage, String> {
    let mut sum = Usage::default();
    for task in tasks(pid)? {
        let folder = format!("/proc/{pid}/task/{task}");
        // A thread may end between the listing and the reading.
        let Ok(schedule) = fs::read_to_string(format!("{folder}/schedstat")) else { continue };
        let Ok(status) = fs::read_to_string(format!("{folder}/status")) else { continue };
        sum.cpu_ns += schedule.split_whitespace().next().and_then(|first| first.parse().ok()).unwrap_or(0);
        sum.voluntary += field(&status, "voluntary_ctxt_switches:").unwrap_or(0);
        sum.involuntary += field(&status, "nonvoluntary_ctxt_switches:").unwrap_or(0);
        sum.threads += 1;
    }
    Ok(sum)
}

/// Anonymous memory of a process in bytes, its share of what it shares: heap and stacks, not the program's file.
pub fn anonymous_bytes(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let rollup = fs::read_to_string(&path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let kilobytes = field(&rollup, "Pss_Anon:").or_else(|| field(&rollup, "Anonymous:"));
    kilobytes.map(|number| number << 10).ok_or(format!("{path} says nothing of anonymous memory"))
}

/// Whether every thread of the process is being traced: strace has arrived.
pub fn is_traced(pid: u32) -> Result<bool, String> {
    let traced = |task: &u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/task/{task}/status")).unwrap_or_default();
        field(&status, "TracerPid:").is_some_and(|tracer| tracer != 0)
    };
    Ok(tasks(pid)?.iter().all(traced))
}

/// The number after a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Cores that this process may use.
pub fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|core| allowed.is_set(*core)).collect()
}

/// Keeps the calling thread, and the processes and threads that it starts from now on, on these cores.
pub fn pin_self(cores: &[usize]) -> Result<(), String> {
    sched_setaffinity(None, &set(cores)).map_err(|error| format!("cannot pin to cores {cores:?}: {error}"))
}

/// Keeps every thread of a process on these cores, whatever the process asked for itself.
pub fn pin(pid: u32, cores: &[usize]) -> Result<(), String> {
    for task in tasks(pid)? {
        let task = i32::try_from(task).ok().and_then(Pid::from_raw).ok_or("thread numbers fit")?;
        // A thread that has ended meanwhile needs no core.
        let _ = sched_setaffinity(Some(task), &set(cores));
    }
    Ok(())
}

fn set(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_usage_only_grows() {
        let before = usage(std::process::id()).expect("we are alive");
        let mut sum = 0u64;
        while usage(std::process::id()).expect("we are alive").since(before).cpu_ns < 1_000_000 {
            sum = sum.wrapping_add((0..10_000u64).sum());
        }
        assert!(sum > 0);
        assert!(before.threads >= 1);
    }

    #[test]
    fn memory_that_is_used_is_seen() {
        let before = anonymous_bytes(std::process::id()).expect("we are alive");
        let block = vec![1u8; 16 << 20];
        let after = anonymous_bytes(std::process::id()).expect("we are alive");
        assert!(after >= before + (8 << 20), "{before} {after} {}", block.len());
    }

    #[test]
    fn a_process_that_is_gone_is_an_error() {
        assert!(usage(u32::MAX).is_err());
        assert!(anonymous_bytes(u32::MAX).is_err());
    }

    #[test]
    fn numbers_are_found_by_the_start_of_their_line() {
        let text = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3 x\n";
        assert_eq!(field(text, "voluntary_ctxt_switches:"), Some(12));
        assert_eq!(field(text, "nonvoluntary_ctxt_switches:"), Some(3));
        assert_eq!(field(text, "TracerPid:"), None);
    }
}
