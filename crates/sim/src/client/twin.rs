//! The answers owed to a client: its twin, a PostgreSQL session of its own that gets the same messages, and the twin's
//! answers that the pooler has not sent yet.
//!
//! Where a cancel may interrupt a message, the twin gets the message only when an answer shows whether it did.

use wire::backend::{Fields, Status, tag};
use wire::frontend::tag as request;
use wire::{HEADER_LEN, Header};

use super::compare::{channel_first, is_of_another_client, is_same_error, is_same_news, is_unread, report_first, show};
use crate::backend::{Backend, Progress, Session};
use crate::course::Finding;
use crate::parameters::Values;
use crate::shared::Server;
use crate::statement::{Body, Statement};

#[derive(Debug)]
pub(super) struct Twin {
    /// Its server, which has no other session, and its role there.
    server: Server,
    login: String,
    /// What its pool's servers begin with beyond their login.
    begins: &'static [(&'static str, &'static str)],
    backend: Backend,
    /// Its answers that the pooler has not sent yet.
    expected: Vec<u8>,
    expected_at: usize,
    /// Messages that it has not got yet, because a cancel may interrupt them.
    undecided: Vec<(u8, Vec<u8>)>,
    /// It is in a statement that takes time; the next answer decides how that ends.
    at_work: bool,
    has_lost_block: bool,
    /// How many ReadyForQuery are owed.
    owed_ready: u32,
}

impl Twin {
    /// A session of `login` that begins with these parameters.
    pub(super) fn new(
        server: Server,
        login: &str,
        begins: &'static [(&'static str, &'static str)],
        values: Values,
    ) -> Twin {
        Twin {
            backend: Backend::new(&server, values, login, false, false).begun_with(begins),
            begins,
            server,
            login: login.to_owned(),
            expected: Vec::new(),
            expected_at: 0,
            undecided: Vec::new(),
            at_work: false,
            has_lost_block: false,
            owed_ready: 0,
        }
    }

    /// Starts again, with these parameters.
    pub(super) fn begin(&mut self, values: Values) {
        self.backend = Backend::new(&self.server, values, &self.login, false, false).begun_with(self.begins);
    }

    pub(super) fn session(&self) -> &Session {
        self.backend.session()
    }

    /// Sets the process id in its notifications.
    pub(super) fn set_pid(&mut self, pid: i32) {
        self.backend.set_pid(pid);
    }

    pub(super) fn status(&self) -> Status {
        self.backend.session().status()
    }

    /// How many bytes are owed, as far as known.
    pub(super) fn expected_len(&self) -> usize {
        self.expected.len() - self.expected_at
    }

    pub(super) fn undecided_len(&self) -> usize {
        self.undecided.len()
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.at_work
    }

    /// Every query and batch has its answer.
    pub(super) fn has_all_ready(&self) -> bool {
        self.owed_ready == 0
    }

    /// Something is owed.
    pub(super) fn owes(&self) -> bool {
        self.expected_at < self.expected.len() || !self.undecided.is_empty() || self.owed_ready > 0
    }

    /// The client sends a message. The twin answers it now, or when it is known whether a cancel has interrupted it.
    pub(super) fn send(&mut self, message: u8, body: &[u8], may_be_struck: bool) {
        self.owed_ready += u32::from(matches!(message, request::QUERY | request::SYNC | request::FUNCTION_CALL));
        if may_be_struck {
            self.undecided.push((message, body.to_vec()));
            return;
        }
        if self.expected_at == self.expected.len() {
            self.expected.clear();
            self.expected_at = 0;
        }
        let mut progress = self.backend.message(message, body, &mut self.expected);
        while let Progress::Works(_) = progress {
            progress = self.backend.wake(false, &mut self.expected);
        }
    }

    /// A ReadyForQuery has come.
    pub(super) fn note_ready(&mut self) {
        self.owed_ready = self.owed_ready.saturating_sub(1);
    }

