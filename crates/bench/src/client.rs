//! One client of the load: logs in, prepares what is to be prepared, then asks and checks every answer.
//!
//! Promises: an answer with the wrong number of rows or bytes, an error, or a message out of place fails the client,
//! and with it the measurement. The machine is pure: bytes in, bytes out.
//! Does not: have more than one question under way.

use std::sync::Arc;

use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use crate::fake::Answer;
use crate::frames::{Frames, put, startup};

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One Query message.
    Simple,
    /// Parse, Bind, Describe, Execute, Sync with the unnamed statement: what libpq sends for a query with parameters.
    Extended,
    /// Bind, Describe, Execute, Sync with a statement that was prepared under a name at login.
    Prepared,
}

/// What every client of a load has in common.
#[derive(Debug)]
pub struct Work {
    login: Vec<u8>,
    user: String,
    password: String,
    prepare: Option<Vec<u8>>,
    request: Vec<u8>,
    rows: usize,
    row_bytes: usize,
}

impl Work {
    pub fn new(user: &str, password: &str, database: &str, style: Style, answer: Answer) -> Work {
        let sql = answer.sql();
        let (rows, row_bytes) = answer.shape();
        let mut request = Vec::new();
        let mut prepare = None;
        match style {
            Style::Simple => put(&mut request, b'Q', &[sql.as_bytes(), b"\0"].concat()),
            Style::Extended => {
                put(&mut request, b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
                bind_and_execute(&mut request, "");
            }
            Style::Prepared => {
                let mut parse = Vec::new();
                put(&mut parse, b'P', &[b"P0_1\0", sql.as_bytes(), b"\0\0\0"].concat());
                put(&mut parse, b'S', b"");
                prepare = Some(parse);
                bind_and_execute(&mut request, "P0_1");
            }
        }
        let login = startup(&[("user", user), ("database", database), ("application_name", "bench")]);
        Work { login, user: user.to_owned(), password: password.to_owned(), prepare, request, rows, row_bytes }
    }
}

/// Bind, Describe, Execute and Sync for a statement, with the unnamed portal and no parameters.
fn bind_and_execute(out: &mut Vec<u8>, statement: &str) {
    put(out, b'B', &[b"\0", statement.as_bytes(), b"\0\0\0\0\0\0\0"].concat());
    put(out, b'D', b"P\0");
    put(out, b'E', b"\0\0\0\0\0");
    put(out, b'S', b"");
}

enum Phase {
    LoggingIn(Option<ScramSha256>),
    Preparing,
    Idle,
    /// Rows and bytes of them that have arrived.
    Waiting(usize, usize),
}

/// What receiving bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing that matters to the load.
    More,
    /// Logged in and prepared: the client may ask.
    Ready,
    /// The answer is complete and right.
    Answered,
}

/// One client.
pub struct Client {
    work: Arc<Work>,
    phase: Phase,
    frames: Frames,
}

impl Client {
    /// A new client and its startup packet.
    pub fn start(work: &Arc<Work>, out: &mut Vec<u8>) -> Client {
        out.extend_from_slice(&work.login);
        Client { work: Arc::clone(work), phase: Phase::LoggingIn(None), frames: Frames::default() }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Asks its question. Only for an idle client.
    pub fn ask(&mut self, out: &mut Vec<u8>) {
        debug_assert!(self.is_idle(), "one question at a time");
        self.phase = Phase::Waiting(0, 0);
        out.extend_from_slice(&self.work.request);
    }

    /// Takes what arrived. Errors: whatever was not the one right answer, in words.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, String> {
        let mut progress = Progress::More;
        let (phase, work) = (&mut self.phase, &self.work);
        self.frames.feed(bytes, |tag, body| {
            let step = message(phase, work, tag, body, out)?;
            if step != Progress::More {
                progress = step;
            }
            Ok(())
        })?;
        Ok(progress)
    }
}

