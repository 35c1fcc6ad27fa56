//! Samples by gdb: where each thread of a process is, whether it runs or waits.
//!
//! ```text
//!   gdb PROGRAM ──► attach ─ bt of all threads ─ detach ──► attach …      one gdb for all samples; it reads the program's symbols before the first
//!                   └──── the process is stopped ────┘
//! ```
//!
//! Promises: a process is stopped for no longer than `pause_max`; then gdb is killed, and the process goes on. It never runs under gdb: no breakpoint is
//! set, and signals reach it as ever. Arguments of functions are not read, which may hold what clients have sent.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ChildStdin;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::children::{Line, Lines, Running, command};
use crate::gdb_text::Threads;
use crate::limits::{FRAMES_MAX, GDB_STARTS_WITHIN};
use crate::processes::{Maps, is_stopped};
use crate::stack::RawStack;

/// What gdb prints after each sample.
const MARK: &str = "--sampled--";
/// Not all symbols of all libraries, while a process is stopped: those that stacks of PostgreSQL and pgweir pass through. A regular expression of gdb's
/// old kind.
const LIBRARIES: &str =
    r"/\(libc\|libm\|libpthread\|ld-[^/]*\|libssl\|libcrypto\|libicu[^/]*\|libpq\)[.-]\|/postgresql/";
const SETTINGS: [&str; 13] = [
    "set prompt",
    "set confirm off",
    "set pagination off",
    "set width 0",
    "set style enabled off",
    "set auto-load off",
    "set auto-solib-add off",
    "set debuginfod enabled off",
    "set print symbol-loading off",
    "set print frame-arguments none",
    "set print entry-values no",
    "set print inferior-events off",
    "set print thread-events off",
];
/// How long it may take to leave.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// A running gdb, attached to nothing.
pub(crate) struct Gdb {
    input: Option<ChildStdin>,
    lines: Lines,
    running: Running,
    maps: BTreeMap<u32, Maps>,
}

/// What came of a sample.
pub(crate) enum Outcome {
    Stacks(Vec<RawStack>),
    /// In gdb's words.
    Refused(String),
    /// It took longer than it may.
    TooLong,
}

impl Gdb {
    /// Starts gdb with the program of a process.
    ///
    /// # Errors
    /// If there is no gdb, or it does not get ready.
    pub(crate) fn start(pid: u32) -> Result<Gdb, String> {
        let (reader, writer) = std::io::pipe().map_err(|why| format!("cannot make a pipe: {why}"))?;
        let mut command = command("gdb");
        let words = |why| format!("cannot make a pipe: {why}");
        command.stdin(std::process::Stdio::piped()).stdout(writer.try_clone().map_err(words)?).stderr(writer);
        // The settings stand before the program: it is read by them.
        command.args(["-nx", "-q"]).args(SETTINGS.iter().flat_map(|setting| ["-iex", setting]));
        command.args(["-ex", &format!("set backtrace limit {FRAMES_MAX}"), &format!("/proc/{pid}/exe")]);
        let mut running = Running::start(&mut command)?;
        // It holds the pipe's other end, which would not end.
        drop(command);
        let input = running.0.stdin.take();
        let mut gdb = Gdb { input, lines: Lines::of(reader), running, maps: BTreeMap::new() };
        gdb.say(&format!("echo {MARK}\\n\n"))?;
        match gdb.until_mark(Instant::now() + GDB_STARTS_WITHIN) {
            Some(_) => Ok(gdb),
            None => Err("gdb does not get ready".to_owned()),
        }
    }

    /// Stops a process, and lets it go on.
    ///
    /// # Errors
    /// If gdb has ended.
    pub(crate) fn sample(&mut self, pid: u32, pause_max: Duration) -> Result<Outcome, String> {
        let commands =
            format!("attach {pid}\nsharedlibrary {LIBRARIES}\nthread apply all bt\ndetach\necho {MARK}\\n\n");
        self.say(&commands)?;
        let Some(lines) = self.until_mark(Instant::now() + pause_max) else {
            self.let_go(pid);
            return Ok(Outcome::TooLong);
        };
        let mut reading = Threads::default();
        lines.iter().for_each(|line| reading.line(line));
        let mut stacks = reading.end();
        if stacks.is_empty() {
            return Ok(Outcome::Refused(refusal(&lines)));
        }
        let maps = self.maps.entry(pid).or_insert_with(|| Maps::of(pid));
        stacks.iter_mut().for_each(|stack| place(stack, pid, maps));
        Ok(Outcome::Stacks(stacks))
    }

