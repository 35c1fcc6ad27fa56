//! A server that is played, for tests: keeps what it is asked, and answers what a run must know.

use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use ask::Monitor;
use client::{Connection, Frames, Place, Stream, put};

pub(crate) struct Played {
    pub(crate) asked: Arc<Mutex<Vec<String>>>,
    answers: &'static [(&'static str, &'static str)],
    to_read: Vec<u8>,
    was_interrupted: bool,
}

impl Played {
    /// Parts of statements, and the value that each gets.
    pub(crate) fn new(answers: &'static [(&'static str, &'static str)]) -> Self {
        Self { asked: Arc::default(), answers, to_read: Vec::new(), was_interrupted: false }
    }

    pub(crate) fn monitor(self) -> Monitor {
        let connection = Connection::over(Box::new(self), Place::Unix(PathBuf::new()));
        Monitor::over(connection)
    }
}

impl Stream for Played {}

impl Write for Played {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (out, answers, asked) = (&mut self.to_read, self.answers, &self.asked);
        let queries = Frames::default().feed(bytes, |tag, body| {
            let sql = String::from_utf8_lossy(body).trim_end_matches('\0').to_owned();
            if let Some((_, value)) = answers.iter().find(|(part, _)| sql.contains(part)) {
                let length = i32::try_from(value.len()).expect("short").to_be_bytes();
                put(out, b'D', &[&[0, 1], &length, value.as_bytes()]);
            }
            if tag == b'Q' {
                put(out, b'Z', &[b"I"]);
                asked.lock().expect("nobody panics with it").push(sql);
            }
            Ok(())
        });
        queries.expect("whole messages");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Played {
    /// A signal comes before every read.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.was_interrupted = !self.was_interrupted;
        if self.was_interrupted {
            return Err(ErrorKind::Interrupted.into());
        }
        let count = into.len().min(self.to_read.len());
        into[..count].copy_from_slice(&self.to_read[..count]);
        self.to_read.drain(..count);
        Ok(count)
    }
}

#[test]
fn a_signal_does_not_end_the_wait_for_an_answer() {
    let mut monitor = Played::new(&[("first", "1"), ("second", "2")]).monitor();
    assert_eq!(monitor.ask("SELECT first"), Ok(vec!["1".to_owned()]));
    assert_eq!(monitor.ask("SELECT second"), Ok(vec!["2".to_owned()]), "each question gets its own answer");
}
