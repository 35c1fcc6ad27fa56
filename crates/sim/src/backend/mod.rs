//! One PostgreSQL session after login: messages in, answers out. It knows neither connection nor time.
//!
//! The model PostgreSQL runs one for each server connection; each model client runs one of its own as its twin, which
//! says what a direct connection would have answered. Both being the same code, the pooler is what differs.
//!
//! The rules are PostgreSQL's: the transaction status, what an error skips, what COPY ignores, which names live how
//! long, when a changed parameter is reported.
//!
//! //= pg18 protocol-flow

mod commands;
mod execute;
mod extended;

use std::collections::BTreeMap;

use wire::backend::{self, ErrorResponse, Status};
use wire::frontend::tag;
use wire::{SqlState, cstr};

use crate::book::{Complaint, Step};
use crate::parameters::{self, Values};
use crate::shared::Server;
use crate::state::{Moment, State};
use crate::statement::{Body, Mark, Statement, split};
use extended::{Portal, Prepared};

/// How far a message brought the session.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// It works for so many microseconds; then comes [`Backend::wake`].
    Works(u64),
    /// It has said FATAL and is gone.
    Gone,
}

/// What it is in the middle of.
#[derive(Debug)]
enum Running {
    Nothing,
    /// Statements of a simple query, the next of which is at `at`.
    Simple {
        statements: Vec<Statement>,
        at: usize,
    },
    /// The portal of an Execute.
    Portal(Vec<u8>),
}

#[derive(Debug, Default)]
struct CopyIn {
    sum: u32,
}

/// The session.
#[derive(Debug)]
pub struct Backend {
    status: Status,
    state: State,
    reported: Values,
    /// The state when these were the values.
    reported_at: Moment,
    server: Server,
    /// Which session of that server it is.
    number: u64,
    /// What it calls itself in notifications.
    pub pid: i32,
    statements: BTreeMap<Vec<u8>, Prepared>,
    portals: BTreeMap<Vec<u8>, Portal>,
    running: Running,
    copy: Option<CopyIn>,
    /// The answers to extended messages are held back until Sync or Flush.
    skipping: bool,
    /// What the statement being run is marked with.
    mark: Option<Mark>,
    /// Whose transaction, batch or session this is.
    owner: Option<u32>,
    /// Held until DISCARD ALL, in session mode.
    session: bool,
    /// A twin has nobody to judge.
    judges: bool,
    complaint: Option<Complaint>,
    /// How often it has said ReadyForQuery.
    readies: u64,
}

impl Backend {
    /// A session of `login` at a server. `session`: its client keeps it until DISCARD ALL. `judges`: it complains about
    /// what it should not see.
    #[must_use]
    pub fn new(server: &Server, values: Values, login: &str, session: bool, judges: bool) -> Backend {
        let state = State::new(parameters::settings(values), login);
        Backend {
            status: Status::Idle,
            reported: values,
            reported_at: state.moment(),
            state,
            server: Server::clone(server),
            number: server.borrow_mut().enrol(),
            pid: 0,
            statements: BTreeMap::new(),
            portals: BTreeMap::new(),
            running: Running::Nothing,
            copy: None,
            skipping: false,
            mark: None,
            owner: None,
            session,
            judges,
            complaint: None,
            readies: 0,
        }
    }

    /// Whether it has been told where random numbers begin.
    #[must_use]
    pub fn is_seeded(&self) -> bool {
        self.state.lasting().seed.is_some()
    }

    #[must_use]
    pub fn has_statement(&self, name: &[u8]) -> bool {
        self.statements.contains_key(name)
    }

    /// Whether a statement gets its mark from each Bind, so that it may be bound again.
    #[must_use]
    pub fn takes_mark(&self, name: &[u8]) -> bool {
        self.statements.get(name).is_some_and(|prepared| prepared.statement.mark.is_none())
    }

    #[must_use]
    pub fn has_portal(&self, name: &[u8]) -> bool {
        self.portals.contains_key(name)
    }

    #[must_use]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Whether it listens to a channel, by what it has committed.
    #[must_use]
    pub fn listens_to(&self, channel: &str) -> bool {
        self.state.kept().channels.contains(channel)
    }

    /// The reported parameters as they are.
    #[must_use]
    pub fn values(&self) -> Values {
        parameters::values(|name| self.state.setting(name))
    }

    /// The same session at another server: it has its settings, and what SQL has prepared.
    ///
    /// # Errors
    /// It had state that cannot be there.
    pub fn moved(&self) -> Result<Backend, String> {
        let state = self.state.moved()?;
        let mut moved = Backend::new(&self.server, parameters::DEFAULTS, &state.login, self.session, self.judges);
        moved.state = state;
        moved.server.borrow_mut().listen(moved.number, &moved.state.kept().channels);
        (moved.reported, moved.reported_at) = (moved.values(), moved.state.moment());
        moved.pid = self.pid;
        let of_sql = self.statements.iter().filter(|(_, prepared)| prepared.of_sql);
        moved.statements = of_sql.map(|(name, prepared)| (name.clone(), prepared.clone())).collect();
        Ok(moved)
    }

