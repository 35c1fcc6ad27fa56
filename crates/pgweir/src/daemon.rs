//! `-d`: going to the background. There is no fork in safe Rust, and none is needed: the program starts itself again.
//!
//! The child is in a session of its own, without a terminal; the parent ends with status 0 once the child listens, and
//! with 1 if it ends before.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use programs::announce;

/// Set in the child's environment, lest it starts another.
const VARIABLE: &str = "PGWEIR_DAEMON";

/// Are we the child?
pub(crate) fn is_child() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// In the parent: starts the child with the same arguments and waits until it listens.
pub(crate) fn start() -> io::Result<ExitCode> {
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    command.args(std::env::args_os().skip(1)).env(VARIABLE, "1").stdin(Stdio::null());
    announce::ask(&mut command);
    let mut child = command.spawn()?;
    if announce::wait(&mut child) {
        return Ok(ExitCode::SUCCESS);
    }
    child.wait()?;
    Ok(ExitCode::FAILURE)
}

/// In the child, first thing: leaves the terminal's session.
pub(crate) fn leave_session() -> io::Result<()> {
    rustix::process::setsid()?;
    Ok(())
}

/// In the child, once it listens: lets go of the terminal.
pub(crate) fn let_go() -> io::Result<()> {
    rustix::stdio::dup2_stderr(&File::options().write(true).open("/dev/null")?)?;
    Ok(())
}
