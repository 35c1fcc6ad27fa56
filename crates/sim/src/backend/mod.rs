//! One PostgreSQL session after login: messages in, answers out. It knows neither its connection nor the time.
//!
//! The model PostgreSQL runs one for each server connection. Each model client runs one of its own, its twin, which
//! gives the answers of a direct connection. Both are the same code, so every difference comes from the pooler.
//!
//! It follows PostgreSQL's rules for the transaction status, for messages skipped after an error or ignored by COPY,
//! for the lifetime of names, and for when a changed parameter is reported.
//!
//! ```text
//!   Backend     the protocol: simple query, extended query, COPY, what an error skips
//!   session     transaction, state, statements, portals: what statements do
//!   judge       whether this client may use the server now
//!   reported    the parameter values that the client has been sent
//!   answer, rows    what is sent back
//! ```
//!
//! //= pg18 protocol-flow

mod answer;
mod extended;
mod judge;
mod reported;
mod rows;
mod session;

use wire::backend::{self, ErrorResponse, Notification, Status};
use wire::frontend::tag;
use wire::{SqlState, cstr};

use crate::book::{Complaint, Step};
use crate::command::Command;
use crate::parameters::Values;
use crate::settings::SettingRefusal;
use crate::shared::Server;
use crate::statement::{Body, Mark, Statement, row, split};
use judge::{Held, Judge};
use reported::Reported;
use session::{Ran, refusal};

pub use session::Session;

/// What a session does after a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    Done,
    /// It works for so many microseconds; then [`Backend::wake`] is called.
    Works(u64),
    /// It has sent FATAL and has ended.
    Gone,
}

/// What it is running.
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

impl Running {
    /// A message that is answered like the end of a simple query.
    const ALONE: Running = Running::Simple { statements: Vec::new(), at: 0 };
}

/// One commit in so many waits for its standby, where some do.
const SLOW_COMMIT: u32 = 5;

#[derive(Debug, Default)]
struct CopyIn {
    sum: u32,
}

/// A session with its protocol.
#[derive(Debug)]
pub struct Backend {
    session: Session,
    running: Running,
    copy: Option<CopyIn>,
    /// The answers to extended messages are held back until Sync or Flush.
    skipping: bool,
    /// What the statement being run is marked with.
    mark: Option<Mark>,
    reported: Reported,
    judge: Judge,
    /// How many ReadyForQuery it has sent.
    readies: u64,
    /// Some commits wait for so many microseconds until their synchronous standby has them.
    standby: Option<u64>,
    /// The answer to a commit that waits.
    committed: Option<Vec<u8>>,
    /// Statements of the transaction that have done something that it commits.
    has_done: Vec<Mark>,
}

impl Backend {
    /// A session of `login` at a server. `session`: it belongs to one client until DISCARD ALL. `judges`: it reports
    /// statements that it should not get.
    #[must_use]
    pub fn new(server: &Server, values: Values, login: &str, session: bool, judges: bool) -> Backend {
        let held = if session { Held::ForSession } else { Held::ForTransaction };
        Backend::of(Session::new(server, values, login), Judge::new(judges, held))
    }

    /// A session whose servers begin with this beyond their login.
    #[must_use]
    pub fn begun_with(mut self, begins: &[(&str, &str)]) -> Backend {
        self.session.begin_with(begins);
        self
    }

    fn of(session: Session, judge: Judge) -> Backend {
        Backend {
            reported: Reported::new(session.state()),
            session,
            running: Running::Nothing,
            copy: None,
            skipping: false,
            mark: None,
            judge,
            readies: 0,
            standby: None,
            committed: None,
            has_done: Vec::new(),
        }
    }

    /// From now on some of its commits wait for their standby, for this many microseconds.
    pub(crate) fn follow_standby(&mut self, micros: Option<u64>) {
        self.standby = micros;
    }

    /// It has committed, and waits until its standby has done so too: a cancel would end the wait, and its client would be told.
    pub(crate) fn waits_for_standby(&self) -> bool {
        self.committed.is_some()
    }

    /// The same session at another server: it has its settings, and what SQL has prepared.
    ///
    /// # Errors
    /// It had state that cannot be there.
    pub fn moved(&self) -> Result<Backend, String> {
        Ok(Backend::of(self.session.moved()?, self.judge.moved()))
    }

    /// A session in the block in which its server was lost, until the client ends it.
    ///
    /// # Errors
    /// It had state that is lost with the server.
    pub fn in_lost_block(&mut self) -> Result<Backend, String> {
        // Its cursors without hold are gone with the transaction.
        self.session.fail_block();
        let mut moved = self.moved()?;
        moved.session.fail_block();
        Ok(moved)
    }

