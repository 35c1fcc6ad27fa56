//! A pgweir that another program has started (`-d`, `dev`) announces that it listens: by one line on stdout, which then closes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// Set in the environment of a child that is to announce itself.
pub const VARIABLE: &str = "PGWEIR_ANNOUNCE";

/// Set in the environment of a child that is not to outlive its parent.
pub const ENDS_WITH_PARENT: &str = "PGWEIR_DEV";

/// The line that the child writes.
pub const LINE: &str = "listening";

/// Makes a command's child announce itself.
pub fn ask(command: &mut Command) {
    command.env(VARIABLE, "1").stdout(Stdio::piped());
}

/// Waits until the child listens (true) or has ended without (false).
pub fn wait(child: &mut Child) -> bool {
    let Some(stdout) = child.stdout.take() else {
        return false;
    };
    let mut line = String::new();
    let read = BufReader::new(stdout).read_line(&mut line);
    read.is_ok() && line.trim_end() == LINE
}
