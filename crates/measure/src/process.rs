//! What processes have used so far, as the kernel counts it, who their children are, and where they may run.
//!
//! Promises: counts processes, not the machine's load average, which the load generator pollutes; memory of a family is each process's share of
//! what it shares (Pss) and the page tables that map it, so that a sum over thousands of backends counts shared buffers once.
//! Does not: see threads that have ended; a contestant that starts a thread for each login would look cheaper than it is (none does).

use std::path::Path;
use std::time::Duration;

use procfs::process::{Process, Stat, Task};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

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

/// Errors: the process is gone.
fn process(pid: u32) -> Result<Process, String> {
    let number = i32::try_from(pid).map_err(|_| format!("no process has the number {pid}"))?;
    Process::new(number).map_err(|error| format!("process {pid}: {error}"))
}

/// Threads of a process, but for those that end between the listing and the reading. Errors: the process is gone.
fn tasks(pid: u32) -> Result<impl Iterator<Item = Task>, String> {
    let tasks = process(pid)?.tasks().map_err(|error| format!("threads of process {pid}: {error}"))?;
    Ok(tasks.flatten())
}

/// Reads what a process has used. Errors: the process is gone.
pub fn usage(pid: u32) -> Result<Usage, String> {
    let mut sum = Usage::default();
    for task in tasks(pid)? {
        let (Ok(schedule), Ok(status)) = (task.schedstat(), task.status()) else { continue };
        sum.cpu_ns += schedule.sum_exec_runtime;
        sum.voluntary += status.voluntary_ctxt_switches.unwrap_or(0);
        sum.involuntary += status.nonvoluntary_ctxt_switches.unwrap_or(0);
        sum.threads += 1;
    }
    Ok(sum)
}

/// Anonymous memory of a process in bytes, its share of what it shares: heap and stacks, not the program's file.
pub fn anonymous_bytes(pid: u32) -> Result<u64, String> {
    let process = process(pid)?;
    rolled_up(&process, &["Pss_Anon", "Anonymous"])
        .ok_or(format!("the kernel does not say what memory process {pid} has"))
}

/// The first of these figures that the kernel has of a process's memory, in bytes.
fn rolled_up(process: &Process, names: &[&str]) -> Option<u64> {
    let rollup = process.smaps_rollup().ok()?;
    let figures = &rollup.memory_map_rollup.iter().next()?.extension.map;
    names.iter().find_map(|name| figures.get(*name).copied())
}

/// Whether every thread of the process is being traced: strace has arrived.
pub fn is_traced(pid: u32) -> Result<bool, String> {
    Ok(tasks(pid)?.all(|task| task.status().is_ok_and(|status| status.tracerpid != 0)))
}

/// The children of a process, whichever of its threads has started them.
#[must_use]
pub fn children(parent: u32) -> Vec<u32> {
    let Ok(tasks) = tasks(parent) else { return Vec::new() };
    let mut all = Vec::new();
    for task in tasks {
        match task.children() {
            Ok(listed) => all.extend(listed),
            Err(_) => return children_by_search(parent),
        }
    }
    all
}

/// Where the kernel was built without the list.
fn children_by_search(parent: u32) -> Vec<u32> {
    let stats = procfs::process::all_processes().into_iter().flatten().flatten().flat_map(|process| process.stat());
    stats.filter(|stat| number(stat.ppid) == Some(parent)).filter_map(|stat| number(stat.pid)).collect()
}

fn number(pid: i32) -> Option<u32> {
    u32::try_from(pid).ok()
}

/// State, parent, name and times of a process, if it is alive.
fn stat(pid: u32) -> Option<Stat> {
    process(pid).ok()?.stat().ok()
}

/// The parent of a process, if it is alive.
#[must_use]
pub fn parent_of(pid: u32) -> Option<u32> {
    number(stat(pid)?.ppid)
}

/// The processes whose working directory is this folder or one below it: a server that was started there, and what it has started.
#[must_use]
pub fn within(folder: &Path) -> Vec<u32> {
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    let inside = all.filter(|process| process.cwd().is_ok_and(|cwd| cwd.starts_with(folder)));
    inside.filter_map(|process| number(process.pid)).collect()
}

