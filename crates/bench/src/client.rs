//! One client of the load: logs in, prepares what is to be prepared, then asks and checks every answer.
//!
//! Promises: an answer with the wrong number of rows or bytes, an error, or a message out of place fails the client,
//! and with it the measurement. The machine is pure: bytes in, bytes out.
//! Does not: have more than one question under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::{Frames, frontend, put};
use postgres_protocol::authentication::md5_hash;
use postgres_protocol::authentication::sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256};

use crate::fake::Answer;
use crate::setup::USER;
use crate::transaction::Script;

/// How a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One Query message.
    Simple,
    /// Parse, Bind, Describe, Execute, Sync with the unnamed statement: what libpq sends for a query with parameters.
    Extended,
    /// Bind, Describe, Execute, Sync with a statement that was prepared under a name at login.
    Prepared,
    /// One Query message with tags in a comment, as frameworks write them.
    Tagged,
    /// One Query message with a literal and a comment that no other has.
    Unique,
    /// As `Simple`, after two settings that are the same for all clients.
    SameSettings,
    /// As `Simple`, after two settings with values that no other client has.
    OwnSettings,
    /// A transaction on pgbench's tables of a real PostgreSQL, statement by statement; the scale of the tables.
    Transaction(Script, u32),
}

/// What a tagged text is tagged with: the rules of [`crate::setup`] look for them.
pub const TAGS: &str = "application:web,controller:orders,action:index";

/// What every client of a load has in common.
#[derive(Debug)]
pub struct Work {
    login: Vec<u8>,
    user: String,
    password: String,
    style: Style,
    prepare: Option<Vec<u8>>,
    request: Vec<u8>,
    /// Of the next text or client that is to be like no other.
    number: AtomicU64,
    rows: usize,
    row_bytes: usize,
    /// An error of a limit is an answer.
    may_be_refused: bool,
}