    /// Whether SQL's EXECUTE finds a statement of this name that returns rows.
    #[must_use]
    pub fn is_executable(&self, name: &[u8]) -> bool {
        self.statements.get(name).is_some_and(|prepared| matches!(prepared.statement.body, Body::Select { .. }))
    }

    /// Whether a cancel would hit something now.
    #[must_use]
    pub fn is_cancellable(&self) -> bool {
        self.copy.is_some() || !matches!(self.running, Running::Nothing)
    }

    #[must_use]
    pub fn is_in_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// The client whose statement it is at.
    #[must_use]
    pub fn client(&self) -> Option<u32> {
        self.mark.map(|mark| mark.client)
    }

    /// What comes next is nobody's until it says whose it is.
    pub fn forget_mark(&mut self) {
        self.mark = None;
    }

    /// How often it has said ReadyForQuery.
    #[must_use]
    pub fn readies(&self) -> u64 {
        self.readies
    }

    pub fn take_complaint(&mut self) -> Option<Complaint> {
        self.complaint.take()
    }

    pub(crate) fn complain(&mut self, invariant: u8, text: String) {
        if self.judges && self.complaint.is_none() {
            self.complaint = Some(Complaint { invariant, text });
        }
    }

    /// One message of the client.
    pub fn message(&mut self, message: u8, body: &[u8], out: &mut Vec<u8>) -> Progress {
        if self.copy.is_some() {
            return self.message_in_copy(message, body, out);
        }
        if self.skipping && !matches!(message, tag::SYNC | tag::TERMINATE) {
            return Progress::Done;
        }
        match message {
            tag::QUERY => self.query(body, out),
            tag::FUNCTION_CALL => {
                self.function_call(body, out);
                Progress::Done
            }
            tag::SYNC => {
                self.skipping = false;
                self.end_implicit();
                self.ready(out);
                Progress::Done
            }
            tag::TERMINATE => Progress::Gone,
            // Outside of COPY these are ignored: a client may learn late that its COPY failed.
            tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => Progress::Done,
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE => self.extended(message, body, out),
            _ => self.fatal("08P01", "invalid frontend message type", out),
        }
    }

