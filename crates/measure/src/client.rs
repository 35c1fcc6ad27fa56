//! One client of a load: logs in, then asks and checks every answer.
//!
//! Promises: an answer with the wrong number of rows or bytes, an error, or a message out of place fails the client, and with it the
//! measurement. Pure: bytes in, bytes out.
//! Does not: have more than one question under way.

use std::sync::Arc;

use client::{Frames, Login as _, put, refusal};

use crate::encryption::{Channel, decrypt};
use crate::login::Login;
use crate::work::{Awaited, Work};

enum Phase {
    LoggingIn(Login),
    /// ReadyForQuery that are still to come before the first question.
    Preparing(usize),
    Idle,
    Asking(Awaited),
    /// A limit has refused the question.
    Refused,
}

/// What receiving bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing that matters to the load; there may be something to send.
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
    channel: Channel,
}

impl Client {
    /// A new client and its startup packet.
    pub fn start(work: &Arc<Work>, out: &mut Vec<u8>) -> Self {
        let channel = Channel::begin(work.encryption.as_ref(), &work.login, out);
        let phase = Phase::LoggingIn(Login::new(&work.account));
        Self { work: Arc::clone(work), phase, frames: Frames::default(), channel }
    }

    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle)
    }

    /// Whether its TLS goes on with an earlier session.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.channel.is_resumed()
    }

    /// Asks its question. Only for an idle client.
    ///
    /// # Errors
    /// Its TLS has failed.
    pub fn ask(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        debug_assert!(self.is_idle(), "one question at a time");
        if let Channel::Encrypted(_) = self.channel {
            let mut plain = Vec::new();
            self.phase = Phase::Asking(self.work.begin(&mut plain));
            return self.channel.send(&plain, out);
        }
        self.phase = Phase::Asking(self.work.begin(out));
        Ok(())
    }

    /// Says that it leaves.
    ///
    /// # Errors
    /// Its TLS has failed.
    pub fn leave(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let mut plain = Vec::new();
        put(&mut plain, b'X', &[]);
        self.channel.send(&plain, out)
    }

    /// Takes what arrived.
    ///
    /// # Errors
    /// Whatever was not the right answer, in words.
    pub fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, String> {
        let work = Arc::clone(&self.work);
        match (&mut self.channel, &work.encryption) {
            (channel @ Channel::Asked, Some(encryption)) => {
                channel.answered(bytes, encryption, &work.login, out)?;
                Ok(Progress::More)
            }
            (Channel::Encrypted(connection), _) => {
                let (mut plain, mut said) = (Vec::new(), Vec::new());
                decrypt(connection, bytes, &mut plain, out)?;
                let progress = self.hear(&plain, &mut said)?;
                self.channel.send(&said, out)?;
                Ok(progress)
            }
            _ => self.hear(bytes, out),
        }
    }

    fn hear(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, String> {
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

//= pg18 protocol-flow#PROTOCOL-FLOW-SIMPLE-QUERY
fn message(phase: &mut Phase, work: &Work, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<Progress, String> {
    match (&mut *phase, tag) {
        (_, b'E') => return refused(phase, work, body),
        (_, b'S' | b'N') => {}
        (Phase::LoggingIn(login), b'R') => login.step(body, out)?,
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
        (Phase::Refused, b'Z') => {
            *phase = Phase::Idle;
            return Ok(Progress::Refused);
        }
        (Phase::Asking(Awaited::Answer(rows, bytes)), b'D') => {
            *rows += 1;
            *bytes += body.len().saturating_sub(6);
        }
        (Phase::Asking(Awaited::Answer(..)), b'T' | b'C' | b'1' | b'2') => {}
        (Phase::Asking(Awaited::Answer(rows, bytes)), b'Z') => {
            work.check(*rows, *bytes)?;
            *phase = Phase::Idle;
            return Ok(Progress::Answered);
        }
        (Phase::Asking(Awaited::Step { rows, .. }), b'D') => *rows += 1,
        (Phase::Asking(Awaited::Step { .. }), b'T' | b'C') => {}
        (Phase::Asking(Awaited::Step { step, rows, draw }), b'Z') => {
            let next = work.next_step(*step, *rows, *draw, out)?;
            let progress = if next.is_none() { Progress::Answered } else { Progress::More };
            *phase = next.map_or(Phase::Idle, Phase::Asking);
            return Ok(progress);
        }
        (_, tag) => return Err(format!("a message '{}' out of place", tag.escape_ascii())),
    }
    Ok(Progress::More)
}

/// An ErrorResponse. Errors: this load takes none for an answer.
fn refused(phase: &mut Phase, work: &Work, body: &[u8]) -> Result<Progress, String> {
    if !work.may_be_refused || !is_of_a_limit(body) {
        return Err(refusal(body));
    }
    match phase {
        Phase::Asking(Awaited::Answer(0, 0)) => {
            *phase = Phase::Refused;
            Ok(Progress::More)
        }
        // The pooler closes it; nothing more comes.
        Phase::LoggingIn(_) => Ok(Progress::Refused),
        _ => Err(refusal(body)),
    }
}

/// Whether an error says configuration_limit_exceeded.
//= pg18 protocol-error-fields#the field C
fn is_of_a_limit(body: &[u8]) -> bool {
    body.split(|byte| *byte == 0).any(|field| field == b"C53400")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::login::Account;
    use crate::script::{PGBENCH, Script};
    use crate::work::{First, Question, Shape, Transaction, query};

    fn account() -> Account {
        Account::new("u", None, "d", "a")
    }

    fn transactions(script: Script) -> Work {
        let transaction = Transaction { script, tables: PGBENCH, scale: 1, seed: 1 };
        Work::new(account(), First::Nothing, Question::Transaction(transaction))
    }

    fn questions() -> Work {
        let mut request = Vec::new();
        query(&mut request, "select 1");
        Work::new(account(), First::Nothing, Question::Bytes(request, Shape { rows: 1, row_bytes: 1 }))
    }

    /// A client that is logged in and has asked.
    fn asking(work: Work) -> (Client, Vec<u8>) {
        let mut out = Vec::new();
        let mut client = Client::start(&Arc::new(work), &mut out);
        out.clear();
        assert_eq!(client.receive(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I", &mut out), Ok(Progress::Ready));
        client.ask(&mut out).expect("no TLS");
        (client, out)
    }

    fn answer(rows: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..rows).for_each(|_| put(&mut bytes, b'D', &[&[0, 0]]));
        put(&mut bytes, b'C', &[b"SELECT 1\0"]);
        put(&mut bytes, b'Z', &[b"I"]);
        bytes
    }

    #[test]
    fn a_transaction_is_seven_questions() {
        let (mut client, mut out) = asking(transactions(Script::TpcB));
        for step in 0..7 {
            assert_eq!(out.first(), Some(&b'Q'), "step {step}");
            out.clear();
            let expected = if step == 6 { Progress::Answered } else { Progress::More };
            assert_eq!(client.receive(&answer(usize::from(step == 2)), &mut out), Ok(expected));
        }
        assert!(out.is_empty());
    }

    #[test]
    fn wrong_answers_are_noticed() {
        for rows in [0, 2] {
            let (mut client, mut out) = asking(transactions(Script::Select));
            assert!(client.receive(&answer(rows), &mut out).is_err(), "{rows} rows");
            let (mut client, mut out) = asking(questions());
            assert!(client.receive(&answer(rows), &mut out).is_err(), "{rows} rows");
        }
        let (mut client, mut out) = asking(transactions(Script::Select));
        let mut error = Vec::new();
        put(&mut error, b'E', &[b"C57014\0Mcanceled\0\0"]);
        assert_eq!(client.receive(&error, &mut out), Err("57014: canceled".to_owned()));
    }

    #[test]
    fn only_who_expects_refusals_takes_one_for_an_answer() {
        let error = b"E\0\0\0\x0fC53400\0M\0\0\0Z\0\0\0\x05I";
        let asked = |work: Work| {
            let (mut client, mut out) = asking(work);
            client.receive(error, &mut out)
        };
        assert_eq!(asked(questions().may_be_refused()), Ok(Progress::Refused));
        assert!(asked(questions()).is_err());
        let logs_in =
            |work: Work| Client::start(&Arc::new(work), &mut Vec::new()).receive(&error[..16], &mut Vec::new());
        assert_eq!(logs_in(questions().may_be_refused()), Ok(Progress::Refused));
        assert!(logs_in(questions()).is_err());
    }
}
