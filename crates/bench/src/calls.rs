//! System calls per transaction, counted by strace in a slice of its own.
//!
//! Promises: the load stands still while strace attaches and detaches, so that calls and transactions belong to each
//! other exactly. Does not: time anything; a traced process is several times slower, and its batches a little larger.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use measure::process;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::contestant::Premises;
use crate::setup::Side;
use crate::world::{Mode, World};

/// strace at work.
struct Tracer {
    child: Child,
    table: PathBuf,
}

impl Tracer {
    fn attach(place: &Premises, pid: u32) -> Result<Tracer, String> {
        let table = place.folder.join(format!("calls-{pid}.txt"));
        let mut command = Command::new("strace");
        command.args(["-c", "-f", "-U", "calls,name", "-p", &pid.to_string(), "-o"]).arg(&table);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("no strace: {error}"))?;
        let mut tracer = Tracer { child, table };
        let limit = Instant::now() + Duration::from_secs(10);
        while !process::is_traced(pid)? {
            if tracer.child.try_wait().ok().flatten().is_some() || Instant::now() >= limit {
                return Err("strace cannot attach".to_owned());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(tracer)
    }

    fn detach(mut self) -> Result<BTreeMap<String, u64>, String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).ok_or("process numbers fit")?;
        kill_process(pid, Signal::INT).map_err(|error| format!("cannot stop strace: {error}"))?;
        self.child.wait().map_err(|error| format!("strace: {error}"))?;
        let text = fs::read_to_string(&self.table).map_err(|error| format!("strace wrote nothing: {error}"))?;
        Ok(parse(&text))
    }
}

/// The table that `strace -c -U calls,name` writes: two columns between lines of dashes.
fn parse(text: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        let calls: u64 = words.next()?.parse().ok()?;
        let name = words.next().filter(|name| *name != "total")?;
        Some((name.to_owned(), calls))
    };
    text.lines().filter_map(row).collect()
}

/// Counts the calls of one contestant under a load of `time`. The clients are connected already (a storm needs none).
pub fn count(place: &Premises, world: &mut World, side: &Side, mode: Mode, time: Duration) -> Result<Value, String> {
    let before = world.done(side.fleet);
    let calls = during(place, side, || load(world, side, mode, time))?;
    Ok(json!({ "transactions": world.done(side.fleet) - before, "calls": calls }))
}

/// Counts the calls that one contestant makes while `load` runs.
pub fn during(
    place: &Premises,
    side: &Side,
    load: impl FnOnce() -> Result<(), String>,
) -> Result<BTreeMap<String, u64>, String> {
    let pid = side.pid().ok_or("the direct connection makes no calls")?;
    of_process(place, pid, || load().map_err(|error| side.blame(&error)))
}

/// Counts the calls that a process makes while `load` runs.
pub fn of_process(
    place: &Premises,
    pid: u32,
    load: impl FnOnce() -> Result<(), String>,
) -> Result<BTreeMap<String, u64>, String> {
    let tracer = Tracer::attach(place, pid)?;
    let traced = load();
    let calls = tracer.detach()?;
    traced.map(|()| calls)
}

fn load(world: &mut World, side: &Side, mode: Mode, time: Duration) -> Result<(), String> {
    world.start(side.fleet, mode)?;
    world.run_for(time)?;
    world.settle(side.fleet)?;
    if matches!(mode, Mode::Storm { .. }) {
        world.disconnect(side.fleet)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_without_its_frame() {
        let text = "    calls syscall\n--------- ----------------\n       12 recvfrom\n        3 epoll_wait\n--------- ---\n       15 total\n";
        let calls = parse(text);
        assert_eq!(calls.len(), 2);
        assert_eq!((calls["recvfrom"], calls["epoll_wait"]), (12, 3));
        assert!(parse("").is_empty());
    }
}