    /// Its transaction block has failed, without an answer.
    pub(crate) fn fail_block(&mut self) {
        self.session.fail();
    }

    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The process id in its notifications.
    pub fn set_pid(&mut self, pid: i32) {
        self.session.set_pid(pid);
    }

    /// Whether a cancel would interrupt something now.
    #[must_use]
    pub fn is_cancellable(&self) -> bool {
        self.copy.is_some() || !matches!(self.running, Running::Nothing)
    }

    #[must_use]
    pub fn is_in_copy(&self) -> bool {
        self.copy.is_some()
    }

    /// The client whose statement it is running.
    #[must_use]
    pub fn client(&self) -> Option<u32> {
        self.mark.map(|mark| mark.client)
    }

    /// Until the next mark, messages belong to no client.
    pub fn forget_mark(&mut self) {
        self.mark = None;
    }

    /// How many ReadyForQuery it has sent.
    #[must_use]
    pub fn readies(&self) -> u64 {
        self.readies
    }

    pub fn take_complaint(&mut self) -> Option<Complaint> {
        self.judge.take_complaint()
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
            tag::SYNC | tag::FLUSH if !body.is_empty() => {
                if message == tag::SYNC {
                    self.skipping = false;
                    self.running = Running::ALONE;
                }
                self.error(&refusal("08P01", "invalid message format"), out);
                Progress::Done
            }
            tag::SYNC => {
                self.skipping = false;
                self.end_implicit();
                self.ready(out);
                Progress::Done
            }
            tag::TERMINATE => Progress::Gone,
            // Ignored outside of COPY: a client may learn late that its COPY failed.
            tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => Progress::Done,
            tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE => self.extended(message, body, out),
            _ => fatal("08P01", "invalid frontend message type", out),
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
                self.error(&("57014", format!("COPY from stdin failed: {words}")), out);
                Progress::Done
            }
            tag::FLUSH | tag::SYNC => Progress::Done,
            tag::TERMINATE => Progress::Gone,
            _ => {
                let text = format!("unexpected message type 0x{message:02X} during COPY from stdin");
                say("ERROR", "08P01", &text, out);
                fatal("08P01", "terminating connection because protocol synchronization was lost", out)
            }
        }
    }

    fn query(&mut self, body: &[u8], out: &mut Vec<u8>) -> Progress {
        let text = cstr(body).map_or(&b""[..], |(text, _)| text);
        let statements = split(&String::from_utf8_lossy(text));
        self.session.close_unnamed();
        if statements.iter().all(|statement| statement.body == Body::Empty) {
            backend::encode_empty_query(out);
            self.ready(out);
            return Progress::Done;
        }
        if statements.iter().any(|statement| statement.body == Body::SyntaxError) {
            self.running = Running::ALONE;
            self.error(&refusal("42601", "syntax error"), out);
            return Progress::Done;
        }
        self.running = Running::Simple { statements, at: 0 };
        self.go_on(out)
    }

    /// Runs the rest of a query after a sleep or COPY.
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
            match self.simple(&statement.body, out) {
                Ok(Ran::Done) => {}
                Ok(Ran::Sleeps(micros)) => return Progress::Works(micros),
                Ok(Ran::CopiesIn) => return Progress::Done,
                Err(refusal) => {
                    self.error(&refusal, out);
                    return Progress::Done;
                }
            }
        }
    }

    /// One statement of a simple query.
    fn simple(&mut self, body: &Body, out: &mut Vec<u8>) -> Result<Ran, SettingRefusal> {
        self.admit(body, Some(Step::Run))?;
        self.run(body, true, out)
    }

    /// Whether the transaction lets this statement run. Judges it first.
    fn admit(&mut self, body: &Body, step: Option<Step>) -> Result<(), SettingRefusal> {
        let step = step.filter(|_| self.session.status() != Status::Failed);
        if let (Some(mark), Some(step)) = (self.mark, step) {
            self.judge.compare(&mut self.session.book().borrow_mut(), mark, step, self.session.moment(), body);
        }
        self.judge.note(body, self.mark);
        self.session.admit(body)
    }

    fn run(&mut self, body: &Body, described: bool, out: &mut Vec<u8>) -> Result<Ran, SettingRefusal> {
        let (before, status) = (out.len(), self.session.status());
        let ran = self.session.run(body, self.mark, described, out)?;
        self.note_done(body, status);
        let is_slow = || self.mark.is_some_and(|mark| mark.number.is_multiple_of(SLOW_COMMIT));
        if let (Body::Commit, Some(micros)) = (body, self.standby.filter(|_| is_slow())) {
            self.committed = Some(out.split_off(before));
            return Ok(Ran::Sleeps(micros));
        }
        if ran == Ran::CopiesIn {
            self.copy = Some(CopyIn::default());
        }
        if matches!(body, Body::Command(Command::DiscardAll)) {
            self.judge.session_ended();
        }
        Ok(ran)
    }

    /// A statement has run in a transaction of this status, or is a COPY that has begun.
    fn note_done(&mut self, body: &Body, status: Status) {
        match body {
            Body::Commit if status == Status::InTransaction => self.commit(),
            Body::Commit | Body::Rollback => self.has_done.clear(),
            Body::CopyIn | Body::Widen(_) | Body::Command(Command::Next(_)) => self.has_done.extend(self.mark),
            Body::Begin => self.begin(),
            Body::Select { .. } if status == Status::Idle => self.begin(),
            _ => {}
        }
    }

    fn begin(&mut self) {
        if let Some(mark) = self.mark
            && self.judge.judges()
        {
            self.session.book().borrow_mut().begun(mark);
        }
    }

    fn commit(&mut self) {
        let has_done = std::mem::take(&mut self.has_done);
        let book = self.session.book();
        for mark in has_done {
            if self.judge.judges() {
                book.borrow_mut().committed(mark);
            } else {
                book.borrow_mut().twin_committed(mark);
            }
        }
    }

    /// A sleep is over, or cancelled.
    pub fn wake(&mut self, cancelled: bool, out: &mut Vec<u8>) -> Progress {
        if let Some(committed) = self.committed.take() {
            // A cancel only ends the wait. //= pg18 warm-standby#SYNCHRONOUS-REPLICATION
            out.extend(committed);
            return match std::mem::replace(&mut self.running, Running::Nothing) {
                Running::Nothing | Running::Portal(_) => Progress::Done,
                simple @ Running::Simple { .. } => {
                    self.running = simple;
                    self.go_on(out)
                }
            };
        }
        if cancelled {
            self.copy = None;
            self.error(&refusal("57014", "canceling statement due to user request"), out);
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
                rows::encode_all(self.mark, 1, 0, out);
                self.go_on(out)
            }
        }
    }

    /// An error of a statement or message: the transaction fails, and extended messages are skipped up to Sync.
    fn error(&mut self, (code, text): &SettingRefusal, out: &mut Vec<u8>) {
        say("ERROR", code, text, out);
        self.has_done.clear();
        self.session.fail();
        match std::mem::replace(&mut self.running, Running::Nothing) {
            Running::Simple { .. } => self.ready(out),
            Running::Nothing | Running::Portal(_) => self.skipping = true,
        }
    }

    /// The end of a query or of a batch.
    fn end_implicit(&mut self) {
        if self.session.status() == Status::Idle {
            self.session.end_implicit();
            self.commit();
            self.judge.transaction_ended();
        }
    }

    pub(crate) fn ready(&mut self, out: &mut Vec<u8>) {
        let status = self.session.status();
        if status == Status::Idle {
            self.send_notifications(out);
        }
        self.reported.report(self.session.state(), out);
        if status == Status::Idle {
            self.judge.transaction_ended();
        }
        self.readies += 1;
        self.session.ready();
        backend::encode_ready(out, status);
    }

    /// Outside of a transaction, sends the notifications of its channels.
    pub fn send_notifications(&mut self, out: &mut Vec<u8>) {
        for (pid, channel, payload) in self.session.take_notifications() {
            Notification { pid, channel: channel.as_bytes(), payload: payload.as_bytes() }.encode(out);
        }
    }

    /// A function call carries its mark as its bytes.
    fn function_call(&mut self, body: &[u8], out: &mut Vec<u8>) {
        self.mark = std::str::from_utf8(body).ok().and_then(Mark::parse);
        self.running = Running::ALONE;
        if let Err(refusal) = self.admit(&Body::Select { rows: 1, len: 0 }, Some(Step::Run)) {
            return self.error(&refusal, out);
        }
        self.running = Running::Nothing;
        let value = row(self.mark, 0, 10);
        wire::message(out, backend::tag::FUNCTION_CALL_RESPONSE, |out| {
            out.extend_from_slice(&(value.len() as u32).to_be_bytes());
            out.extend_from_slice(&value);
        });
        self.end_implicit();
        self.ready(out);
    }
}

/// Sends FATAL and ends the session.
fn fatal(code: &str, text: &str, out: &mut Vec<u8>) -> Progress {
    say("FATAL", code, text, out);
    Progress::Gone
}

pub(crate) fn say(severity: &'static str, code: &str, text: &str, out: &mut Vec<u8>) {
    let code = SqlState::from_bytes(code.as_bytes()).expect("codes here are five letters and digits");
    ErrorResponse { severity, code, message: text, detail: None, hint: None }.encode(out);
}
