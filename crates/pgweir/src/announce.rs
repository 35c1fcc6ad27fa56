//! The child's side of `programs::announce`: once pgweir listens, it writes a line to stdout, if its parent waits for it, and closes it.

use std::io::{self, Write};

use programs::announce::{ENDS_WITH_PARENT, LINE, VARIABLE};
use rustix::process::{Signal, set_parent_process_death_signal};

/// Ends with its parent, however that ends, if the parent has asked for it. To be called after the change of user, which undoes it.
pub(crate) fn end_with_parent() -> io::Result<()> {
    if std::env::var_os(ENDS_WITH_PARENT).is_some() {
        set_parent_process_death_signal(Some(Signal::QUIT))?;
    }
    Ok(())
}

/// Were we asked to announce ourselves?
pub(crate) fn is_asked() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

/// Tells the parent, and lets go of the pipe so that it may close its end.
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
