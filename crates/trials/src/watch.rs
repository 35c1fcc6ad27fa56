//! What is looked at while a load works: PostgreSQL's runnable processes, its locks and connections, and how long an unrelated
//! command takes.
//!
//! Promises: looking costs a tenth of a core at most, and less the more there is to look at. Does not stop a load for anything.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use ask::Monitor;
use measure::machine::unrelated_command;
use measure::process;

use crate::target::ours;

/// Between two looks at processes, at locks, and between two commands.
const PROCESSES_EVERY: Duration = Duration::from_millis(50);
const LOCKS_EVERY: Duration = Duration::from_millis(300);
const COMMAND_EVERY: Duration = Duration::from_millis(250);
/// A look that took long is followed by a pause of so many times its length.
const PAUSE: u32 = 10;

/// What was seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// One number a look.
    pub(crate) runnable: Vec<usize>,
    pub(crate) locks: Vec<u64>,
    pub(crate) connections: Vec<u64>,
    /// How long each command took.
    pub(crate) commands: Vec<Duration>,
}

/// What is to be looked at.
pub(crate) struct Wanted<'a> {
    pub(crate) postmaster: Option<u32>,
    pub(crate) monitor: &'a mut Monitor,
    /// When the slice began, by PostgreSQL's clock in seconds.
    pub(crate) since: f64,
    pub(crate) command: bool,
}

/// Runs `load` and looks meanwhile.
pub(crate) fn during<T>(wanted: Wanted<'_>, load: impl FnOnce() -> T) -> (T, Seen) {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let Wanted { postmaster, monitor, since, command } = wanted;
        let runnable = scope.spawn(move || every(PROCESSES_EVERY, over, || runnable(postmaster)));
        let locks = scope.spawn(move || every(LOCKS_EVERY, over, || locks(monitor, since)));
        let commands = scope.spawn(move || every(COMMAND_EVERY, over, || unrelated_command().filter(|_| command)));
        let result = load();
        over.store(true, Ordering::Relaxed);
        let mut seen = Seen { runnable: joined(runnable), commands: joined(commands), ..Seen::default() };
        (seen.locks, seen.connections) = joined(locks).into_iter().unzip();
        (result, seen)
    })
}

fn joined<T>(thread: ScopedJoinHandle<'_, Vec<T>>) -> Vec<T> {
    thread.join().expect("looking does not panic")
}

/// Looks until it is over, or until there is nothing to be seen; at least once.
fn every<T>(pause: Duration, over: &AtomicBool, mut look: impl FnMut() -> Option<T>) -> Vec<T> {
    let mut seen = Vec::new();
    loop {
        let began = Instant::now();
        let Some(one) = look() else { return seen };
        seen.push(one);
        let until = Instant::now() + pause.max(began.elapsed() * PAUSE);
        while Instant::now() < until {
            if over.load(Ordering::Relaxed) {
                return seen;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn runnable(postmaster: Option<u32>) -> Option<usize> {
    Some(process::runnable(&process::children(postmaster?)))
}

/// Locks held, and connections: the load's, nobody else's.
fn locks(monitor: &mut Monitor, since: f64) -> Option<(u64, u64)> {
    let locks = "SELECT count(*) FROM pg_locks WHERE pid IN (SELECT pid FROM ours)";
    let ask = format!("WITH ours AS ({}) SELECT ({locks}), (SELECT count(*) FROM ours)", ours(since));
    let rows = monitor.ask(&ask).ok()?;
    let (locks, connections) = rows.first()?.split_once('|')?;
    Some((locks.parse().ok()?, connections.parse().ok()?))
}
