//! One process of the model PostgreSQL: its login, what it reads and says, and what it is at.
//!
//! Does not know its connection: whoever serves it gives it what has come and takes what it says.

use auth::{Md5Hash, Secret, ServerExchange};
use pooling::settings::PoolMode;
use wire::backend::{self, Authentication, BackendKeyData, ErrorResponse, ParameterStatus, Status};
use wire::frontend::{self, Password, SaslInitial, SaslResponse, Startup as Packet, tag};
use wire::{HEADER_LEN, Header, SqlState};

use crate::agenda::Happening;
use crate::asked::Units;
use crate::backend::{Backend, Progress};
use crate::conditions::{FINAL, FOR_GOOD};
use crate::course::Course;
use crate::link::{Link, LinkId, ProcessName};
use crate::parameters::{self, Values};
use crate::plan::{Login, PASSWORD, Plan};
use crate::shared::Server;

/// PostgreSQL keeps answers back until so much has come together, or a Flush or Sync.
const HELD_LEN_MAX: usize = 8_192;

/// No more is worked on while so much is unsent.
const UNSENT_LEN_MAX: usize = 64 * 1024;

/// Why a login fails, in PostgreSQL's words.
pub(crate) type Refusal = (&'static str, &'static str);

#[derive(Debug)]
enum Phase {
    Starting,
    Proving(Proof),
    Serving,
}

#[derive(Debug)]
enum Proof {
    Clear,
    Md5([u8; 4]),
    Sasl,
    SaslFinal(Box<ServerExchange>),
}

/// What a process is at.
#[derive(Copy, Clone, Debug)]
struct Work {
    /// It works, or hangs, until then.
    busy_until: Option<u64>,
    /// It works, on a statement.
    is_statement: bool,
    /// When it was at work last, or had something to read.
    active_at: u64,
}

/// What a startup packet asks for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// It has not come in full.
    Unfinished,
    /// A session, which must be admitted.
    Session,
    /// A cancel, which will take effect.
    Cancel,
    /// What no pooler may ask for.
    Wrong,
}

/// One connection's process.
#[derive(Debug)]
pub(crate) struct Process {
    name: ProcessName,
    pub(crate) link: LinkId,
    pub(crate) database: u16,
    pub(crate) user: String,
    /// As the startup packet names it.
    pub(crate) dbname: String,
    phase: Phase,
    pub(crate) backend: Backend,
    pub(crate) units: Units,
    inbox: Vec<u8>,
    held: Vec<u8>,
    outbox: Vec<u8>,
    work: Work,
    /// What a CancelRequest for it has.
    key: (i32, [u8; 4]),
    /// It ends once everything is sent.
    ending: bool,
}

impl Process {
    /// One that has just been connected to.
    pub(crate) fn new(name: ProcessName, link: LinkId, database: u16, shared: &Server, course: &mut Course) -> Process {
        let defaults = course.plan.databases[usize::from(database)].defaults;
        Process {
            name,
            link,
            database,
            user: String::new(),
            dbname: String::new(),
            phase: Phase::Starting,
            backend: Backend::new(shared, defaults, "", false, true),
            units: Units::default(),
            inbox: Vec::new(),
            held: Vec::new(),
            outbox: Vec::new(),
            work: Work { busy_until: None, is_statement: false, active_at: course.now() },
            key: (name.number as i32, (course.random.next() as u32).to_be_bytes()),
            ending: false,
        }
    }

    pub(crate) fn name(&self) -> ProcessName {
        self.name
    }

    pub(crate) fn number(&self) -> u32 {
        self.name.number
    }

    pub(crate) fn pid(&self) -> i32 {
        self.key.0
    }

