//! One process of the model PostgreSQL: its login, the bytes it reads and sends, and its current work.
//!
//! It does not know its connection: its caller gives it the bytes that have come and takes those it sends.

mod pipe;
mod proof;
mod walsender;

use settings::PoolMode;
use wire::SqlState;
use wire::backend::{self, Authentication, BackendKeyData, ErrorResponse, ParameterStatus, Status};
use wire::frontend::{self, Startup as Packet};

use crate::agenda::Happening;
use crate::asked::Units;
use crate::backend::{Backend, Progress};
use crate::conditions::{FINAL, FOR_GOOD};
use crate::course::Course;
use crate::link::{LinkId, ProcessName};
use crate::parameters::{self, Values};
use crate::plan::Plan;
use crate::plan::hosts::Place;
use crate::secret::Secret;
use crate::shared::Server;
use pipe::Buffers;
use proof::Proof;
use walsender::Walsender;

/// The SQLSTATE and text of a failed login.
pub(crate) type LoginRefusal = (&'static str, &'static str);

#[derive(Debug)]
enum ProcessPhase {
    Starting,
    Proving(Proof),
    Serving,
}

/// The work of a process.
#[derive(Copy, Clone, Debug)]
struct ProcessWork {
    /// It is busy, or hangs, until then.
    busy_until: Option<u64>,
    /// Its work is a statement.
    is_statement: bool,
    /// When it last was busy or had bytes to read.
    active_at: u64,
}

/// The request in a startup packet.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// It was asked for encryption, and has answered.
    Encryption,
    /// It has not come in full.
    Unfinished,
    /// A session, which must be admitted.
    Session,
    /// A cancel, which will take effect.
    Cancel,
    /// A packet that a pooler must not send.
    Wrong,
}

/// The process of one connection.
#[derive(Debug)]
pub(crate) struct Process {
    name: ProcessName,
    pub(crate) link: LinkId,
    pub(crate) database: u16,
    pub(crate) user: String,
    /// As the startup packet names it.
    pub(crate) dbname: String,
    /// Which of its database's hosts it is at.
    pub(crate) host: usize,
    /// Whether that was a standby at its login; `None`: hosts have no roles.
    pub(crate) in_hot_standby: Option<bool>,
    phase: ProcessPhase,
    pub(crate) backend: Backend,
    pub(crate) units: Units,
    pub(crate) pipe: Buffers,
    work: ProcessWork,
    /// It replicates.
    walsender: Option<Walsender>,
    /// Its key for a CancelRequest.
    key: (i32, Secret),
    /// It ends once it has sent everything.
    ending: bool,
}

impl Process {
    /// The process of a new connection.
    pub(crate) fn new(name: ProcessName, link: LinkId, database: u16, shared: &Server, course: &mut Course) -> Process {
        let defaults = course.plan.databases[usize::from(database)].defaults;
        Process {
            name,
            link,
            database,
            user: String::new(),
            dbname: String::new(),
            host: 0,
            in_hot_standby: None,
            phase: ProcessPhase::Starting,
            backend: Backend::new(shared, defaults, "", false, true),
            units: Units::default(),
            pipe: Buffers::default(),
            work: ProcessWork { busy_until: None, is_statement: false, active_at: course.now() },
            walsender: None,
            key: {
                let (number, seed) = (name.number as i32, (course.random.next() as u32).to_be_bytes());
                (number, Secret::stretched(seed, course.plan.promises.secret_len(number)))
            },
            ending: false,
        }
    }

    pub(crate) fn name(&self) -> ProcessName {
        self.name
    }

    pub(crate) fn number(&self) -> u32 {
        self.name.number
    }

    /// The host that it is at.
    pub(crate) fn place(&self) -> Place {
        Place { database: usize::from(self.database), host: self.host }
    }

    /// It reports that its standby has been promoted, once it waits for its client.
    pub(crate) fn report_role(&mut self) {
        if self.in_hot_standby == Some(true) && self.may_notify() {
            self.in_hot_standby = Some(false);
            ParameterStatus { name: b"in_hot_standby", value: b"off" }.encode(self.pipe.say());
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        self.key.0
    }

    /// Whether it is idle: what it sends now is no answer.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_between_transactions() && self.pipe.has_read_all()
    }