    fn say(&mut self, commands: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("gdb has ended")?;
        input.write_all(commands.as_bytes()).and_then(|()| input.flush()).map_err(|why| format!("gdb has ended: {why}"))
    }

    /// What it prints up to the mark; `None` if that does not come.
    fn until_mark(&self, deadline: Instant) -> Option<Vec<String>> {
        let mut lines = Vec::new();
        loop {
            match self.lines.next(deadline) {
                Line::Text(line) if line.ends_with(MARK) => return Some(lines),
                Line::Text(line) => lines.push(line),
                Line::End | Line::Late => return None,
            }
        }
    }

    /// Ends gdb in the middle of a sample. The kernel then lets the process go; if it has not been stopped by gdb yet, gdb's SIGSTOP may still do so.
    fn let_go(&mut self, pid: u32) {
        self.input = None;
        // It may have ended.
        let _ = self.running.0.kill();
        let _ = self.running.0.wait();
        let deadline = Instant::now() + Duration::from_millis(200);
        while Instant::now() < deadline {
            if let (true, Some(pid)) = (is_stopped(pid), i32::try_from(pid).ok().and_then(Pid::from_raw)) {
                // It is gone otherwise.
                let _ = kill_process(pid, Signal::CONT);
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Gdb {
    fn drop(&mut self) {
        // At the end of its input it leaves.
        self.input = None;
        let _ = self.running.ends_by(Instant::now() + ENDS_WITHIN);
    }
}

/// Says in which file each call lies. An inlined call has no address: it lies where the call does that it is inlined in.
fn place(stack: &mut RawStack, pid: u32, maps: &Maps) {
    stack.pid = Some(pid);
    let mut before: Option<String> = None;
    for frame in stack.frames.iter_mut().rev() {
        let file = frame.address.map(|address| maps.file(address).map(str::to_owned));
        let known = file.unwrap_or_else(|| before.clone());
        frame.module = known.or_else(|| frame.module.take());
        before.clone_from(&frame.module);
    }
}

/// Why there are no stacks.
fn refusal(lines: &[String]) -> String {
    let told =
        lines.iter().map(|line| line.trim()).find(|line| line.contains("ptrace:") || line.contains("No such process"));
    let told = told.unwrap_or("no stack").trim_end_matches('.');
    format!("gdb says: {}", told.replace(char::is_control, "?"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::RawFrame;

    #[test]
    fn a_refusal_is_told_in_gdbs_words() {
        let lines = ["Attaching to process 7", "ptrace: Operation not permitted.", "No stack."].map(str::to_owned);
        assert_eq!(refusal(&lines), "gdb says: ptrace: Operation not permitted");
        assert_eq!(refusal(&[]), "gdb says: no stack");
    }

    #[test]
    fn a_call_without_an_address_lies_where_its_caller_does() {
        let frame = |function: &str, module: Option<&str>, address: Option<u64>| RawFrame {
            function: Some(function.to_owned()),
            module: module.map(str::to_owned),
            address,
        };
        let own = std::process::id();
        let frames =
            vec![frame("inner", None, None), frame("outer", Some("/lib/x"), Some(1)), frame("main", None, Some(2))];
        let mut stack = RawStack { frames, ..RawStack::default() };
        place(&mut stack, own, &Maps::default());
        let modules: Vec<_> = stack.frames.iter().map(|frame| frame.module.as_deref()).collect();
        assert_eq!(modules, [Some("/lib/x"), Some("/lib/x"), None]);
        assert_eq!(stack.pid, Some(own));
    }
}