    /// Nothing is going on: what it says now answers nobody.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Serving)
            && !self.work.is_statement
            && self.inbox.is_empty()
            && self.held.is_empty()
            && self.outbox.is_empty()
            && self.backend.session().status() == Status::Idle
            && !self.backend.is_in_copy()
    }

    /// Tells what was said on its channels, if it has nothing else to do. Whether there was something.
    pub(crate) fn tell_heard(&mut self) -> bool {
        let before = self.outbox.len();
        if self.may_tell() {
            self.backend.tell_heard(&mut self.outbox);
        }
        self.outbox.len() > before
    }

    /// It waits for its client, outside of a transaction.
    fn may_tell(&self) -> bool {
        let rests =
            matches!(self.phase, Phase::Serving) && !self.work.is_statement && self.held.is_empty() && !self.ending;
        rests && self.backend.session().status() == Status::Idle && !self.backend.is_in_copy()
    }

    /// It waits for its client, in a transaction.
    pub(crate) fn rests_in_transaction(&self) -> bool {
        let rests =
            self.serves() && !self.work.is_statement && self.inbox.is_empty() && self.unsent() == 0 && !self.ending;
        rests && self.backend.session().status() != Status::Idle && !self.backend.is_in_copy()
    }

    /// When it was at work last, or had something to read.
    pub(crate) fn active_at(&self) -> u64 {
        self.work.active_at
    }

    /// It has said its last words.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// It has ended: nothing is left to be sent.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending && self.outbox.is_empty()
    }

    /// Whether a cancel with this key is for it.
    pub(crate) fn has_key(&self, pid: i32, secret: &[u8]) -> bool {
        self.key.0 == pid && self.key.1 == secret
    }

    /// How much of what it has said is not on its way.
    pub(crate) fn unsent(&self) -> usize {
        self.outbox.len() + self.held.len()
    }

    /// Nothing of what has come is still to be done.
    pub(crate) fn has_read_all(&self) -> bool {
        self.inbox.is_empty()
    }

    pub(crate) fn serves(&self) -> bool {
        matches!(self.phase, Phase::Serving)
    }

    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.phase, Phase::Starting)
    }

    pub(crate) fn is_proving(&self) -> bool {
        matches!(self.phase, Phase::Proving(_))
    }

    /// It is at work, or hangs.
    pub(crate) fn is_busy(&self, now: u64) -> bool {
        self.work.busy_until.is_some_and(|until| until > now)
    }

    /// It can take what has come: it is at nothing, and most of what it has said is sent.
    pub(crate) fn may_read(&self) -> bool {
        self.work.busy_until.is_none() && self.outbox.len() <= UNSENT_LEN_MAX && !self.ending
    }

    /// Takes what has come. Whether that was anything.
    pub(crate) fn read(&mut self, link: &mut Link) -> bool {
        let readable = link.down.readable();
        let count = readable.len();
        self.inbox.extend_from_slice(readable);
        link.down.consume(count);
        count > 0
    }

    /// Writes what can be written. Whether there was anything to write.
    pub(crate) fn write(&mut self, link: &mut Link) -> bool {
        if self.outbox.is_empty() {
            return false;
        }
        let count = link.up.write(&self.outbox);
        self.outbox.drain(..count);
        link.peer.blocked = !self.outbox.is_empty();
        true
    }

    pub(crate) fn has_to_write(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// The next message, if one is whole.
    ///
    /// # Errors
    /// Its length is bad.
    pub(crate) fn next_message(&mut self) -> Result<Option<(u8, Vec<u8>)>, wire::Error> {
        let header = match Header::parse(&self.inbox)? {
            Some(header) if self.inbox.len() >= header.total_len() => header,
            _ => return Ok(None),
        };
        let mut message: Vec<u8> = self.inbox.drain(..header.total_len()).collect();
        Ok(Some((header.tag, message.split_off(HEADER_LEN))))
    }

    /// Does what a message asks for.
    pub(crate) fn obey(&mut self, message: u8, body: &[u8]) -> Progress {
        self.backend.message(message, body, &mut self.held)
    }

    /// What it does first with a client's message: it was asked something.
    pub(crate) fn note_asked(&mut self, now: u64) {
        self.work.active_at = now;
    }

    /// Sends what it has said, if it must after such a message.
    pub(crate) fn let_go(&mut self, message: u8, progress: &Progress) {
        let flushes = matches!(
            message,
            tag::QUERY | tag::SYNC | tag::FLUSH | tag::FUNCTION_CALL | tag::COPY_DONE | tag::COPY_FAIL
        );
        let is_much = self.held.len() > HELD_LEN_MAX;
        if flushes || self.backend.is_in_copy() || is_much || *progress == Progress::Gone {
            self.outbox.append(&mut self.held);
        }
    }

    /// `written`: how much it has ever written to its connection.
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
        // After a statement that took time: whatever ends with ReadyForQuery is sent.
        if self.held.len().checked_sub(6).is_some_and(|at| self.held[at] == b'Z') {
            self.outbox.append(&mut self.held);
        }
    }

    /// It has said something: was there a ReadyForQuery in it? `written`: how much it has ever written to its connection.
    pub(crate) fn note_answer(&mut self, now: u64, written: Option<u64>) {
        let Some(written) = written else { return };
        let end = written + self.unsent() as u64;
        self.units.answered(now, self.backend.readies(), self.backend.client(), end);
    }

    pub(crate) fn keep_busy(&mut self, course: &mut Course, micros: u64) {
        self.work.busy_until = Some(course.now() + micros);
        self.wake_after(course, micros);
    }

    pub(crate) fn wake_after(&self, course: &mut Course, micros: u64) {
        course.after(micros, Happening::Process { index: self.name.index, number: self.name.number });
    }

    /// It is at nothing any more. What came of what it was at, if it was a statement or every statement takes its time.
    pub(crate) fn resume(&mut self, takes_time: bool) -> Option<Progress> {
        self.work.busy_until.take()?;
        if std::mem::take(&mut self.work.is_statement) {
            Some(self.backend.wake(false, &mut self.held))
        } else {
            takes_time.then_some(Progress::Done)
        }
    }

    /// A cancel would strike something.
    pub(crate) fn can_be_struck(&self) -> bool {
        (self.work.is_statement || self.backend.is_in_copy()) && !self.ending
    }

    /// A cancel strikes what it is doing.
    pub(crate) fn strike(&mut self, course: &mut Course, written: Option<u64>) {
        (self.work.is_statement, self.work.busy_until) = (false, None);
        course.census.cancels.struck += 1;
        self.backend.wake(true, &mut self.held);
        self.note_answer(course.now(), written);
        self.outbox.append(&mut self.held);
        self.wake_after(course, 0);
    }

    /// Answers a question that the model has no SQL for.
    pub(crate) fn answer(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.held);
        self.backend.ready(&mut self.held);
    }

    /// Reads its startup packet.
    pub(crate) fn start(&mut self, course: &mut Course, shared: &Server) -> Start {
        let inbox = std::mem::take(&mut self.inbox);
        match frontend::parse_startup(&inbox) {
            Ok(None) => {
                self.inbox = inbox;
                Start::Unfinished
            }
            Ok(Some((Packet::Cancel(request), _))) => {
                let secret = request.secret.try_into().unwrap_or_default();
                let after = course.random.skewed(1, 5_000);
                course.after(after, Happening::Strike { link: self.link, pid: request.pid, secret });
                // The connection stays until the signal is sent; the process has nothing else to do.
                self.work.busy_until = Some(u64::MAX);
                Start::Cancel
            }
            Ok(Some((Packet::Start(message), used))) => {
                self.user = String::from_utf8_lossy(message.parameter(b"user").unwrap_or(b"")).into_owned();
                self.dbname = String::from_utf8_lossy(message.parameter(b"database").unwrap_or(b"")).into_owned();
                let values = named(self.backend.session().values(), message.parameters());
                let session = self.is_of_session_pool(&course.plan);
                self.backend = Backend::new(shared, values, &self.user, session, true);
                self.backend.set_pid(self.key.0);
                self.inbox = inbox[used..].to_vec();
                Start::Session
            }
            Ok(Some((Packet::Ssl | Packet::GssEnc, _))) | Err(_) => Start::Wrong,
        }
    }

    /// Its servers belong to one client until they are reset.
    fn is_of_session_pool(&self, plan: &Plan) -> bool {
        let database = self.dbname.as_str().into();
        let key = units::PoolKey { database, user: self.user.as_str().into() };
        plan.mode(&key) == PoolMode::Session && !plan.settings.global.servers.server_reset_query.is_empty()
    }

    /// Lets the session in, asks for a proof, or refuses it; `turned_away`: PostgreSQL takes nobody now.
    pub(crate) fn admit(&mut self, course: &mut Course, turned_away: Option<Refusal>) {
        let admitted = turned_away.map_or_else(|| self.ask_for_proof(course), Err);
        if let Err(refusal) = admitted {
            self.refuse(course, refusal);
        }
    }

    fn ask_for_proof(&mut self, course: &mut Course) -> Result<(), Refusal> {
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
        match user.login {
            Login::Trust => self.welcome(course),
            Login::Clear => {
                Authentication::CleartextPassword.encode(&mut self.outbox);
                self.phase = Phase::Proving(Proof::Clear);
            }
            Login::Md5 => {
                let salt = (random.next() as u32).to_be_bytes();
                Authentication::Md5Password { salt }.encode(&mut self.outbox);
                self.phase = Phase::Proving(Proof::Md5(salt));
            }
            Login::Scram => {
                backend::encode_sasl(&mut self.outbox, &[auth::scram::MECHANISM.as_bytes()]);
                self.phase = Phase::Proving(Proof::Sasl);
            }
        }
        Ok(())
    }

    /// A message of a client that was asked for a proof.
    pub(crate) fn prove(&mut self, course: &mut Course, message: u8, body: &[u8]) {
        if let Err(refusal) = self.try_proof(course, message, body) {
            self.refuse(course, refusal);
        }
    }

    fn try_proof(&mut self, course: &mut Course, message: u8, body: &[u8]) -> Result<(), Refusal> {
        const WRONG: Refusal = ("28P01", "password authentication failed for user");
        let broken = |_| ("08P01", "bad password message");
        if message != tag::PASSWORD {
            return Err(("08P01", "expected password response"));
        }
        let Phase::Proving(proof) = std::mem::replace(&mut self.phase, Phase::Starting) else { return Err(WRONG) };
        let right = match proof {
            Proof::Clear => Password::decode(body).map_err(broken)?.password == PASSWORD.as_bytes(),
            Proof::Md5(salt) => {
                let given = Password::decode(body).map_err(broken)?.password;
                let secret = Secret::Md5(Md5Hash::of(PASSWORD, &self.user));
                auth::verify_md5(&secret, &self.user, salt, given)
            }
            Proof::Sasl => {
                let initial = SaslInitial::decode(body).map_err(broken)?;
                let verifier = self.verifier(&course.plan);
                let nonce = std::array::from_fn(|at| (at as u32 + self.name.number) as u8);
                let started = ServerExchange::start(initial.response.unwrap_or_default(), verifier, &nonce);
                let (exchange, first) = started.map_err(|_| WRONG)?;
                Authentication::SaslContinue(&first).encode(&mut self.outbox);
                self.phase = Phase::Proving(Proof::SaslFinal(Box::new(exchange)));
                return Ok(());
            }
            Proof::SaslFinal(exchange) => {
                let response = SaslResponse::decode(body).map_err(broken)?;
                let done = exchange.finish(response.response).map_err(|_| WRONG)?;
                Authentication::SaslFinal(&done.server_final).encode(&mut self.outbox);
                true
            }
        };
        if !right {
            return Err(WRONG);
        }
        self.welcome(course);
        Ok(())
    }

    fn verifier(&self, plan: &Plan) -> auth::Verifier {
        let user = plan.users.iter().find(|user| user.name == self.user);
        user.expect("a user who is asked for a password exists").verifier.clone()
    }

    fn welcome(&mut self, course: &mut Course) {
        let out = &mut self.outbox;
        Authentication::Ok.encode(out);
        let values = self.backend.session().values();
        for (parameter, &digit) in values.iter().enumerate() {
            let (name, value) = (parameters::NAMES[parameter], parameters::value(parameter, digit));
            ParameterStatus { name: name.as_bytes(), value: value.as_bytes() }.encode(out);
        }
        ParameterStatus { name: b"server_version", value: b"18.0" }.encode(out);
        BackendKeyData { pid: self.key.0, secret: &self.key.1 }.encode(out);
        backend::encode_ready(out, Status::Idle);
        self.phase = Phase::Serving;
        course.census.postgres.logins += 1;
    }

    fn refuse(&mut self, course: &mut Course, (code, text): Refusal) {
        course.note_trouble();
        self.say_fatal(code, text);
    }

    /// FATAL, and the end.
    pub(crate) fn say_fatal(&mut self, code: &'static str, text: &str) {
        let code = SqlState::from_bytes(code.as_bytes()).expect("codes here are five letters and digits");
        let error = ErrorResponse { severity: "FATAL", code, message: text, detail: None, hint: None };
        self.outbox.append(&mut self.held);
        error.encode(&mut self.outbox);
        self.work.busy_until = None;
        self.ending = true;
    }
}

/// What a session begins with, where its startup packet names some of it.
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