    /// Whether it has answered each whole message. A part of the next one may have come.
    pub(crate) fn is_between_transactions(&self) -> bool {
        matches!(self.phase, ProcessPhase::Serving)
            && !self.work.is_statement
            && self.pipe.unsent() == 0
            && self.backend.session().status() == Status::Idle
            && !self.backend.is_in_copy()
    }

    /// Sends the notifications of its channels, if it is idle. Returns whether there were any.
    pub(crate) fn send_notifications(&mut self) -> bool {
        let before = self.pipe.unsent();
        if self.may_notify() {
            self.backend.send_notifications(self.pipe.say());
        }
        self.pipe.unsent() > before
    }

    /// Whether it waits for its client, outside of a transaction.
    fn may_notify(&self) -> bool {
        let rests = matches!(self.phase, ProcessPhase::Serving)
            && !self.work.is_statement
            && !self.pipe.holds()
            && !self.ending;
        rests && self.backend.session().status() == Status::Idle && !self.backend.is_in_copy()
    }

    /// Whether it waits for its client, in a transaction.
    pub(crate) fn rests_in_transaction(&self) -> bool {
        let rests = self.serves()
            && !self.work.is_statement
            && self.pipe.has_read_all()
            && self.pipe.unsent() == 0
            && !self.ending;
        rests && self.backend.session().status() != Status::Idle && !self.backend.is_in_copy()
    }

    /// When it last was busy or had bytes to read.
    pub(crate) fn active_at(&self) -> u64 {
        self.work.active_at
    }

