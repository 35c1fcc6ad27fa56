//! One seed from beginning to end, and the report when something is wrong.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::sync::Once;

use crate::census::Census;
use crate::course::Failure;
use crate::plan::Plan;
use crate::trace::Trace;
use crate::wishes::Wishes;
use crate::world::World;

thread_local! {
    /// A world runs on this thread: its panics are reported as failures.
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// The outcome of a seed.
#[derive(Debug)]
pub struct Outcome {
    pub census: Census,
    pub hash: u64,
    /// See [`Trace::seen`].
    pub seen: u64,
    pub failure: Option<Failure>,
    pub lines: Vec<String>,
}

/// Panics of a world go into its report, not to the terminal; other panics are printed as before.
fn catch_panics() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |details| {
            if !CATCHING.get() {
                return before(details);
            }
            let place = details.location().map(|at| format!(" at {at}")).unwrap_or_default();
            let words = format!("{}{place}", details.payload_as_str().unwrap_or("no words"));
            PANIC.with_borrow_mut(|kept| *kept = Some(words));
        }));
    });
}

/// Runs one seed. `records`: keeps the trace's lines; `prints`: also prints them.
#[must_use]
pub fn run(wishes: &Wishes, records: bool, prints: bool) -> Outcome {
    let plan = Plan::new(wishes);
    let trace = Trace::new(records, prints);
    let mut world = World::new(plan, trace);
    catch_panics();
    CATCHING.set(true);
    let ended = panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    CATCHING.set(false);
    let failure = match ended {
        Ok(result) => result.err(),
        Err(_) => {
            let words = PANIC.with_borrow_mut(Option::take).unwrap_or_else(|| "a panic without words".to_owned());
            // Assertions in the core begin with the number of their invariant, if they have one.
            let invariant = words.strip_prefix('I').and_then(|rest| rest.split(':').next()?.parse().ok()).unwrap_or(0);
            Some(Failure { invariant, text: format!("panic: {words}"), step: world.census().world.steps })
        }
    };
    let (census, trace) = (*world.census(), world.trace());
    Outcome { census, hash: trace.hash(), seen: trace.seen(), failure, lines: trace.take_lines() }
}

/// The command that runs a seed again.
#[must_use]
pub fn replay(wishes: &Wishes) -> String {
    let mut command = "cargo run -p sim --".to_owned();
    command += &sabotage(wishes);
    command += &format!(" --seed {}", wishes.seed);
    if let Some(steps) = wishes.steps {
        command += &format!(" --steps {steps}");
    }
    if let Some(workers) = wishes.workers {
        command += &format!(" --workers {workers}");
    }
    if wishes.calm {
        command += " --calm";
    }
    if wishes.shares {
        command += " --shares";
    }
    if wishes.classes {
        command += " --classes";
    }
    if wishes.promises {
        command += " --promises";
    }
    if wishes.hosts {
        command += " --hosts";
    }
    if wishes.panics {
        command += " --panics";
    }
    if wishes.sizes.is_some() {
        command += " --sizes";
    }
    if let Some(fidelity) = wishes.fidelity {
        command += &format!(" --fidelity {}", fidelity.as_str());
    }
    for setting in wishes.set.iter() {
        command += &format!(" --set '{setting}'");
    }
    command
}

#[cfg(debug_assertions)]
fn sabotage(wishes: &Wishes) -> String {
    wishes.sabotage.map(|fault| format!(" --sabotage {fault:?}")).unwrap_or_default()
}

#[cfg(not(debug_assertions))]
fn sabotage(_: &Wishes) -> String {
    String::new()
}

/// Runs a failed seed again with its trace, writes the trace into `failures/`, and returns the report.
#[must_use]
pub fn report(wishes: &Wishes, failure: &Failure, replay: &str) -> String {
    let again = run(wishes, true, false);
    let mut text = format!("replay: {replay}\n");
    text += &format!("I{} at step {}: {}\n", failure.invariant, failure.step, failure.text);
    let tail = again.lines.len().saturating_sub(40);
    for line in &again.lines[tail..] {
        text += line;
        text.push('\n');
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("failures");
    let path = folder.join(format!("seed-{}.txt", wishes.seed));
    let written = std::fs::create_dir_all(&folder).and_then(|()| {
        let all = format!("{text}\nthe whole trace:\n{}\n", again.lines.join("\n"));
        std::fs::write(&path, all)
    });
    if written.is_ok() {
        text += &format!("trace: {}\n", path.display());
    }
    text
}
