//! What the kernel says of processes: who their children are, whether they want to run, how much memory they have.
//!
//! Promises: counts processes, not the machine's load average, which the load generator pollutes; memory is each process's share of what it
//! shares (Pss) and the page tables that map it, so that a sum over thousands of backends counts shared buffers once.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Processes whose memory is read one by one; of more, every n-th is read and the sum scaled up.
const READ_MAX: usize = 400;

/// Of a second, in what the kernel tells programs: the same on every Linux.
const TICKS: f64 = 100.0;

/// The children of a process, whichever of its threads has started them.
pub(crate) fn children(parent: u32) -> Vec<u32> {
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
pub(crate) fn parent_of(process: u32) -> Option<u32> {
    stat(process)?.1.split(' ').next()?.parse().ok()
}

/// Whether a process runs or waits for a core only.
fn is_runnable(process: u32) -> bool {
    stat(process).is_some_and(|(state, _)| state == 'R')
}

/// How many of them run or wait for a core only.
pub(crate) fn runnable(processes: &[u32]) -> usize {
    processes.iter().filter(|process| is_runnable(**process)).count()
}

/// State and what follows it in proc_pid_stat(5). The name before it is in parentheses and may hold anything.
fn stat(process: u32) -> Option<(char, String)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (state, rest) = text.rsplit_once(") ")?.1.split_once(' ')?;
    Some((state.chars().next()?, rest.to_owned()))
}

/// The name of a process, as `comm` says.
pub(crate) fn name(process: u32) -> String {
    fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default().trim_end().to_owned()
}

/// Bytes of one process and what maps them; `None` if it is gone or not ours to look at.
pub(crate) fn memory(process: u32) -> Option<u64> {
    let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    Some((kilobytes(&rollup, "Pss:")? + kilobytes(&status, "VmPTE:").unwrap_or(0)) << 10)
}

/// Bytes of a process and all its children; `None` if the kernel does not say.
pub(crate) fn memory_of_family(parent: u32) -> Option<u64> {
    let children = children(parent);
    let step = children.len().div_ceil(READ_MAX).max(1);
    let read: Vec<u64> = children.iter().step_by(step).filter_map(|child| memory(*child)).collect();
    if read.is_empty() {
        return memory(parent);
    }
    let sum: u64 = read.iter().sum();
    Some(memory(parent)? + sum * children.len() as u64 / read.len() as u64)
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// The machine's memory in bytes: all of it, and what could be had.
pub(crate) fn machine_memory() -> (u64, u64) {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let value = |name| kilobytes(&text, name).unwrap_or(0) << 10;
    (value("MemTotal:"), value("MemAvailable:"))
}

/// What this program and its children may use of it, if a control group says: cgroup v2, then v1.
pub(crate) fn memory_limit() -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/").trim_start_matches('/').to_owned();
    let base = Path::new("/sys/fs/cgroup");
    let places = [base.join(path).join("memory.max"), base.join("memory/memory.limit_in_bytes")];
    let limits = places.iter().filter_map(|place| fs::read_to_string(place).ok()?.trim().parse::<u64>().ok());
    // Version 1 says "no limit" with a number beyond all memory.
    limits.filter(|limit| *limit < 1 << 60).min()
}

/// Processor time that the whole machine has used, in seconds since it started.
pub(crate) fn machine_cpu() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    // user, nice, system, (idle, iowait,) irq, softirq: proc_stat(5).
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    let ticks: u64 = [0, 1, 2, 5, 6].iter().filter_map(|at| fields.get(*at)).sum();
    ticks as f64 / TICKS
}

/// Processor time of a process, of the children it has waited for, and of those it has now.
pub(crate) fn cpu_of_family(parent: u32) -> f64 {
    let own = cpu(parent, 4);
    own + children(parent).into_iter().map(|child| cpu(child, 2)).sum::<f64>()
}

/// utime, stime, cutime, cstime of proc_pid_stat(5), the first so many of them, in seconds.
fn cpu(process: u32, count: usize) -> f64 {
    let Some((_, rest)) = stat(process) else { return 0.0 };
    let ticks = rest.split(' ').skip(10).take(count).filter_map(|field| field.parse::<u64>().ok());
    ticks.sum::<u64>() as f64 / TICKS
}

/// The three load averages, for the record only.
pub(crate) fn load_average() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// How long an unrelated command takes: `ls -l /`, started and waited for.
pub(crate) fn unrelated_command() -> Option<Duration> {
    let began = Instant::now();
    let mut command = Command::new("/bin/ls");
    command.args(["-l", "/"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().map(|_| began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn our_own_time_is_a_part_of_the_machines() {
        let (ours, all) = (cpu_of_family(std::process::id()), machine_cpu());
        let until = Instant::now() + Duration::from_secs(10);
        while cpu_of_family(std::process::id()) < ours + 0.05 {
            assert!(Instant::now() < until, "we compute");
        }
        // Ticks are counted a little later for the machine than for us.
        assert!(machine_cpu() - all > 0.02, "{all} {}", machine_cpu());
    }

    #[test]
    fn the_machine_has_memory() {
        let (all, free) = machine_memory();
        assert!(all > 1 << 28 && free > 0 && free <= all);
        assert!(unrelated_command().is_some());
        assert_eq!(load_average().split(' ').count(), 3);
    }
}
