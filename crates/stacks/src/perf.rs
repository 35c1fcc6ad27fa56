//! Samples by `perf record | perf script`: what processes do while they run on a CPU.
//!
//! Promises: no file is written, stacks pass from one to the other by a pipe; they are read from copies of the processes' stacks, since neither
//! PostgreSQL nor pgweir keeps frame pointers. Processes are not stopped.

use std::time::{Duration, Instant};

use crate::children::{Complaints, Line, Lines, Running, command};
use crate::limits::{PERF_ENDS_WITHIN, STACK_BYTES};
use crate::perf_script::Samples;
use crate::stack::RawStack;

/// Samples processes for a while, `rate` times a second of CPU time each.
///
/// # Errors
/// What perf says against it.
pub(crate) fn record(
    pids: &[u32],
    duration: Duration,
    rate: u32,
    take: &mut dyn FnMut(RawStack),
) -> Result<(), String> {
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let (graph, rate, seconds) = (format!("dwarf,{STACK_BYTES}"), rate.to_string(), duration.as_secs_f64().to_string());
    let mut record = command("perf");
    record.args(["record", "-q", "--call-graph", &graph, "-F", &rate, "-o", "-", "-p", &list, "--", "sleep", &seconds]);
    let mut record = Running::start(&mut record)?;
    let mut script = command("perf");
    // Without inlined calls: looking them up takes minutes for a large program.
    script.args(["script", "--no-inline", "-i", "-", "-F", "comm,pid,tid,ip,sym,dso"]);
    script.stdin(record.0.stdout.take().expect("it was piped"));
    let mut script = Running::start(&mut script)?;
    let complaints = Complaints::of(record.0.stderr.take().expect("it was piped"));
    let of_script = Complaints::of(script.0.stderr.take().expect("it was piped"));
    let lines = Lines::of(script.0.stdout.take().expect("it was piped"));

    let deadline = Instant::now() + duration + PERF_ENDS_WITHIN;
    let mut reading = Samples::default();
    let mut count = 0_u64;
    let mut counted = |stack: Option<RawStack>| {
        if let Some(stack) = stack {
            count += 1;
            take(stack);
        }
    };
    loop {
        match lines.next(deadline) {
            Line::Text(line) => counted(reading.line(&line)),
            Line::End => break,
            Line::Late => return Err("perf did not come to an end in time".to_owned()),
        }
    }
    counted(reading.end());
    let was_well = record.ends_by(deadline) & script.ends_by(deadline);
    // They read until the programs have ended.
    drop((record, script));
    let (complaints, of_script) = (complaints.text(), of_script.text());
    if was_well || count > 0 {
        Ok(())
    } else {
        Err(said(&complaints).or_else(|| said(&of_script)).unwrap_or_else(|| "perf failed without a word".to_owned()))
    }
}

/// perf's first words, without its headings and its advice over pages.
fn said(complaints: &str) -> Option<String> {
    let lines = complaints.lines().map(str::trim).filter(|line| !line.is_empty() && *line != "Error:");
    let first: Vec<String> = lines.take(2).map(|line| line.replace(char::is_control, "?")).collect();
    (!first.is_empty()).then(|| format!("perf says: {}", first.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_words_of_a_complaint_are_told() {
        let text = "Error:\nAccess to performance monitoring and observability operations is limited.\nConsider adjusting x.\nMore\n";
        let told = "perf says: Access to performance monitoring and observability operations is limited. Consider adjusting x.";
        assert_eq!(said(text).as_deref(), Some(told));
        assert_eq!(
            said("WARNING: perf not found for kernel 5.15\u{1b}[0m\n").as_deref(),
            Some("perf says: WARNING: perf not found for kernel 5.15?[0m")
        );
        assert_eq!(said("\nError:\n"), None);
    }
}
