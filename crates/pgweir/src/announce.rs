//! How a child of ours (`-d`, `dev`) tells its parent that it listens: one line on stdout, which then closes.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

/// Set in the environment of a child that is to announce itself.
const VARIABLE: &str = "PGWEIR_ANNOUNCE";

const LINE: &str = "listening";

/// Makes a command's child announce itself.
pub(crate) fn ask(command: &mut Command) {
    command.env(VARIABLE, "1").stdout(Stdio::piped());
}

/// Waits until the child listens (true) or has ended without (false).
pub(crate) fn wait(child: &mut Child) -> bool {
    let Some(stdout) = child.stdout.take() else {
        return false;
    };
    let mut line = String::new();
    let read = BufReader::new(stdout).read_line(&mut line);
    read.is_ok() && line.trim_end() == LINE
}

/// Were we asked to announce ourselves?
pub(crate) fn is_asked() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// In the child: tells the parent, and lets go of the pipe so that it may close its end.
pub(crate) fn announce() -> io::Result<()> {
    if !is_asked() {
        return Ok(());
    }
    let mut stdout = io::stdout();
    // The parent may be gone, which is no reason for us to go too.
    let _ = writeln!(stdout, "{LINE}").and_then(|()| stdout.flush());
    let null = std::fs::File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(())
}
