//! One client of a load: logs in, then asks statement by statement and checks every answer.
//!
//! Promises: an error, a missing row or a message out of place fails the client, and with it the sample. Pure: bytes in, bytes
//! out. Does not have more than one question under way.

use std::rc::Rc;

use client::{Frames, Login as _, refusal};

use crate::login::{Account, Login};
use crate::scripts::{Draw, Script};

enum Phase {
    LoggingIn(Login),
    Idle,
    /// The step under way, the rows it has had, and the values of the transaction.
    Asking(u8, u32, Draw<i64>),
}

/// What receiving bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing that matters to the load; there may be something to send.
    More,
    LoggedIn,
    /// A transaction has been answered in full.
    Done,
}

pub(crate) struct Client {
    script: Script,
    phase: Phase,
    frames: Frames,
}

impl Client {
    /// A new client and its startup packet.
    pub(crate) fn start(account: &Rc<Account>, script: Script, out: &mut Vec<u8>) -> Self {
        Self { script, phase: Phase::LoggingIn(Login::start(account, out)), frames: Frames::default() }
    }

    /// Begins a transaction. Only for an idle client.
    pub(crate) fn ask(&mut self, draw: Draw<i64>, out: &mut Vec<u8>) {
        debug_assert!(matches!(self.phase, Phase::Idle), "one question at a time");
        self.phase = Phase::Asking(0, 0, draw);
        self.script.ask(0, &draw, out);
    }

    /// Takes what arrived.
    ///
    /// # Errors
    /// Whatever was not the right answer, in words.
    pub(crate) fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Progress, String> {
        let mut progress = Progress::More;
        let (phase, script) = (&mut self.phase, self.script);
        self.frames.feed(bytes, |tag, body| {
            let step = message(phase, script, tag, body, out)?;
            if step != Progress::More {
                progress = step;
            }
            Ok(())
        })?;
        Ok(progress)
    }
}

//= pg18 protocol-flow#PROTOCOL-FLOW-SIMPLE-QUERY
fn message(phase: &mut Phase, script: Script, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<Progress, String> {
    match (&mut *phase, tag) {
        (_, b'E') => return Err(refusal(body)),
        (_, b'S' | b'N') => {}
        (Phase::LoggingIn(login), b'R') => login.step(body, out)?,
        (Phase::LoggingIn(_), b'K') => {}
        (Phase::LoggingIn(_), b'Z') => {
            *phase = Phase::Idle;
            return Ok(Progress::LoggedIn);
        }
        (Phase::Asking(_, rows, _), b'D') => *rows += 1,
        (Phase::Asking(..), b'T' | b'C') => {}
        (Phase::Asking(step, rows, draw), b'Z') => {
            if *rows != script.rows(*step) {
                return Err(format!("step {step} of {} had {rows} rows", script.name()));
            }
            let next = *step + 1;
            if next == script.steps() {
                *phase = Phase::Idle;
                return Ok(Progress::Done);
            }
            script.ask(next, draw, out);
            *phase = Phase::Asking(next, 0, *draw);
        }
        (_, tag) => return Err(format!("a message '{}' out of place", tag.escape_ascii())),
    }
    Ok(Progress::More)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripts::Dice;
    use client::put;

    fn client(script: Script) -> (Client, Vec<u8>) {
        let mut out = Vec::new();
        let account = Rc::new(Account::new("u", None, "d"));
        let mut client = Client::start(&account, script, &mut out);
        let mut hello = Vec::new();
        put(&mut hello, b'R', &[&[0; 4]]);
        put(&mut hello, b'Z', &[b"I"]);
        out.clear();
        assert_eq!(client.receive(&hello, &mut out), Ok(Progress::LoggedIn));
        (client, out)
    }

    fn answer(rows: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        (0..rows).for_each(|_| put(&mut bytes, b'D', &[&[0, 0]]));
        put(&mut bytes, b'C', &[b"SELECT 1\0"]);
        put(&mut bytes, b'Z', &[b"I"]);
        bytes
    }

    #[test]
    fn a_transaction_is_seven_questions() {
        let (mut client, mut out) = client(Script::TpcB);
        client.ask(Dice::new(1, 1).draw(), &mut out);
        for step in 0..7 {
            assert_eq!(out.first(), Some(&b'Q'), "step {step}");
            out.clear();
            let rows = u32::from(step == 2);
            let expected = if step == 6 { Progress::Done } else { Progress::More };
            assert_eq!(client.receive(&answer(rows), &mut out), Ok(expected));
        }
        assert!(out.is_empty());
    }

    #[test]
    fn wrong_answers_are_noticed() {
        for rows in [0, 2] {
            let (mut client, mut out) = client(Script::Select);
            client.ask(Dice::new(1, 1).draw(), &mut out);
            assert!(client.receive(&answer(rows), &mut out).is_err());
        }
        let (mut client, mut out) = client(Script::Select);
        client.ask(Dice::new(1, 1).draw(), &mut out);
        let mut error = Vec::new();
        put(&mut error, b'E', &[b"C57014\0Mcanceled\0\0"]);
        assert_eq!(client.receive(&error, &mut out), Err("57014: canceled".to_owned()));
    }
}
