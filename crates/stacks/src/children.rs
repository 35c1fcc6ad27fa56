//! Programs that are started for a while: their output line by line, with a deadline, and their end.
//!
//! Promises: dropping one ends it, and nobody waits longer than told. Not interrupted by Ctrl-C, so that gdb does not leave off half-way: it
//! ends when its input does.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::limits::{COMPLAINT_BYTES_MAX, LINE_BYTES_MAX, LINES_WAITING_MAX};

/// How often an end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A started program; dropping it kills it.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// # Errors
    /// In words, if it cannot be started.
    pub(crate) fn start(command: &mut Command) -> Result<Running, String> {
        let program = command.get_program().to_string_lossy().into_owned();
        // What it reads from its user's home would make one profile unlike the next.
        command.env("LC_ALL", "C").env("PERF_CONFIG", "/dev/null").process_group(0);
        command.spawn().map(Running).map_err(|why| format!("cannot start {program}: {why}"))
    }

    /// Whether it ended by then, and well.
    pub(crate) fn ends_by(&mut self, deadline: Instant) -> bool {
        loop {
            match self.0.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) if Instant::now() < deadline => thread::sleep(LOOK_EVERY),
                _ => return false,
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended; there is nothing else to be done about it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What came next.
pub(crate) enum Line {
    Text(String),
    End,
    Late,
}

/// Lines, read by a thread of their own.
pub(crate) struct Lines(Receiver<String>);

impl Lines {
    pub(crate) fn of(output: impl Read + Send + 'static) -> Lines {
        let (sender, receiver) = sync_channel(LINES_WAITING_MAX);
        thread::spawn(move || {
            let mut reader = BufReader::new(output);
            while let Some(line) = read(&mut reader) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Lines(receiver)
    }

    pub(crate) fn next(&self, deadline: Instant) -> Line {
        match self.0.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => Line::Text(line),
            Err(RecvTimeoutError::Timeout) => Line::Late,
            Err(RecvTimeoutError::Disconnected) => Line::End,
        }
    }
}

/// One line, or as much of it as is kept; a longer one comes in parts.
fn read(reader: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    let count = reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes).ok()?;
    (count > 0).then(|| String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned())
}

/// Complaints, read by a thread of their own: the beginning is kept.
pub(crate) struct Complaints(thread::JoinHandle<String>);

impl Complaints {
    pub(crate) fn of(mut output: impl Read + Send + 'static) -> Complaints {
        Complaints(thread::spawn(move || {
            let mut bytes = Vec::new();
            // What cannot be read is not said.
            let _ = (&mut output).take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut output, &mut std::io::sink());
            String::from_utf8_lossy(&bytes).into_owned()
        }))
    }

    /// Once the program has ended.
    pub(crate) fn text(self) -> String {
        self.0.join().unwrap_or_default()
    }
}

/// No input of ours, output to be read.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_and_may_be_late() {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let lines = Lines::of(reader);
        std::io::Write::write_all(&mut writer, b"one\r\n\xfftwo\n").expect("room");
        let far = Instant::now() + Duration::from_secs(120);
        assert!(matches!(lines.next(far), Line::Text(line) if line == "one"));
        assert!(matches!(lines.next(far), Line::Text(line) if line == "\u{fffd}two"));
        assert!(matches!(lines.next(Instant::now()), Line::Late));
        drop(writer);
        assert!(matches!(lines.next(far), Line::End));
    }

    #[test]
    fn a_long_line_comes_in_parts() {
        let text = [vec![b'a'; 100_000], b"\nb".to_vec()].concat();
        let mut reader = &text[..];
        let mut lens = Vec::new();
        while let Some(line) = read(&mut reader) {
            lens.push(line.len());
        }
        assert_eq!(lens, [65_536, 34_464, 1]);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let error = Running::start(&mut command("/nowhere/perf")).err().expect("it is not there");
        assert!(error.starts_with("cannot start /nowhere/perf: "), "{error}");
    }
}