fn message(phase: &mut Phase, work: &Work, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<Progress, String> {
    match (&mut *phase, tag) {
        (_, b'E') => return Err(format!("refused: {}", body.escape_ascii())),
        (_, b'S' | b'N') => {}
        (Phase::LoggingIn(scram), b'R') => authenticate(scram, work, body, out)?,
        (Phase::LoggingIn(_), b'K') => {}
        (Phase::LoggingIn(_), b'Z') => {
            if let Some(parse) = &work.prepare {
                out.extend_from_slice(parse);
                *phase = Phase::Preparing;
                return Ok(Progress::More);
            }
            *phase = Phase::Idle;
            return Ok(Progress::Ready);
        }
        (Phase::Preparing, b'1') => {}
        (Phase::Preparing, b'Z') => {
            *phase = Phase::Idle;
            return Ok(Progress::Ready);
        }
        (Phase::Waiting(rows, bytes), b'D') => {
            *rows += 1;
            *bytes += body.len().saturating_sub(6);
        }
        (Phase::Waiting(..), b'T' | b'C' | b'1' | b'2') => {}
        (Phase::Waiting(rows, bytes), b'Z') => {
            if (*rows, *bytes) != (work.rows, work.rows * work.row_bytes) {
                return Err(format!("{rows} rows of {bytes} bytes in all, not {} of {}", work.rows, work.row_bytes));
            }
            *phase = Phase::Idle;
            return Ok(Progress::Answered);
        }
        (_, tag) => return Err(format!("a message '{}' out of place", tag.escape_ascii())),
    }
    Ok(Progress::More)
}

/// The client's side of a login.
//= pg18 protocol-message-formats#AuthenticationOk and the messages after it
fn authenticate(scram: &mut Option<ScramSha256>, work: &Work, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let (code, rest) = body.split_first_chunk::<4>().ok_or("a short authentication message")?;
    match u32::from_be_bytes(*code) {
        0 => {}
        3 => put(out, b'p', &[work.password.as_bytes(), b"\0"].concat()),
        5 => {
            let salt = rest.first_chunk::<4>().ok_or("md5 without a salt")?;
            let hash = md5_hash(work.user.as_bytes(), work.password.as_bytes(), *salt);
            put(out, b'p', &[hash.as_bytes(), b"\0"].concat());
        }
        10 => {
            let exchange = ScramSha256::new(work.password.as_bytes(), ChannelBinding::unsupported());
            let first = exchange.message();
            let length = (first.len() as u32).to_be_bytes();
            put(out, b'p', &[SCRAM_SHA_256.as_bytes(), b"\0", &length, first].concat());
            *scram = Some(exchange);
        }
        11 => {
            let exchange = scram.as_mut().ok_or("SCRAM goes on, but never began")?;
            exchange.update(rest).map_err(|error| error.to_string())?;
            put(out, b'p', exchange.message());
        }
        12 => {
            let exchange = scram.as_mut().ok_or("SCRAM ends, but never began")?;
            exchange.finish(rest).map_err(|error| error.to_string())?;
        }
        code => return Err(format!("authentication request {code}")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeServer;

    /// A client and the fake server, wired together without sockets.
    fn talk(style: Style, answer: Answer) -> Result<Vec<Progress>, String> {
        let work = Arc::new(Work::new("bench", "", "bench", style, answer));
        let (mut up, mut down, mut server) = (Vec::new(), Vec::new(), FakeServer::default());
        let mut client = Client::start(&work, &mut up);
        let mut seen = Vec::new();
        for _ in 0..6 {
            server.receive(&std::mem::take(&mut up), &mut down)?;
            let progress = client.receive(&std::mem::take(&mut down), &mut up)?;
            seen.push(progress);
            if client.is_idle() && progress != Progress::More {
                client.ask(&mut up);
            }
        }
        Ok(seen)
    }

    #[test]
    fn every_style_is_served() {
        for answer in [Answer::Small, Answer::Rows, Answer::Value] {
            for style in [Style::Simple, Style::Extended, Style::Prepared] {
                let seen = talk(style, answer).expect("served");
                let answered = seen.iter().filter(|one| **one == Progress::Answered).count();
                let expected = if style == Style::Prepared { 4 } else { 5 };
                assert_eq!(answered, expected, "{style:?} {answer:?}: {seen:?}");
            }
        }
    }

    #[test]
    fn wrong_answers_are_noticed() {
        let work = Arc::new(Work::new("bench", "", "bench", Style::Simple, Answer::Small));
        let mut out = Vec::new();
        let mut client = Client::start(&work, &mut out);
        assert_eq!(client.receive(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", &mut out), Ok(Progress::Ready));
        client.ask(&mut out);
        assert!(client.receive(b"C\0\0\0\x0dSELECT 0\0Z\0\0\0\x05I", &mut out).is_err(), "no row came");
        let mut client = Client::start(&work, &mut out);
        assert!(client.receive(b"E\0\0\0\x08oh!\0", &mut out).is_err());
        let mut client = Client::start(&work, &mut out);
        assert!(client.receive(b"D\0\0\0\x06\0\0", &mut out).is_err(), "a row before the login");
    }
}
