//! Compares what comes with what the twin says.

use wire::backend::{Fields, Notification, Status, tag};
use wire::frontend::{self, tag as request};
use wire::{HEADER_LEN, Header};

use super::{Circumstances, Client, Phase};
use crate::backend::Progress;
use crate::census::Census;
use crate::course::Finding;
use crate::plan::Plan;
use crate::statement::{Body, Statement};

const CANCELLED: &[u8] = b"57014";

impl Client {
    /// Deals with every whole message that has come.
    pub(super) fn progress(&mut self, facts: Circumstances, plan: &Plan, census: &mut Census) -> Result<(), Finding> {
        let inbox_before = self.inbox.len();
        if matches!(self.phase, Phase::Starting { asked_for_tls: true })
            && !self.inbox.is_empty()
            && self.inbox[0] != b'E'
        {
            self.encryption_answered(plan)?;
        }
        let inbox = std::mem::take(&mut self.inbox);
        let mut at = 0;
        if matches!(self.phase, Phase::Hostile { .. }) {
            // What was expected before the rubbish and what comes after it is not told apart.
            return Ok(());
        }
        loop {
            let rest = &inbox[at..];
            let header = Header::parse(rest).map_err(|error| (11, format!("broken framing: {error}")))?;
            let Some(header) = header.filter(|header| rest.len() >= header.total_len()) else { break };
            let body = &rest[HEADER_LEN..header.total_len()];
            self.message(header.tag, body, facts, plan, census)?;
            at += header.total_len();
        }
        self.inbox = inbox;
        self.inbox.drain(..at);
        if inbox_before > self.inbox.len() && self.is_owed() {
            self.owed_since = Some(facts.now);
        }
        Ok(())
    }

    fn message(
        &mut self,
        message: u8,
        body: &[u8],
        facts: Circumstances,
        plan: &Plan,
        census: &mut Census,
    ) -> Result<(), Finding> {
        if let Some(told) = &self.told {
            let (number, came) = (self.number, show(message, body));
            return Err((11, format!("client {number} got {came} after FATAL {told}")));
        }
        if message == tag::NOTICE {
            self.pass_notice();
            return Ok(());
        }
        if message == tag::NOTIFICATION && self.is_strangers_news(body) {
            census.strangers_heard += 1;
            census.strangers_owed += u64::from(self.hear_news(body));
            return Ok(());
        }
        if matches!(self.phase, Phase::Hostile { .. }) {
            return self.after_rubbish(body);
        }
        if message == tag::ERROR && Fields::decode(body).is_fatal() {
            return self.fatal(body, facts, plan, census);
        }
        if !matches!(self.phase, Phase::Ready) {
            if message == tag::ERROR {
                return Err((8, "an error during login must be FATAL".to_owned()));
            }
            return self.login_message(message, body, plan);
        }
        census.messages += 1;
        if self.console.is_some() {
            return self.console_message(message, body);
        }
        if message == tag::READY_FOR_QUERY {
            census.queries += 1;
            self.owed_ready = self.owed_ready.saturating_sub(1);
        }
        if self.lost || self.is_loss(message, body, facts, plan) {
            return self.after_loss(message, body, census);
        }
        let refused = self.is_turned_away(message, body, census)?;
        self.decide(message, body, refused);
        self.compare(message, body)?;
        if self.owed_ready == 0 {
            self.setting = false;
            // What has no answer, as copy data after the COPY has ended.
            for (message, body) in std::mem::take(&mut self.undecided) {
                self.twin.message(message, &body, &mut self.expected);
            }
        }
        Ok(())
    }

    /// Runs the twin as far as the message at hand tells what became of the work that a cancel may have struck.
    /// `refused`: that was nothing, since no server has seen it.
    fn decide(&mut self, message: u8, body: &[u8], refused: bool) {
        let struck = message == tag::ERROR
            && Fields::decode(body).code() == Some(CANCELLED)
            // A CopyFail of the client's own has the same code.
            && Fields::decode(body).message().is_some_and(|words| words.starts_with(b"cancel"))
            && (self.cancels_seen < self.cancels_sent || self.overdue);
        let waits = self.expected_at == self.expected.len();
        if refused && waits {
            self.take_back();
            return;
        }
        if struck && waits {
            self.cancels_seen += 1;
        }
        if struck && waits && !self.at_work && !self.is_struck_at_work() {
            self.take_back();
            return;
        }
        while self.expected_at == self.expected.len() && (self.at_work || !self.undecided.is_empty()) {
            let mut out = std::mem::take(&mut self.expected);
            out.clear();
            self.expected_at = 0;
            if std::mem::take(&mut self.at_work) {
                let progress = self.twin.wake(struck, &mut out);
                self.at_work = matches!(progress, Progress::Works(_));
            } else if struck && self.twin.is_in_copy() {
                self.twin.wake(true, &mut out);
            } else {
                let (message, body) = self.undecided.remove(0);
                self.at_work = matches!(self.twin.message(message, &body, &mut out), Progress::Works(_));
            }
            self.expected = out;
        }
    }

