//! What processes have used so far, as the kernel counts it, who their children are, and where they may run.
//!
//! Promises: counts processes, not the machine's load average, which the load generator pollutes; memory of a family is each process's share of
//! what it shares (Pss) and the page tables that map it, so that a sum over thousands of backends counts shared buffers once.
//! Does not: see threads that have ended; a contestant that starts a thread for each login would look cheaper than it is (none does).

use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::machine::TICKS;

/// Processes whose memory is read one by one; of more, every n-th is read and the sum scaled up.
const READ_MAX: usize = 400;

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

/// The children of a process, whichever of its threads has started them.
pub fn children(parent: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{parent}/task")).into_iter().flatten().flatten();
    let mut all = Vec::new();
    for task in tasks {
        match fs::read_to_string(task.path().join("children")) {
            Ok(listed) => all.extend(listed.split_whitespace().filter_map(|word| word.parse::<u32>().ok())),
            Err(_) => return children_by_search(parent),
        }
    }
    all
}

/// Where the kernel was built without the list.
fn children_by_search(parent: u32) -> Vec<u32> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
    numbers.filter(|number| parent_of(*number) == Some(parent)).collect()
}

/// The parent of a process, if it is alive.
pub fn parent_of(process: u32) -> Option<u32> {
    stat(process)?.1.split(' ').next()?.parse().ok()
}

/// Whether a process runs or waits for a core only.
fn is_runnable(process: u32) -> bool {
    stat(process).is_some_and(|(state, _)| state == 'R')
}

/// How many of them run or wait for a core only.
pub fn runnable(processes: &[u32]) -> usize {
    processes.iter().filter(|process| is_runnable(**process)).count()
}

/// State and what follows it in proc_pid_stat(5). The name before it is in parentheses and may hold anything.
fn stat(process: u32) -> Option<(char, String)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (state, rest) = text.rsplit_once(") ")?.1.split_once(' ')?;
    Some((state.chars().next()?, rest.to_owned()))
}

/// The name of a process, as `comm` says.
pub fn name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Bytes of one process and what maps them; `None` if it is gone or not ours to look at.
pub fn memory(process: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some((field(&rollup, "Pss:")? + field(&status, "VmPTE:").unwrap_or(0)) << 10)
}

/// Bytes of a process and all its children; `None` if the kernel does not say.
pub fn memory_of_family(parent: u32) -> Option<u64> {
    let children = children(parent);
    let step = children.len().div_ceil(READ_MAX).max(1);
    let read: Vec<u64> = children.iter().step_by(step).filter_map(|child| memory(*child)).collect();
    if read.is_empty() {
        return memory(parent);
    }
    let sum: u64 = read.iter().sum();
    Some(memory(parent)? + sum * children.len() as u64 / read.len() as u64)
}

/// Processor time of a process, of the children it has waited for, and of those it has now.
pub fn cpu_of_family(parent: u32) -> f64 {
    let own = cpu(parent, 4);
    own + children(parent).into_iter().map(|child| cpu(child, 2)).sum::<f64>()
}

/// utime, stime, cutime, cstime of proc_pid_stat(5), the first so many of them, in seconds.
fn cpu(process: u32, count: usize) -> f64 {
    let Some((_, rest)) = stat(process) else { return 0.0 };
    let ticks = rest.split(' ').skip(10).take(count).filter_map(|field| field.parse::<u64>().ok());
    ticks.sum::<u64>() as f64 / TICKS
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

/// The number after a name at the start of a line.
pub(crate) fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::time::{Duration, Instant};

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

    #[test]
    fn we_see_ourselves_and_our_children() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().expect("every machine has sleep");
        let own = std::process::id();
        assert!(children(own).contains(&child.id()));
        assert!(children_by_search(own).contains(&child.id()));
        assert_eq!(parent_of(child.id()), Some(own));
        assert!(memory(own).is_some_and(|bytes| bytes > 100_000));
        assert!(memory_of_family(own) > memory(own).map(|bytes| bytes / 2));
        child.kill().and_then(|()| child.wait()).expect("it is ours");
        assert_eq!(memory(child.id()), None);
    }

    #[test]
    fn who_computes_is_runnable_and_who_sleeps_is_not() {
        let mut sleeper = Command::new("/bin/sleep").arg("60").spawn().expect("every machine has sleep");
        let mut busy = Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        // Both begin as a runnable process that loads its program: each is awaited by itself.
        let limit = Instant::now() + Duration::from_secs(10);
        let seen = loop {
            let seen = (runnable(&[sleeper.id()]), runnable(&[busy.id()]));
            if seen == (0, 1) || Instant::now() > limit {
                break seen;
            }
            std::thread::yield_now();
        };
        for child in [&mut sleeper, &mut busy] {
            child.kill().and_then(|()| child.wait()).expect("it is ours");
        }
        assert_eq!(seen, (0, 1));
    }
}