    fn message_in_copy(&mut self, message: u8, body: &[u8], out: &mut Vec<u8>) -> Progress {
        let Some(copy) = &mut self.copy else { return Progress::Done };
        match message {
            tag::COPY_DATA => {
                copy.sum = body.iter().fold(copy.sum, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)));
                Progress::Done
            }
            tag::COPY_DONE => {
                let sum = copy.sum;
                self.copy = None;
                backend::encode_command_complete(out, &format!("COPY {sum}"));
                self.go_on(out)
            }
            tag::COPY_FAIL => {
                self.copy = None;
                let words = cstr(body).map(|(text, _)| String::from_utf8_lossy(text)).unwrap_or_default();
                self.error("57014", &format!("COPY from stdin failed: {words}"), out);
                Progress::Done
            }
            tag::FLUSH | tag::SYNC => Progress::Done,
            tag::TERMINATE => Progress::Gone,
            _ => {
                let text = format!("unexpected message type 0x{message:02X} during COPY from stdin");
                say("ERROR", "08P01", &text, out);
                self.fatal("08P01", "terminating connection because protocol synchronization was lost", out)
            }
        }
    }

    fn query(&mut self, body: &[u8], out: &mut Vec<u8>) -> Progress {
        let text = cstr(body).map_or(&b""[..], |(text, _)| text);
        let statements = split(&String::from_utf8_lossy(text));
        // A simple query ends the unnamed statement and portal, as the manual says.
        self.statements.remove(&b""[..]);
        self.portals.remove(&b""[..]);
        if statements.iter().all(|statement| statement.body == Body::Empty) {
            backend::encode_empty_query(out);
            self.ready(out);
            return Progress::Done;
        }
        if statements.iter().any(|statement| statement.body == Body::SyntaxError) {
            self.running = Running::Simple { statements: Vec::new(), at: 0 };
            self.error("42601", "syntax error", out);
            return Progress::Done;
        }
        self.running = Running::Simple { statements, at: 0 };
        self.go_on(out)
    }

    /// Runs what is left of a query after something that took time, or COPY.
    fn go_on(&mut self, out: &mut Vec<u8>) -> Progress {
        loop {
            let Running::Simple { statements, at } = &mut self.running else {
                self.running = Running::Nothing;
                return Progress::Done;
            };
            let Some(statement) = statements.get(*at).cloned() else {
                self.running = Running::Nothing;
                self.end_implicit();
                self.ready(out);
                return Progress::Done;
            };
            *at += 1;
            if statement.body == Body::Empty {
                continue;
            }
            self.mark = statement.mark;
            if let Body::Sleep { micros } = statement.body {
                if self.admits(&statement.body, statement.mark, Some(Step::Run), out) {
                    return Progress::Works(micros);
                }
                return Progress::Done;
            }
            if !self.simple(&statement, out) || self.copy.is_some() {
                return Progress::Done;
            }
        }
    }

    /// What took time is over, or cancelled.
    pub fn wake(&mut self, cancelled: bool, out: &mut Vec<u8>) -> Progress {
        if cancelled {
            self.copy = None;
            self.error("57014", "canceling statement due to user request", out);
            return Progress::Done;
        }
        match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Nothing => Progress::Done,
            Running::Portal(name) => {
                self.finish_sleep(&name, out);
                Progress::Done
            }
            simple @ Running::Simple { .. } => {
                self.running = simple;
                self.rows_with_description(1, 0, out);
                self.go_on(out)
            }
        }
    }

    /// Says FATAL, after which there is nothing.
    pub fn fatal(&mut self, code: &str, text: &str, out: &mut Vec<u8>) -> Progress {
        say("FATAL", code, text, out);
        Progress::Gone
    }

    /// An error of a statement or message: the transaction fails, and extended messages are skipped up to Sync.
    fn error(&mut self, code: &str, text: &str, out: &mut Vec<u8>) {
        say("ERROR", code, text, out);
        let running = std::mem::replace(&mut self.running, Running::Nothing);
        // What it did is undone at once, though a block must still be ended.
        if self.status != Status::Failed {
            self.state.fail();
        }
        match self.status {
            Status::Idle => self.portals.clear(),
            Status::InTransaction => self.status = Status::Failed,
            Status::Failed => {}
        }
        match running {
            Running::Simple { .. } => self.ready(out),
            Running::Nothing | Running::Portal(_) => self.skipping = true,
        }
    }

    fn commit(&mut self) {
        let notices = self.state.commit();
        let mut server = self.server.borrow_mut();
        server.listen(self.number, &self.state.kept().channels);
        server.notify(self.pid, notices);
    }

    /// The end of a query or of a batch: what was not in a transaction block is committed.
    fn end_implicit(&mut self) {
        if self.status == Status::Idle {
            self.commit();
            self.portals.clear();
            if !self.session {
                self.owner = None;
            }
        }
    }

    pub(crate) fn ready(&mut self, out: &mut Vec<u8>) {
        if self.status == Status::Idle {
            self.tell_heard(out);
        }
        if !self.state.is_same_as(&self.reported_at) {
            self.report(out);
        }
        if self.status == Status::Idle && !self.session {
            self.owner = None;
        }
        self.readies += 1;
        backend::encode_ready(out, self.status);
    }

    /// Outside of a transaction it tells what was said on its channels.
    pub fn tell_heard(&mut self, out: &mut Vec<u8>) {
        let heard = self.server.borrow_mut().take_heard(self.number);
        for (pid, channel, payload) in heard {
            encode_notification(out, pid, channel.as_bytes(), payload.as_bytes());
        }
    }

    /// Reported parameters that have changed.
    fn report(&mut self, out: &mut Vec<u8>) {
        let values = self.values();
        for parameter in (0..parameters::COUNT).filter(|&at| self.reported[at] != values[at]) {
            let (name, value) = (parameters::NAMES[parameter], parameters::value(parameter, values[parameter]));
            backend::ParameterStatus { name: name.as_bytes(), value: value.as_bytes() }.encode(out);
        }
        (self.reported, self.reported_at) = (values, self.state.moment());
    }

    /// A function call carries its mark as its bytes.
    fn function_call(&mut self, body: &[u8], out: &mut Vec<u8>) {
        let mark = std::str::from_utf8(body).ok().and_then(Mark::parse);
        self.mark = mark;
        self.running = Running::Simple { statements: Vec::new(), at: 0 };
        if self.admits(&Body::Select { rows: 1, len: 0 }, mark, Some(Step::Run), out) {
            self.running = Running::Nothing;
            let value = crate::statement::row(mark, 0, 10);
            wire::message(out, backend::tag::FUNCTION_CALL_RESPONSE, |out| {
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(&value);
            });
            self.end_implicit();
            self.ready(out);
        }
    }
}

/// Its locks are free again, and it hears nothing more.
impl Drop for Backend {
    fn drop(&mut self) {
        self.server.borrow_mut().leave(self.number);
        if !self.state.lasting().locks.is_empty() {
            self.server.borrow_mut().unlock_all(self.number);
        }
    }
}

fn encode_notification(out: &mut Vec<u8>, pid: i32, channel: &[u8], payload: &[u8]) {
    wire::message(out, backend::tag::NOTIFICATION, |out| {
        out.extend_from_slice(&pid.to_be_bytes());
        for text in [channel, payload] {
            out.extend_from_slice(text);
            out.push(0);
        }
    });
}

pub(crate) fn say(severity: &'static str, code: &str, text: &str, out: &mut Vec<u8>) {
    let code = SqlState::from_bytes(code.as_bytes()).expect("codes here are five letters and digits");
    ErrorResponse { severity, code, message: text, detail: None, hint: None }.encode(out);
}