    /// Whether a cancel that is the first answer to a unit struck it at work, not while it waited for a server.
    fn is_struck_at_work(&self) -> bool {
        if self.twin.is_in_copy() {
            return true;
        }
        // What begins with something that takes no time is cancelled as a whole, or after that has been answered.
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
        wire::backend::encode_ready(&mut self.expected, Status::Idle);
    }

    fn compare(&mut self, message: u8, body: &[u8]) -> Result<(), Finding> {
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
        let same = message == header.tag
            && (body == expected || is_same_error(message, body, expected) || is_same_news(message, body, expected));
        if !same {
            let (found, wanted) = (show(message, body), show(header.tag, expected));
            let strange = is_strangers(body, self.number);
            return Err((
                if strange { 2 } else { 11 },
                format!("client {} got {found} instead of {wanted}", self.number),
            ));
        }
        self.expected_at += header.total_len();
        Ok(())
    }

    /// Sends a message, and has the twin answer it, now or when it is known whether a cancel struck.
    pub(super) fn send(&mut self, message: u8, encode: impl FnOnce(&mut Vec<u8>)) {
        let start = self.outbox.len();
        encode(&mut self.outbox);
        let body = &self.outbox[start + HEADER_LEN..];
        debug_assert_eq!(self.outbox[start], message);
        self.owed_ready += u32::from(matches!(message, request::QUERY | request::SYNC | request::FUNCTION_CALL));
        if self.may_be_struck() {
            self.undecided.push((message, body.to_vec()));
            return;
        }
        if self.expected_at == self.expected.len() {
            self.expected.clear();
            self.expected_at = 0;
        }
        let mut progress = self.twin.message(message, body, &mut self.expected);
        while let Progress::Works(_) = progress {
            progress = self.twin.wake(false, &mut self.expected);
        }
    }

    pub(super) fn query(&mut self, text: &str) {
        let text = self.hurried(text);
        self.send(request::QUERY, |out| frontend::Query { text: text.as_bytes() }.encode(out));
    }
}

/// Errors agree in severity and code where the words are the pooler's, or name a statement by its name on the server.
fn is_same_error(message: u8, body: &[u8], expected: &[u8]) -> bool {
    let (found, wanted) = (Fields::decode(body), Fields::decode(expected));
    let words_differ = matches!(wanted.code(), Some(b"57014" | b"26000" | b"42P05" | b"0A000"));
    message == tag::ERROR && words_differ && found.code() == wanted.code() && found.severity() == wanted.severity()
}

/// PostgreSQL tells what was said on a channel before the parameters that have changed. What a session says itself, it hears by
/// its pool's listener: only ReadyForQuery waits for that, and what the server reports before it is passed on.
fn report_first(expected: &mut [u8]) {
    let header = |rest: &[u8]| Header::parse(rest).ok().flatten();
    let mut at = 0;
    while let Some(header) = header(&expected[at..]).filter(|header| header.tag == tag::NOTIFICATION) {
        at += header.total_len();
    }
    if let Some(report) = header(&expected[at..]).filter(|header| header.tag == tag::PARAMETER_STATUS) {
        expected[..at + report.total_len()].rotate_left(at);
    }
}

/// What a session hears by its own server, since that may listen out of sight, and what it hears by its pool's listener come each in
/// its order, and not in one.
fn channel_first(expected: &mut [u8], body: &[u8]) {
    let channel = |body: &[u8]| Notification::decode(body).ok().map(|said| said.channel.to_vec());
    let mut at = 0;
    while let Some(header) =
        Header::parse(&expected[at..]).ok().flatten().filter(|header| header.tag == tag::NOTIFICATION)
    {
        let end = at + header.total_len();
        let owed = &expected[at + HEADER_LEN..end];
        if channel(owed) == channel(body) {
            // The first of its channel; whether it is the right one is seen by whoever compares.
            expected[..end].rotate_left(at);
            return;
        }
        at = end;
    }
}

/// The process that a notification names is the server's, whatever the client was told at login.
fn is_same_news(message: u8, body: &[u8], expected: &[u8]) -> bool {
    message == tag::NOTIFICATION && body.get(4..) == expected.get(4..)
}

pub(super) fn is_strangers(body: &[u8], own: u32) -> bool {
    let text = String::from_utf8_lossy(body);
    let mut names = text.split('c').filter_map(|part| part.split_once('.')?.0.parse::<u32>().ok());
    names.any(|number| number != own)
}

/// A message in few words.
pub(super) fn show(message: u8, body: &[u8]) -> String {
    let head = &body[..body.len().min(60)];
    format!("{} ({} bytes: {})", char::from(message), body.len(), head.escape_ascii())
}
