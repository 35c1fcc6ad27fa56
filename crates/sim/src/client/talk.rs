//! The messages of a client: each goes to the pooler and to its twin.

use wire::HEADER_LEN;
use wire::backend::Status;
use wire::frontend::{self, Bind, Execute, Parse, tag};

use super::outcomes::Outcomes;
use super::socket::Socket;
use super::twin::Twin;
use crate::statement::Mark;

#[derive(Debug)]
pub(super) struct Talk {
    number: u32,
    /// Statements so far.
    marks: u32,
    /// The client's deadline; 0: none.
    deadline_ms: u32,
    /// A cancel may interrupt what it has sent, so it sends one unit at a time.
    may_be_struck: bool,
    pub(super) twin: Twin,
    pub(super) outcomes: Outcomes,
    pub(super) socket: Socket,
}

impl Talk {
    pub(super) fn new(number: u32, twin: Twin, outcomes: Outcomes, deadline_ms: u32, may_be_struck: bool) -> Talk {
        Talk { number, marks: 0, deadline_ms, may_be_struck, twin, outcomes, socket: Socket::default() }
    }

    pub(super) fn marks(&self) -> u32 {
        self.marks
    }

    pub(super) fn deadline_ms(&self) -> u32 {
        self.deadline_ms
    }

    pub(super) fn may_be_struck(&self) -> bool {
        self.may_be_struck
    }

    /// The mark of the next statement.
    pub(super) fn mark(&mut self) -> Mark {
        self.marks += 1;
        Mark { client: self.number, number: self.marks }
    }

    pub(super) fn marked(&mut self, body: &str) -> String {
        let mark = self.mark();
        format!("{body} /*{}*/", mark.text())
    }

    /// Sends a message. The twin answers it now, or when it is known whether a cancel has interrupted it.
    pub(super) fn send(&mut self, message: u8, encode: impl FnOnce(&mut Vec<u8>)) {
        let outbox = self.socket.outbox();
        let start = outbox.len();
        encode(outbox);
        debug_assert_eq!(outbox[start], message);
        let body = &outbox[start + HEADER_LEN..];
        self.outcomes.sent(message, body, self.twin.status(), self.marks);
        self.twin.send(message, body, self.may_be_struck);
    }

    pub(super) fn query(&mut self, text: &str) {
        let text = self.hurried(text);
        self.send(tag::QUERY, |out| frontend::Query { text: text.as_bytes() }.encode(out));
    }

    /// A text with the client's deadline.
    fn hurried(&self, text: &str) -> String {
        let waits = self.deadline_ms > 0 && !text.is_empty() && self.twin.status() == Status::Idle;
        if waits { format!("{text} /*deadline_ms={}*/", self.deadline_ms) } else { text.to_owned() }
    }

    /// One statement by the unnamed statement and portal.
    pub(super) fn one(&mut self, text: &str) {
        self.parse(b"", text);
        self.bind(b"", b"", None);
        self.execute(b"", 0);
        self.send(tag::SYNC, frontend::encode_sync);
    }

    pub(super) fn parse(&mut self, name: &[u8], text: &str) {
        // Named statements with the same text are shared, so they carry no deadline.
        let text = if name.is_empty() { self.hurried(text) } else { text.to_owned() };
        let parse = Parse { name, query: text.as_bytes(), types: Parse::NO_TYPES };
        self.send(tag::PARSE, |out| parse.encode(out));
    }

    pub(super) fn bind(&mut self, portal: &[u8], statement: &[u8], mark: Option<Mark>) {
        let text = mark.map(|mark| mark.text());
        let values = text.as_deref().map(|text| Some(text.as_bytes()));
        self.send(tag::BIND, |out| Bind::encode(out, portal, statement, values));
    }

    pub(super) fn execute(&mut self, portal: &[u8], rows_max: i32) {
        self.send(tag::EXECUTE, |out| Execute { portal, rows_max }.encode(out));
    }
}
