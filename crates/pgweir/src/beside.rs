//! `pgweir dev` and `pgweir bench`: pgweir-bench, the program beside this one, takes the process over, with its signals and its exit status.
//!
//! The program that holds everybody's passwords links neither a benchmark nor what installs and starts a PostgreSQL. Promises that a
//! URL, which may have a password, is on no command line but the one that the user has typed.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use programs::Errand;
use programs::companion::{self, PGWEIR_BENCH};
use rustix::pipe::{PipeFlags, pipe_with};

/// Returns only if it fails.
pub(crate) fn hand_over(errand: Errand) -> ExitCode {
    let name = errand.name();
    let why = replace(errand);
    eprintln!("pgweir {name}: {why}");
    ExitCode::FAILURE
}

/// Why the other program could not be started.
fn replace(mut errand: Errand) -> String {
    let program = match companion::find(PGWEIR_BENCH).and_then(|path| companion::agree(&path).map(|()| path)) {
        Ok(program) => program,
        Err(why) => return why,
    };
    let mut command = Command::new(&program);
    // A file that has been replaced meanwhile is found beside the other program, if it is there.
    if let Some(own) = std::env::current_exe().ok().filter(|path| path.is_file()) {
        command.arg("--pgweir").arg(own);
    }
    let pipe = errand.take_url().map(|url| filled(&url)).transpose();
    match &pipe {
        Ok(Some(pipe)) => drop(command.arg("--url-from").arg(format!("/dev/fd/{}", pipe.as_raw_fd()))),
        Ok(None) => {}
        Err(why) => return format!("cannot hand the URL over: {why}"),
    }
    let why = command.args(errand.words()).exec();
    format!("cannot start {}: {why}", program.display())
}

/// A pipe that the next program inherits, with a text in it.
fn filled(text: &str) -> io::Result<OwnedFd> {
    // A text for which it has no room is an error, instead of a wait for a reader.
    let (to_read, to_write) = pipe_with(PipeFlags::NONBLOCK)?;
    let count = rustix::io::write(&to_write, text.as_bytes())?;
    if count < text.len() {
        return Err(io::Error::other("it is too long"));
    }
    Ok(to_read)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_text_is_read_from_the_pipe_once_and_has_an_end() {
        let pipe = filled("postgres://u:p@h/d").expect("a pipe");
        let path = format!("/dev/fd/{}", pipe.as_raw_fd());
        assert_eq!(fs::read_to_string(&path).expect("it is ours"), "postgres://u:p@h/d");
        assert_eq!(fs::read_to_string(&path).expect("it is ours"), "");
        assert!(filled(&"x".repeat(1 << 21)).is_err());
    }
}
