//! One profile: processes that a caller names, sampled for a while by one of two tools, as folded stacks.
//!
//! perf counts time on a CPU; gdb counts time, waiting or not. With gdb the caller names the processes anew before each sample, such as the
//! backends that wait for an event now.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::available::permitted;
use crate::folded::{Folded, Kind};
use crate::gdb::{Gdb, Outcome};
use crate::limits::{GDB_SAMPLES_MAX, PROCESSES_MAX};
use crate::naming::Program;
use crate::stack::RawStack;
use crate::tool::Tool;
use crate::{perf, processes};

/// Whose processes these are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Pooler,
    PostgreSql,
}

/// What is sampled.
pub struct What<'a> {
    pub subject: Subject,
    /// The processes to look at now: asked once for perf, before each sample for gdb. None at a moment is no error with gdb.
    pub processes: &'a mut dyn FnMut() -> Result<Vec<u32>, String>,
}

/// How it is sampled.
#[derive(Clone, Copy, Debug)]
pub struct How {
    pub tool: Tool,
    pub duration: Duration,
    /// Samples a second: of each process for perf, of all together for gdb.
    pub rate: u32,
    /// How long gdb may stop a process for one sample.
    pub pause_max: Duration,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    pub folded: Folded,
    /// Of how many processes there are samples.
    pub processes: usize,
    /// How long gdb stopped a process, sample by sample.
    pub pauses: Vec<Duration>,
    /// What a reader must know: what was left out, what ended early.
    pub notes: Vec<String>,
}

/// Samples processes. Blocks for the duration, and for perf's reading of names after it.
///
/// # Errors
/// In words: nothing to look at, no permission, what the tool says against it. Never for single processes that end meanwhile.
pub fn sample(what: &mut What<'_>, how: &How) -> Result<Sampled, String> {
    let mut run = Run { subject: what.subject, labels: BTreeMap::new(), sampled: Sampled::default() };
    match how.tool {
        Tool::Perf => run.by_perf(what, how)?,
        Tool::Gdb => run.by_gdb(what, how)?,
    }
    run.sampled.processes = run.labels.values().filter(|known| known.was_seen).count();
    Ok(run.sampled)
}

/// A process, as its stacks are labelled.
struct Known {
    program: Program,
    /// What its stacks begin with.
    above: Vec<String>,
    was_seen: bool,
}

/// What follows a sample.
enum Step {
    Next,
    /// There is none, and why.
    Refused(String),
    End,
}

struct Run {
    subject: Subject,
    labels: BTreeMap<u32, Known>,
    sampled: Sampled,
}

impl Run {
    fn by_perf(&mut self, what: &mut What<'_>, how: &How) -> Result<(), String> {
        let mut pids = (what.processes)()?;
        let count = pids.len();
        pids.retain(|pid| processes::parent(*pid).is_some());
        let first = *pids.first().ok_or("there is no such process")?;
        if count > PROCESSES_MAX {
            pids.truncate(PROCESSES_MAX);
            self.sampled.notes.push(format!("{PROCESSES_MAX} of {count} processes were looked at"));
        }
        let listed = std::mem::take(&mut pids);
        for pid in listed {
            match permitted(Tool::Perf, pid) {
                Ok(()) => {
                    pids.push(pid);
                    self.know(pid);
                }
                // It may have ended since it was listed.
                Err(why) if processes::parent(pid).is_some() => return Err(why),
                Err(_) => {}
            }
        }
        if pids.is_empty() {
            return Err("the processes are gone".to_owned());
        }
        loop {
            let recorded = perf::record(&pids, how.duration, how.rate, &mut |stack| {
                let pid = stack.pid.unwrap_or(first);
                self.add(pid, &stack);
            });
            let before = pids.len();
            if recorded.is_err() {
                // perf gives up, without a sample, if one of them has ended since they were listed: backends come and go.
                pids.retain(|pid| processes::parent(*pid).is_some());
            }
            if pids.is_empty() || pids.len() == before {
                return recorded;
            }
        }
    }

