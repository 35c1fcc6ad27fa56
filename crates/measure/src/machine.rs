//! The machine as a whole: its memory, its processors' time, its load, and what a record says of it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use procfs::{CpuTime, Current, CurrentSI, KernelStats, LoadAverage, Meminfo};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The machine's memory in bytes: all of it, and what could be had.
#[must_use]
pub fn machine_memory() -> (u64, u64) {
    Meminfo::current().map_or((0, 0), |memory| (memory.mem_total, memory.mem_available.unwrap_or(0)))
}

/// Processor time that the whole machine has used, in seconds since it started.
pub fn machine_cpu() -> f64 {
    let Ok(stat) = KernelStats::current() else { return 0.0 };
    let CpuTime { user, nice, system, irq, softirq, .. } = stat.total;
    let ticks = user + nice + system + irq.unwrap_or(0) + softirq.unwrap_or(0);
    ticks as f64 / procfs::ticks_per_second() as f64
}

/// The three load averages, for the record only.
#[must_use]
pub fn load_average() -> String {
    let average = LoadAverage::current();
    average.map_or_else(
        |_| String::new(),
        |LoadAverage { one, five, fifteen, .. }| format!("{one:.2} {five:.2} {fifteen:.2}"),
    )
}

/// Raises the limit on open files as far as it goes, for us and our children; what it is then, `None`: there is none.
pub fn raise_descriptor_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    // What the kernel refuses shows in what it is afterwards.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current
}

/// How long an unrelated command takes: `ls -l /`, started and waited for.
pub fn unrelated_command() -> Option<Duration> {
    let began = Instant::now();
    let mut command = Command::new("/bin/ls");
    command.args(["-l", "/"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().ok().map(|_| began.elapsed())
}

/// What a program says, on one line; `None` if it cannot be run or fails.
#[must_use]
pub fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::cpu_of_family;

    #[test]
    fn our_own_time_is_a_part_of_the_machines() {
        let (ours, all) = (cpu_of_family(std::process::id()), machine_cpu());
        let until = Instant::now() + Duration::from_secs(60);
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