    /// Whether it has sent its final error.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// Whether it has ended and sent everything.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending && !self.pipe.has_to_write()
    }

    /// Whether a cancel with this key is for it.
    pub(crate) fn has_key(&self, pid: i32, secret: &[u8]) -> bool {
        self.key.0 == pid && self.key.1.as_slice() == secret
    }

    pub(crate) fn serves(&self) -> bool {
        matches!(self.phase, ProcessPhase::Serving)
    }

    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.phase, ProcessPhase::Starting)
    }

    pub(crate) fn is_proving(&self) -> bool {
        matches!(self.phase, ProcessPhase::Proving(_))
    }

    /// Whether it is busy or hangs.
    pub(crate) fn is_busy(&self, now: u64) -> bool {
        self.work.busy_until.is_some_and(|until| until > now)
    }

    /// Whether it can read: it is not busy, and most of its answers are sent.
    pub(crate) fn may_read(&self) -> bool {
        self.work.busy_until.is_none() && self.pipe.has_room() && !self.ending
    }

    /// If it replicates: takes a message. The error is what should not have come.
    pub(crate) fn stream(&mut self, course: &mut Course, message: u8, body: &[u8]) -> Option<Result<(), String>> {
        let walsender = self.walsender.as_mut()?;
        self.work.active_at = course.now();
        Some(walsender.message(message, body, &mut course.random, self.pipe.say()))
    }

    /// Handles a message.
    pub(crate) fn obey(&mut self, message: u8, body: &[u8]) -> Progress {
        self.backend.message(message, body, self.pipe.buffer())
    }

    /// A client's message has come: notes the time.
    pub(crate) fn note_asked(&mut self, now: u64) {
        self.work.active_at = now;
    }

    /// Flushes its answers, if this message requires it.
    pub(crate) fn let_go(&mut self, message: u8, progress: &Progress) {
        if self.backend.is_in_copy() || *progress == Progress::Gone {
            self.pipe.let_go();
        }
        self.pipe.let_go_after(message);
    }

    /// `written`: the number of bytes that it has written to its connection.
    pub(crate) fn progressed(&mut self, course: &mut Course, progress: Progress, written: Option<u64>) {
        self.work.active_at = course.now();
        match progress {
            Progress::Done => {}
            Progress::Works(micros) => {
                self.work.is_statement = true;
                self.keep_busy(course, micros);
            }
            Progress::Gone => self.ending = true,
        }
        self.note_answer(course.now(), written);
        // After a statement that took time, an answer that ends with ReadyForQuery is flushed.
        self.pipe.let_go_if_ready();
    }

    /// Notes ReadyForQuery in its latest answer. `written`: the number of bytes that it has written to its connection.
    pub(crate) fn note_answer(&mut self, now: u64, written: Option<u64>) {
        let Some(written) = written else { return };
        let end = written + self.pipe.unsent() as u64;
        self.units.answered(now, self.backend.readies(), self.backend.client(), end);
    }

    pub(crate) fn keep_busy(&mut self, course: &mut Course, micros: u64) {
        self.work.busy_until = Some(course.now() + micros);
        self.wake_after(course, micros);
    }

    pub(crate) fn wake_after(&self, course: &mut Course, micros: u64) {
        course.after(micros, Happening::Process { index: self.name.index, number: self.name.number });
    }

    /// Ends its work. Returns the progress, if the work was a statement or if `takes_time`.
    pub(crate) fn resume(&mut self, takes_time: bool) -> Option<Progress> {
        self.work.busy_until.take()?;
        if std::mem::take(&mut self.work.is_statement) {
            Some(self.backend.wake(false, self.pipe.buffer()))
        } else {
            takes_time.then_some(Progress::Done)
        }
    }

    /// Whether a cancel would interrupt something.
    pub(crate) fn can_be_struck(&self) -> bool {
        (self.work.is_statement || self.backend.is_in_copy()) && !self.ending
    }

    /// A cancel interrupts its work.
    pub(crate) fn strike(&mut self, course: &mut Course, written: Option<u64>) {
        (self.work.is_statement, self.work.busy_until) = (false, None);
        course.census.cancels.struck += 1;
        self.backend.wake(true, self.pipe.buffer());
        self.note_answer(course.now(), written);
        self.pipe.let_go();
        self.wake_after(course, 0);
    }

    /// Answers a query that the model's SQL does not have.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(self.pipe.buffer());
        self.backend.ready(self.pipe.buffer());
    }

    /// Reads its startup packet.
    pub(crate) fn start(&mut self, course: &mut Course, shared: &Server) -> Start {
        let inbox = self.pipe.take();
        match frontend::parse_startup(&inbox) {
            Ok(None) => {
                self.pipe.put_back(&inbox);
                Start::Unfinished
            }
            Ok(Some((Packet::Cancel(request), _))) => {
                // One that is longer than all is nobody's.
                let secret = Secret::read(request.secret).unwrap_or(Secret::stretched([0; 4], 0));
                let after = course.random.skewed(1, 5_000);
                course.after(after, Happening::Strike { link: self.link, pid: request.pid, secret });
                // The connection stays open until the signal is sent; the process does nothing else.
                self.work.busy_until = Some(u64::MAX);
                Start::Cancel
            }
            Ok(Some((Packet::Start(message), used))) => {
                self.user = String::from_utf8_lossy(message.parameter(b"user").unwrap_or(b"")).into_owned();
                self.dbname = String::from_utf8_lossy(message.parameter(b"database").unwrap_or(b"")).into_owned();
                let values = named(self.backend.session().values(), message.parameters());
                self.walsender = message.parameter(b"replication").map(|_| Walsender::default());
                let session = self.is_of_session_pool(&course.plan);
                self.backend = Backend::new(shared, values, &self.user, session, true);
                self.backend.follow_standby(course.plan.slow_commits());
                self.backend.set_pid(self.key.0);
                self.pipe.put_back(&inbox[used..]);
                Start::Session
            }
            // Its handshake takes no bytes here: `Action::Secure` is answered after a while.
            Ok(Some((Packet::Ssl, used))) => {
                self.pipe.buffer().push(if course.plan.has_tls() { b'S' } else { b'N' });
                self.pipe.let_go();
                self.pipe.put_back(&inbox[used..]);
                Start::Encryption
            }
            Ok(Some((Packet::GssEnc, _))) | Err(_) => Start::Wrong,
        }
    }

    /// Whether it belongs to a pool in session mode.
    fn is_of_session_pool(&self, plan: &Plan) -> bool {
        let database = self.dbname.as_str().into();
        let key = units::PoolKey { database, user: self.user.as_str().into() };
        plan.mode(&key) == PoolMode::Session && !plan.settings.global.servers.server_reset_query.is_empty()
    }

    /// Accepts the login, requests a password, or refuses; `turned_away`: PostgreSQL refuses all logins now.
    pub(crate) fn admit(&mut self, course: &mut Course, turned_away: Option<LoginRefusal>) {
        let admitted = turned_away.map_or_else(|| self.ask_for_proof(course), Err);
        if let Err(refusal) = admitted {
            self.refuse(course, refusal);
        }
    }

    fn ask_for_proof(&mut self, course: &mut Course) -> Result<(), LoginRefusal> {
        let (is_working, faults, random) = (course.is_working(), course.plan.faults, &mut course.random);
        if is_working && random.chance(faults.refused_logins) {
            course.census.postgres.logins_refused += 1;
            return Err((if random.chance(500) { "53300" } else { "57P03" }, "not now"));
        }
        if is_working && random.chance(faults.final_refusals) {
            course.census.postgres.refused_for_good += 1;
            let code = *random.pick(&FINAL);
            return Err((code, FOR_GOOD));
        }
        let Some(user) = course.plan.users.iter().find(|user| user.name == self.user) else {
            return Err(("28000", "role does not exist"));
        };
        match Proof::ask(user.login, random, self.pipe.say()) {
            Some(proof) => self.phase = ProcessPhase::Proving(proof),
            None => self.welcome(course),
        }
        Ok(())
    }

    /// A message of a client that was asked for a password.
    pub(crate) fn prove(&mut self, course: &mut Course, message: u8, body: &[u8]) {
        let ProcessPhase::Proving(proof) = std::mem::replace(&mut self.phase, ProcessPhase::Starting) else { return };
        let user = course.plan.users.iter().find(|user| user.name == self.user);
        let user = user.expect("a user who is asked for a password exists");
        match proof.judge(user, self.name.number, (message, body), self.pipe.say()) {
            Ok(Some(more)) => self.phase = ProcessPhase::Proving(more),
            Ok(None) => self.welcome(course),
            Err(refusal) => self.refuse(course, refusal),
        }
    }

    fn welcome(&mut self, course: &mut Course) {
        self.in_hot_standby = course.plan.is_standby(self.place());
        let out = self.pipe.say();
        Authentication::Ok.encode(out);
        let values = self.backend.session().values();
        for (parameter, &digit) in values.iter().enumerate() {
            let (name, value) = (parameters::NAMES[parameter], parameters::value(parameter, digit));
            ParameterStatus { name: name.as_bytes(), value: value.as_bytes() }.encode(out);
        }
        ParameterStatus { name: b"server_version", value: b"18.0" }.encode(out);
        if let Some(in_hot_standby) = self.in_hot_standby {
            let value = if in_hot_standby { &b"on"[..] } else { b"off" };
            ParameterStatus { name: b"in_hot_standby", value }.encode(out);
        }
        BackendKeyData { pid: self.key.0, secret: self.key.1.as_slice() }.encode(out);
        backend::encode_ready(out, Status::Idle);
        self.phase = ProcessPhase::Serving;
        course.census.postgres.logins += 1;
    }

    fn refuse(&mut self, course: &mut Course, (code, text): LoginRefusal) {
        course.note_trouble();
        self.say_fatal(code, text);
    }

    /// Sends FATAL and ends.
    pub(crate) fn say_fatal(&mut self, code: &'static str, text: &str) {
        let code = SqlState::from_bytes(code.as_bytes()).expect("codes here are five letters and digits");
        let error = ErrorResponse { severity: "FATAL", code, message: text, detail: None, hint: None };
        self.pipe.let_go();
        error.encode(self.pipe.say());
        self.work.busy_until = None;
        self.ending = true;
    }
}

/// The values with which a session begins, with those named in its startup packet.
fn named<'p>(mut values: Values, parameters: impl Iterator<Item = (&'p [u8], &'p [u8])>) -> Values {
    for (name, value) in parameters {
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
        if let Some(parameter) = parameters::index(&name)
            && let Some(digit) = parameters::digit(parameter, &value)
        {
            values[parameter] = digit;
        }
    }
    values
}