    /// Runs the twin as far as this message shows whether a cancel has interrupted its work. `refused`: no server has
    /// seen the work. `may_strike`: a cancel may be on its way. Returns whether one has interrupted it.
    pub(super) fn decide(&mut self, message: u8, body: &[u8], refused: bool, may_strike: bool) -> bool {
        let is_cancelled = message == tag::ERROR
            && Fields::decode(body).code() == Some(b"57014")
            // A CopyFail of the client's own has the same code.
            && Fields::decode(body).message().is_some_and(|words| words.starts_with(b"cancel"))
            && may_strike;
        let waits = self.expected_at == self.expected.len();
        if refused && waits {
            self.take_back();
            return false;
        }
        let has_struck = is_cancelled && waits;
        if has_struck && !self.at_work && !self.is_struck_at_work() {
            self.take_back();
            return true;
        }
        while self.expected_at == self.expected.len() && (self.at_work || !self.undecided.is_empty()) {
            let mut out = std::mem::take(&mut self.expected);
            out.clear();
            self.expected_at = 0;
            if std::mem::take(&mut self.at_work) {
                let progress = self.backend.wake(is_cancelled, &mut out);
                self.at_work = matches!(progress, Progress::Works(_));
            } else if is_cancelled && self.backend.is_in_copy() {
                self.backend.wake(true, &mut out);
            } else {
                let (message, body) = self.undecided.remove(0);
                self.at_work = matches!(self.backend.message(message, &body, &mut out), Progress::Works(_));
            }
            self.expected = out;
        }
        has_struck
    }

    /// If a cancel error is the first answer to a unit: whether the unit was running, not waiting for a server.
    fn is_struck_at_work(&self) -> bool {
        if self.backend.is_in_copy() {
            return true;
        }
        // A unit that begins with a quick message is cancelled either before it, or after its answer.
        const QUICK: [u8; 5] =
            [request::PARSE, request::BIND, request::DESCRIBE, request::CLOSE, request::FUNCTION_CALL];
        let Some((request::QUERY, body)) = self.undecided.first() else {
            return self.undecided.first().is_some_and(|(message, _)| !QUICK.contains(message));
        };
        let text = String::from_utf8_lossy(&body[..body.len() - 1]);
        matches!(Statement::parse(&text).body, Body::Sleep { .. })
    }

    /// A unit was cancelled before any server saw it: an error, and the end of the query or batch.
    fn take_back(&mut self) {
        let ends = |message: u8| matches!(message, request::QUERY | request::FUNCTION_CALL | request::SYNC);
        let end = self.undecided.iter().position(|(message, _)| ends(*message));
        let end = end.map_or(self.undecided.len(), |at| at + 1);
        self.undecided.drain(..end);
        self.expected.clear();
        self.expected_at = 0;
        let code = wire::SqlState(*b"57014");
        let error = wire::backend::ErrorResponse { severity: "ERROR", code, message: "", detail: None, hint: None };
        error.encode(&mut self.expected);
        // In a block it is the first unit, of a block that no server has begun: that is lost.
        let is_in_block = self.status() != Status::Idle;
        if is_in_block {
            self.backend.fail_block();
        }
        self.has_lost_block |= is_in_block;
        let status = if is_in_block { Status::Failed } else { Status::Idle };
        wire::backend::encode_ready(&mut self.expected, status);
    }

    /// Whether its block was lost since it was asked last, as a unit in it was cancelled before any server saw it.
    pub(super) fn take_lost_block(&mut self) -> bool {
        std::mem::take(&mut self.has_lost_block)
    }

    /// Compares a message with the one owed next; the client's number is for the report.
    /// `is_in_lost_block`: the pooler answers, which parses nothing.
    pub(super) fn compare(
        &mut self,
        number: u32,
        message: u8,
        body: &[u8],
        is_in_lost_block: bool,
    ) -> Result<(), Finding> {
        match message {
            tag::PARAMETER_STATUS => report_first(&mut self.expected[self.expected_at..]),
            tag::NOTIFICATION => channel_first(&mut self.expected[self.expected_at..], body),
            _ => {}
        }
        let rest = &self.expected[self.expected_at..];
        let header = Header::parse(rest).map_err(|error| (11, format!("the twin's framing: {error}")))?;
        let Some(header) = header else {
            return Err((2, format!("{} came and nothing is owed", show(message, body))));
        };
        let expected = &rest[HEADER_LEN..header.total_len()];
        let unread = is_in_lost_block && message == tag::ERROR && is_unread(body, expected);
        let same = unread
            || message == header.tag
                && (body == expected
                    || is_same_error(message, body, expected)
                    || is_same_news(message, body, expected));
        if !same {
            let (found, wanted) = (show(message, body), show(header.tag, expected));
            let strange = is_of_another_client(body, number);
            return Err((if strange { 2 } else { 11 }, format!("client {number} got {found} instead of {wanted}")));
        }
        self.expected_at += header.total_len();
        Ok(())
    }