impl Work {
    pub fn new(user: &str, password: &str, database: &str, style: Style, answer: Answer) -> Work {
        let sql = answer.sql();
        let (rows, row_bytes) = answer.shape();
        let mut request = Vec::new();
        let mut prepare = None;
        match style {
            Style::Simple | Style::SameSettings | Style::OwnSettings => query(&mut request, sql),
            Style::Tagged => query(&mut request, &format!("{sql} /*{TAGS}*/")),
            // Each is written when it is asked.
            Style::Unique | Style::Transaction(..) => {}
            Style::Extended => {
                put(&mut request, b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"]);
                bind_and_execute(&mut request, "");
            }
            Style::Prepared => {
                let mut parse = Vec::new();
                put(&mut parse, b'P', &[b"P0_1\0", sql.as_bytes(), b"\0\0\0"]);
                put(&mut parse, b'S', &[]);
                prepare = Some(parse);
                bind_and_execute(&mut request, "P0_1");
            }
        }
        let login = frontend::startup(&[("user", user), ("database", database), ("application_name", "bench")]);
        let (user, password) = (user.to_owned(), password.to_owned());
        let number = AtomicU64::new(0);
        Work { login, user, password, style, prepare, request, number, rows, row_bytes, may_be_refused: false }
    }

    /// The same, where limits may refuse a question or a login: it is counted apart from those that are answered.
    #[must_use]
    pub fn may_be_refused(self) -> Work {
        Work { may_be_refused: true, ..self }
    }

    /// One text, asked by clients who call themselves so, with one row of so many bytes for an answer.
    pub fn asking(application: &str, database: &str, sql: &str, row_bytes: usize) -> Work {
        let mut request = Vec::new();
        query(&mut request, sql);
        let login = frontend::startup(&[("user", USER), ("database", database), ("application_name", application)]);
        let (user, password, style, number) = (USER.to_owned(), String::new(), Style::Simple, AtomicU64::new(0));
        Work { login, user, password, style, prepare: None, request, number, rows: 1, row_bytes, may_be_refused: false }
    }

    fn number(&self) -> u64 {
        self.number.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes what a client sends once, when it is logged in; returns how many ReadyForQuery that leads to.
    fn write_first(&self, out: &mut Vec<u8>) -> usize {
        let own = match self.style {
            Style::OwnSettings => self.number(),
            Style::SameSettings => 0,
            _ => {
                out.extend_from_slice(self.prepare.as_deref().unwrap_or_default());
                return self.prepare.iter().len();
            }
        };
        query(out, &format!("SET work_mem = '{}kB'", 1000 + own));
        query(out, &format!("SET statement_timeout = '{}s'", 1000 + own));
        2
    }

    fn write_request(&self, out: &mut Vec<u8>) {
        if self.style != Style::Unique {
            return out.extend_from_slice(&self.request);
        }
        // Of one length, so that a transaction costs what the others cost.
        let number = self.number();
        query(out, &format!("select 'x{number:010}' /* {number:010} */"));
    }

    /// Begins a question: writes it, and says what is waited for.
    fn begin(&self, out: &mut Vec<u8>) -> Phase {
        let Style::Transaction(script, scale) = self.style else {
            self.write_request(out);
            return Phase::Waiting(0, 0);
        };
        let number = self.number();
        query(out, &script.sql(0, number, scale));
        Phase::Within { step: 0, rows: 0, number }
    }

    /// A step of a transaction is answered: the next one, or the end. Errors: not as many rows as it must have.
    fn next_step(&self, step: u8, rows: usize, number: u64, out: &mut Vec<u8>) -> Result<Phase, String> {
        let Style::Transaction(script, scale) = self.style else { return Ok(Phase::Idle) };
        if rows != script.rows(step) {
            return Err(format!("step {step} of {} had {rows} rows", script.name()));
        }
        let next = step + 1;
        if next == script.steps() {
            return Ok(Phase::Idle);
        }
        query(out, &script.sql(next, number, scale));
        Ok(Phase::Within { step: next, rows: 0, number })
    }
}

fn query(out: &mut Vec<u8>, sql: &str) {
    put(out, b'Q', &[sql.as_bytes(), b"\0"]);
}

/// Bind, Describe, Execute and Sync for a statement, with the unnamed portal and no parameters.
fn bind_and_execute(out: &mut Vec<u8>, statement: &str) {
    put(out, b'B', &[b"\0", statement.as_bytes(), b"\0\0\0\0\0\0\0"]);
    put(out, b'D', &[b"P\0"]);
    put(out, b'E', &[b"\0\0\0\0\0"]);
    put(out, b'S', &[]);
}

enum Phase {
    LoggingIn(Option<ScramSha256>),
    /// ReadyForQuery that are still to come.
    Preparing(usize),
    Idle,
    /// Rows and bytes of them that have arrived.
    Waiting(usize, usize),
    /// A limit has refused it.
    Refused,
    /// In the transaction of this number: the step that was asked, and the rows that it has had.
    Within {
        step: u8,
        rows: usize,
        number: u64,
    },
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
    /// A limit was in the way.
    Refused,
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
        self.phase = self.work.begin(out);
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
        (Phase::Waiting(0, 0), b'E') if work.may_be_refused && is_of_a_limit(body) => *phase = Phase::Refused,
        (Phase::Refused, b'Z') => {
            *phase = Phase::Idle;
            return Ok(Progress::Refused);
        }
        // The pooler closes it; nothing more comes.
        (Phase::LoggingIn(_), b'E') if work.may_be_refused && is_of_a_limit(body) => return Ok(Progress::Refused),
        (_, b'E') => return Err(format!("refused: {}", body.escape_ascii())),
        (_, b'S' | b'N') => {}
        (Phase::LoggingIn(scram), b'R') => authenticate(scram, work, body, out)?,
        (Phase::LoggingIn(_), b'K') => {}
        (Phase::LoggingIn(_), b'Z') => {
            let rounds = work.write_first(out);
            if rounds > 0 {
                *phase = Phase::Preparing(rounds);
                return Ok(Progress::More);
            }
            *phase = Phase::Idle;
            return Ok(Progress::Ready);
        }
        (Phase::Preparing(_), b'1' | b'C') => {}
        (Phase::Preparing(1), b'Z') => {
            *phase = Phase::Idle;
            return Ok(Progress::Ready);
        }
        (Phase::Preparing(left), b'Z') => *left -= 1,
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
        (Phase::Within { rows, .. }, b'D') => *rows += 1,
        (Phase::Within { .. }, b'T' | b'C') => {}
        (Phase::Within { step, rows, number }, b'Z') => {
            *phase = work.next_step(*step, *rows, *number, out)?;
            let over = matches!(phase, Phase::Idle);
            return Ok(if over { Progress::Answered } else { Progress::More });
        }
        (_, tag) => return Err(format!("a message '{}' out of place", tag.escape_ascii())),
    }
    Ok(Progress::More)
}

/// Whether an error says configuration_limit_exceeded.
//= pg18 protocol-error-fields#the field C
fn is_of_a_limit(body: &[u8]) -> bool {
    body.split(|byte| *byte == 0).any(|field| field == b"C53400")
}

/// The client's side of a login.
//= pg18 protocol-message-formats#AuthenticationOk and the messages after it
fn authenticate(scram: &mut Option<ScramSha256>, work: &Work, body: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let (code, rest) = body.split_first_chunk::<4>().ok_or("a short authentication message")?;
    match u32::from_be_bytes(*code) {
        0 => {}
        3 => put(out, b'p', &[work.password.as_bytes(), b"\0"]),
        5 => {
            let salt = rest.first_chunk::<4>().ok_or("md5 without a salt")?;
            let hash = md5_hash(work.user.as_bytes(), work.password.as_bytes(), *salt);
            put(out, b'p', &[hash.as_bytes(), b"\0"]);
        }
        10 => {
            let exchange = ScramSha256::new(work.password.as_bytes(), ChannelBinding::unsupported());
            let first = exchange.message();
            let length = (first.len() as u32).to_be_bytes();
            put(out, b'p', &[SCRAM_SHA_256.as_bytes(), b"\0", &length, first]);
            *scram = Some(exchange);
        }
        11 => {
            let exchange = scram.as_mut().ok_or("SCRAM goes on, but never began")?;
            exchange.update(rest).map_err(|error| error.to_string())?;
            put(out, b'p', &[exchange.message()]);
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
            for style in [Style::Simple, Style::Extended, Style::Prepared, Style::SameSettings] {
                let seen = talk(style, answer).expect("served");
                let answered = seen.iter().filter(|one| **one == Progress::Answered).count();
                let expected = if matches!(style, Style::Prepared | Style::SameSettings) { 4 } else { 5 };
                assert_eq!(answered, expected, "{style:?} {answer:?}: {seen:?}");
            }
        }
    }

    #[test]
    fn only_who_expects_refusals_takes_one_for_an_answer() {
        let error = b"E\0\0\0\x0fC53400\0M\0\0\0Z\0\0\0\x05I";
        let asked = |work: Work| {
            let (work, mut out) = (Arc::new(work), Vec::new());
            let mut client = Client::start(&work, &mut out);
            client.receive(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", &mut out).expect("logged in");
            client.ask(&mut out);
            client.receive(error, &mut out)
        };
        let work = || Work::new("bench", "", "bench", Style::Simple, Answer::Small);
        assert!(asked(work()).is_err());
        assert_eq!(asked(work().may_be_refused()), Ok(Progress::Refused));
        let logs_in =
            |work: Work| Client::start(&Arc::new(work), &mut Vec::new()).receive(&error[..16], &mut Vec::new());
        assert!(logs_in(work()).is_err());
        assert_eq!(logs_in(work().may_be_refused()), Ok(Progress::Refused));
    }

    #[test]
    fn texts_and_settings_differ_where_they_are_to() {
        let work = |style| Work::new("bench", "", "bench", style, Answer::Small);
        let first = |work: &Work| {
            let mut out = Vec::new();
            assert_eq!(work.write_first(&mut out), 2);
            out
        };
        let (same, own) = (work(Style::SameSettings), work(Style::OwnSettings));
        assert_eq!(first(&same), first(&same));
        assert_ne!(first(&own), first(&own));
        let unique = work(Style::Unique);
        let request = |work: &Work| {
            let mut out = Vec::new();
            work.write_request(&mut out);
            out
        };
        let (one, other) = (request(&unique), request(&unique));
        assert_eq!(one.len(), other.len());
        assert_eq!(&other[5..], b"select 'x0000000001' /* 0000000001 */\0");
        assert_ne!(one, other);
    }

    #[test]
    fn a_transaction_is_asked_step_by_step() {
        let work = Arc::new(Work::new("bench", "", "bench", Style::Transaction(Script::TpcB, 1), Answer::Small));
        let mut out = Vec::new();
        let mut client = Client::start(&work, &mut out);
        assert_eq!(client.receive(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", &mut out), Ok(Progress::Ready));
        client.ask(&mut out);
        let done = b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05T";
        for step in 0..7 {
            if step == 2 {
                let mut early = Client {
                    work: Arc::clone(&work),
                    phase: Phase::Within { step, rows: 0, number: 0 },
                    frames: Frames::default(),
                };
                assert!(early.receive(done, &mut out).is_err(), "the SELECT has a row");
                assert_eq!(client.receive(b"D\0\0\0\x06\0\0", &mut out), Ok(Progress::More));
            }
            out.clear();
            let expected = if step == 6 { Progress::Answered } else { Progress::More };
            assert_eq!(client.receive(done, &mut out), Ok(expected));
            assert_eq!(out.is_empty(), step == 6);
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