    fn by_gdb(&mut self, what: &mut What<'_>, how: &How) -> Result<(), String> {
        let begun = Instant::now();
        let mut gdb: Option<Gdb> = None;
        let (every, mut turn) = (Duration::from_secs(1) / how.rate.max(1), 0_usize);
        for number in 0..GDB_SAMPLES_MAX {
            let due = begun + every * number;
            if due >= begun + how.duration {
                return Ok(());
            }
            thread::sleep(due.saturating_duration_since(Instant::now()));
            // The one whose turn it is: processes come and go, so that a turn is a number, not a process.
            let pids = (what.processes)()?;
            let Some(pid) = pids.get(turn % pids.len().max(1)).copied() else { continue };
            turn += 1;
            if pid == std::process::id() {
                return Err("a process cannot be stopped by itself: run gdb from another one".to_owned());
            }
            let step = match permitted(Tool::Gdb, pid) {
                Ok(()) => self.stop_once(&mut gdb, pid, how)?,
                Err(why) => Step::Refused(why),
            };
            match step {
                Step::End => return Ok(()),
                // A process may end at any time; one that is there must be seen.
                Step::Refused(why) if processes::parent(pid).is_some() => return Err(why),
                Step::Refused(_) | Step::Next => {}
            }
        }
        self.sampled.notes.push(format!("ended after {GDB_SAMPLES_MAX} samples"));
        Ok(())
    }

    /// One sample.
    fn stop_once(&mut self, gdb: &mut Option<Gdb>, pid: u32, how: &How) -> Result<Step, String> {
        let running = match gdb {
            Some(running) => running,
            None => gdb.insert(Gdb::start(pid)?),
        };
        self.know(pid);
        let stopped = Instant::now();
        let outcome = running.sample(pid, how.pause_max)?;
        self.sampled.pauses.push(stopped.elapsed());
        match outcome {
            Outcome::Stacks(stacks) => stacks.iter().for_each(|stack| self.add(pid, stack)),
            Outcome::Refused(why) => {
                self.sampled.pauses.pop();
                return Ok(Step::Refused(why));
            }
            Outcome::TooLong => {
                let words = format!(
                    "a sample took longer than {:.1} s, and was given up: the process went on",
                    how.pause_max.as_secs_f64()
                );
                self.sampled.notes.push(words);
                return Ok(Step::End);
            }
        }
        Ok(Step::Next)
    }

    /// Looks at a process while it is there.
    fn know(&mut self, pid: u32) {
        let subject = self.subject;
        self.labels.entry(pid).or_insert_with(|| {
            let (kind, above) = match subject {
                Subject::Pooler => (Kind::Pooler, vec!["pgweir".to_owned()]),
                Subject::PostgreSql => (Kind::PostgreSql, vec!["postgres".to_owned(), processes::role(pid).to_owned()]),
            };
            let path = processes::program(pid).unwrap_or_default();
            Known { program: Program { path, kind }, above, was_seen: false }
        });
    }

    fn add(&mut self, pid: u32, stack: &RawStack) {
        self.know(pid);
        let known = self.labels.get_mut(&pid).expect("it has just been looked at");
        known.was_seen = true;
        let mut above = known.above.clone();
        if self.subject == Subject::Pooler {
            let thread = if stack.thread.is_empty() { "a thread" } else { &stack.thread };
            above.push(thread.to_owned());
        }
        self.sampled.folded.add(known.program.frames(&above, stack));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(pids: Result<Vec<u32>, String>, tool: Tool) -> Result<Sampled, String> {
        let mut processes = || pids.clone();
        let mut what = What { subject: Subject::Pooler, processes: &mut processes };
        let how = How { tool, duration: Duration::from_millis(100), rate: 10, pause_max: Duration::from_secs(2) };
        sample(&mut what, &how)
    }

    #[test]
    fn nothing_to_look_at_is_said() {
        assert_eq!(run(Ok(vec![]), Tool::Perf).err().as_deref(), Some("there is no such process"));
        assert_eq!(run(Ok(vec![u32::MAX]), Tool::Perf).err().as_deref(), Some("there is no such process"));
        assert_eq!(run(Err("no".to_owned()), Tool::Gdb).err().as_deref(), Some("no"));
        assert_eq!(run(Ok(vec![]), Tool::Gdb).expect("nobody waits").folded.count(), 0);
    }

    #[test]
    fn a_process_does_not_stop_itself() {
        let why = run(Ok(vec![std::process::id()]), Tool::Gdb).expect_err("it would wait for ever");
        assert!(why.starts_with("a process cannot be stopped by itself"), "{why}");
    }
}