/// Whether a signal has stopped it, or it has ended.
#[must_use]
pub fn is_still(pid: u32) -> bool {
    stat(pid).is_none_or(|stat| matches!(stat.state, 'T' | 'Z' | 'X'))
}

/// How many of them run or wait for a core only.
#[must_use]
pub fn runnable(pids: &[u32]) -> usize {
    pids.iter().filter(|pid| stat(**pid).is_some_and(|stat| stat.state == 'R')).count()
}

/// The name of a process; empty if it is gone.
#[must_use]
pub fn name(pid: u32) -> String {
    stat(pid).map(|stat| stat.comm).unwrap_or_default()
}

/// Bytes of one process and what maps them; `None` if it is gone or not ours to look at.
#[must_use]
pub fn memory(pid: u32) -> Option<u64> {
    let process = process(pid).ok()?;
    let tables = process.status().ok()?.vmpte.unwrap_or(0) << 10;
    Some(rolled_up(&process, &["Pss"])? + tables)
}

/// Bytes of a process and all its children; `None` if the kernel does not say.
#[must_use]
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

/// Resident memory of a process in kB, and the most it ever was; `None` if it is gone.
#[must_use]
pub fn resident_kb(pid: u32) -> Option<(u64, u64)> {
    let status = process(pid).ok()?.status().ok()?;
    Some((status.vmrss?, status.vmhwm?))
}

/// Open descriptors; `None` if it is gone or not ours to look at.
#[must_use]
pub fn descriptors(pid: u32) -> Option<usize> {
    process(pid).ok()?.fd_count().ok()
}

/// Processor time of a process, user and system together; `None` if it is gone.
#[must_use]
pub fn cpu(pid: u32) -> Option<Duration> {
    stat(pid).map(|stat| time(stat.utime + stat.stime))
}

/// Processor time of a process, of the children it has waited for, and of those it has now, in seconds.
#[must_use]
pub fn cpu_of_family(parent: u32) -> f64 {
    let own = |stat: Stat| stat.utime + stat.stime;
    let waited_for = |stat: &Stat| u64::try_from(stat.cutime + stat.cstime).unwrap_or(0);
    let parents = stat(parent).map_or(0, |stat| waited_for(&stat) + own(stat));
    let childrens: u64 = children(parent).into_iter().filter_map(stat).map(own).sum();
    time(parents + childrens).as_secs_f64()
}

fn time(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
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
        let task = Pid::from_raw(task.tid).ok_or("threads have numbers above zero")?;
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
    use std::process::Command;
    use std::time::Instant;

    #[test]
    fn our_own_usage_only_grows() {
        let before = usage(std::process::id()).expect("we are alive");
        while usage(std::process::id()).expect("we are alive").since(before).cpu_ns < 1_000_000 {
            std::hint::black_box((0..10_000u64).sum::<u64>());
        }
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
        assert!(resident_kb(own).is_some_and(|(now, most)| 0 < now && now <= most));
        assert!(descriptors(own).is_some_and(|count| count >= 3));
        assert_eq!((resident_kb(child.id()), descriptors(child.id()), cpu(child.id())), (None, None, None));
    }

    #[test]
    fn processes_are_found_by_their_folder() {
        let folder = std::env::temp_dir().join(format!("pgweir-within-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("the number is ours");
        let folder = std::fs::canonicalize(folder).expect("it is there");
        let mut child =
            Command::new("/bin/sleep").arg("60").current_dir(&folder).spawn().expect("every machine has sleep");
        let found = (within(&folder), within(&folder.join("below")), is_still(child.id()));
        child.kill().expect("it is ours");
        child.wait().expect("it is ours");
        std::fs::remove_dir(&folder).expect("it is empty");
        assert_eq!(found, (vec![child.id()], Vec::new(), false));
        assert!(is_still(child.id()), "it has ended");
    }

    #[test]
    fn who_computes_is_runnable_and_who_sleeps_is_not() {
        let mut sleeper = Command::new("/bin/sleep").arg("60").spawn().expect("every machine has sleep");
        let mut busy = Command::new("/bin/sh").args(["-c", "while :; do :; done"]).spawn().expect("a shell");
        // Both begin as a runnable process that loads its program: each is awaited by itself.
        let limit = Instant::now() + Duration::from_secs(60);
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