    /// All is answered: gives it the messages that have no answer, such as copy data after the end of the COPY.
    pub(super) fn catch_up(&mut self) {
        for (message, body) in std::mem::take(&mut self.undecided) {
            self.backend.message(message, &body, &mut self.expected);
        }
    }

    /// It is no longer known what is owed.
    pub(super) fn forget(&mut self) {
        self.expected.clear();
        self.expected_at = 0;
        self.undecided.clear();
        self.at_work = false;
    }

    /// Whether a request had failed, and its server was lost between the error and the end of the answer: the client
    /// gets no second error, and no transaction is left to roll back.
    pub(super) fn is_failure_forgotten(&self, message: u8, body: &[u8]) -> bool {
        let (expected, has_changed) = self.expected_behind_reports();
        let ends = expected.starts_with(b"Z\0\0\0\x05E") || has_changed && expected.starts_with(b"Z\0\0\0\x05I");
        message == tag::READY_FOR_QUERY && body == b"I" && ends
    }

    /// Whether a request that cannot fail shows that the block has failed, whose server was lost before it; or the settings of a block that had failed
    /// before are not reported, since they are undone with it.
    pub(super) fn is_block_lost(&self, message: u8, body: &[u8]) -> bool {
        let expected = &self.expected[self.expected_at..];
        let is_failed = message == tag::READY_FOR_QUERY && body == b"E";
        // Before that, settings of the block are reported as they were.
        let shows = message == tag::PARAMETER_STATUS || is_failed;
        let (behind_reports, has_changed) = self.expected_behind_reports();
        // The twin may not have got the Sync yet.
        let may_be_next = behind_reports.is_empty() || behind_reports.starts_with(b"Z\0\0\0\x05E");
        let is_unreported = is_failed && has_changed && may_be_next;
        shows && expected.starts_with(b"Z\0\0\0\x05T") || is_unreported
    }

    /// The answers that are owed behind the settings that are reported first, and whether there are such.
    fn expected_behind_reports(&self) -> (&[u8], bool) {
        let mut expected = &self.expected[self.expected_at..];
        while let Ok(Some(header)) = Header::parse(expected)
            && header.tag == tag::PARAMETER_STATUS
        {
            expected = &expected[header.total_len()..];
        }
        (expected, expected.len() < self.expected_len())
    }

    /// Whether it has state that cannot be at another server.
    pub(super) fn has_fixed_state(&self) -> bool {
        self.backend.moved().is_err()
    }

    /// Continues at another server, or in the block whose server was lost.
    ///
    /// # Errors
    /// It had state that cannot be there.
    pub(super) fn move_on(&mut self, is_in_block: bool) -> Result<(), String> {
        self.backend = if is_in_block { self.backend.in_lost_block()? } else { self.backend.moved()? };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::DEFAULTS;

    #[test]
    fn an_answer_is_owed_until_it_has_come() {
        let mut twin = Twin::new(Server::default(), "user", &[], DEFAULTS);
        assert!(!twin.owes());
        twin.send(request::SYNC, b"", false);
        assert!(twin.owes() && !twin.has_all_ready());
        assert_eq!(twin.compare(1, tag::READY_FOR_QUERY, b"T", false).map_err(|(invariant, _)| invariant), Err(11));
        twin.note_ready();
        assert_eq!(twin.compare(1, tag::READY_FOR_QUERY, b"I", false), Ok(()));
        assert!(!twin.owes());
        assert_eq!(twin.compare(1, tag::READY_FOR_QUERY, b"I", false).map_err(|(invariant, _)| invariant), Err(2));
    }
}
