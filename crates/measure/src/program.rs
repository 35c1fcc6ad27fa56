//! A contestant's process: its version, when it listens, how it ends.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Between two looks whether a process listens, or has ended.
const LISTENS_EVERY: Duration = Duration::from_millis(10);
const ENDS_EVERY: Duration = Duration::from_millis(5);

/// The output of `PROGRAM --version`.
///
/// # Errors
/// It cannot be run, or says nothing.
pub fn version(program: &Path) -> Result<String, String> {
    let output = Command::new(program).arg("--version").output();
    let output = output.map_err(|error| format!("cannot run {}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let printed = Some(text.trim()).filter(|text| !text.is_empty());
    Ok(printed.ok_or_else(|| format!("{} --version says nothing", program.display()))?.to_owned())
}

/// Places a program where every user may run it: the original may be where contestants cannot reach it, and a build may replace it.
///
/// A hard link if both are in one file system: a build replaces a program's name, and does not write to its file. Else a copy, by
/// cp(1), so that this process never has it open for writing. A child that another thread forks meanwhile would have it open, too,
/// until it runs its own program, and nobody can start a program that somebody may still write (ETXTBSY).
///
/// # Errors
/// It cannot be read, or not written there.
pub fn place(program: &Path, to: &Path) -> Result<(), String> {
    let words = |error: io::Error| format!("cannot copy {}: {error}", program.display());
    // The program itself, where a symbolic link leads to it.
    let program = &fs::canonicalize(program).map_err(words)?;
    let mode = fs::metadata(program).map_err(words)?.permissions().mode();
    let is_for_all = mode & 0o555 == 0o555;
    if is_for_all && fs::hard_link(program, to).is_ok() {
        return Ok(());
    }
    let output = Command::new("cp").arg("--").args([program, to]).output().map_err(words)?;
    if !output.status.success() {
        return Err(format!("cannot copy {}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim()));
    }
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).map_err(words)
}

/// The end of a log, where a program says what went wrong.
#[must_use]
pub fn last_lines(log: &str, count: usize) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Waits until somebody listens on a port of 127.0.0.1. `false`: the process has ended before, or the time is up.
pub fn awaits_clients(child: &mut Child, port: u16, patience: Duration) -> bool {
    let limit = Instant::now() + patience;
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if !matches!(child.try_wait(), Ok(None)) || Instant::now() > limit {
            return false;
        }
        std::thread::sleep(LISTENS_EVERY);
    }
    true
}

/// Asks a process to end, by a signal, and kills it if it has not done so in time. It is waited for.
pub fn end(child: &mut Child, signal: Signal, patience: Duration) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It is not waited for yet, so that the number is still its own.
        let _ = kill_process(pid, signal);
    }
    let limit = Instant::now() + patience;
    while Instant::now() < limit {
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        std::thread::sleep(ENDS_EVERY);
    }
    let _ = child.kill();
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_ends_with_its_last_lines() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "b\nc");
        assert_eq!(last_lines("a", 2), "a");
        assert_eq!(last_lines("", 2), "");
    }
}
