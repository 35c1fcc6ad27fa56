//! Other people's drivers: a program for each, which checks sessions by itself and is called with a URL.
//!
//! What all programs have in common is told in `python/sessions.py`: their arguments, what they print, and that each check
//! of theirs is true of a direct connection.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::slots::Slot;
use crate::tools::{finish, python_with};

/// What the `tools/` scripts end with if their language is not to be had on this machine.
const NOT_TO_BE_HAD: i32 = 77;

/// What was built for this process, by the script's name; or why not.
static BUILT: Mutex<BTreeMap<String, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());

/// Which of a program's checks are wanted.
#[derive(Copy, Clone, Debug)]
pub enum Checks<'a> {
    All,
    Only(&'a [&'a str]),
}

/// A program that is ready to run.
pub struct Program {
    start: Vec<PathBuf>,
}

impl Program {
    /// A script of `crates/outer/python`.
    ///
    /// # Panics
    /// As [`crate::python`].
    #[must_use]
    pub fn python(script: &str) -> Self {
        Self { start: python_with(script).to_vec() }
    }

    /// What a script of `tools/` builds; it prints the program's path. `None`, and a line that begins with `SKIPPED`, if
    /// this machine has no compiler for it and cannot get one.
    ///
    /// # Panics
    /// If building fails.
    #[must_use]
    pub fn built_by(tool: &str) -> Option<Self> {
        // Compilers use the machine as a test does. Before the lock: a test that has the machine alone may want it.
        let _slot = Slot::any();
        // Once: a second test must not replace what the first one is running.
        let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = built.entry(tool.to_owned()).or_insert_with(|| build(tool)).clone();
        match outcome {
            Ok(program) => Some(Self { start: vec![program] }),
            Err(why) => {
                println!("SKIPPED {tool}: {why}");
                None
            }
        }
    }

    /// The program, for whoever speaks with it by other arguments.
    ///
    /// # Panics
    /// Never: there is always a program.
    #[must_use]
    pub fn command(&self) -> Command {
        let (first, rest) = self.start.split_first().expect("there is a program");
        let mut command = Command::new(first);
        command.args(rest).env("LC_ALL", "C").env("PYTHONDONTWRITEBYTECODE", "1");
        command
    }

    /// Runs its checks at `url`; what it printed.
    ///
    /// # Errors
    /// What it printed, if a check found a difference.
    ///
    /// # Panics
    /// If it has no such check, or cannot be started.
    pub fn run(&self, url: &str, checks: Checks<'_>) -> Result<String, String> {
        let (first, rest) = self.start.split_first().expect("there is a program");
        let mut command = Command::new(first);
        command.args(rest).arg(url);
        match checks {
            Checks::All => {}
            Checks::Only(names) => drop(command.args(names)),
        }
        finish(&mut command).map(|(said, complaints)| said + &complaints)
    }
}

/// The program that `tools/{tool}` has built, or why there can be none.
fn build(tool: &str) -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools").join(tool);
    let output = Command::new(path).output().unwrap_or_else(|error| panic!("tools/{tool}: {error}"));
    let [said, why] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.code() == Some(NOT_TO_BE_HAD) {
        return Err(why.trim().to_owned());
    }
    assert!(output.status.success(), "tools/{tool}: {}\n{said}{why}", output.status);
    Ok(said.trim().into())
}
