//! The model PostgreSQL: one process a connection, a login, a limit, cancels that strike late, and troubles.

use std::cell::RefCell;
use std::rc::Rc;

use auth::{Md5Hash, Secret, ServerExchange};
use pooling::settings::PoolMode;
use wire::backend::{self, Authentication, BackendKeyData, ErrorResponse, ParameterStatus, Status};
use wire::frontend::{self, Password, SaslInitial, SaslResponse, Startup, tag};
use wire::{HEADER_LEN, Header, SqlState};

use crate::asking::Units;
use crate::backend::{Backend, Progress};
use crate::book::Book;
use crate::conditions::{FINAL, FOR_GOOD};
use crate::network::{Leaving, Link, LinkId, Peer};
use crate::parameters;
use crate::plan::{Login, PASSWORD, Plan};
use crate::shared::{Server, Shared};
use crate::world::{Happening, World};

/// PostgreSQL keeps answers back until so much has come together, or a Flush or Sync.
const HELD_LEN_MAX: usize = 8_192;

/// No more is worked on while so much is unsent.
const UNSENT_LEN_MAX: usize = 64 * 1024;

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

/// One connection's process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) link: LinkId,
    pub(crate) database: u16,
    pub(crate) user: String,
    /// As the startup packet names it.
    pub(crate) dbname: String,
    phase: Phase,
    pub(crate) backend: Backend,
    pub(crate) units: Units,
    inbox: Vec<u8>,
    pub(crate) held: Vec<u8>,
    outbox: Vec<u8>,
    /// It works, or hangs, until then.
    pub(crate) busy_until: Option<u64>,
    works: bool,
    /// When it was at work last, or had something to read.
    pub(crate) active_at: u64,
    pub(crate) pid: i32,
    secret: [u8; 4],
    /// It ends once everything is sent.
    ending: bool,
}

impl Process {
    /// Nothing is going on: what it says now answers nobody.
    pub(crate) fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Serving)
            && !self.works
            && self.inbox.is_empty()
            && self.held.is_empty()
            && self.outbox.is_empty()
            && self.backend.status() == Status::Idle
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
        let rests = matches!(self.phase, Phase::Serving) && !self.works && self.held.is_empty() && !self.ending;
        rests && self.backend.status() == Status::Idle && !self.backend.is_in_copy()
    }

    /// It waits for its client, in a transaction.
    pub(crate) fn rests_in_transaction(&self) -> bool {
        let rests = self.serves() && !self.works && self.inbox.is_empty() && self.unsent() == 0 && !self.ending;
        rests && self.backend.status() != Status::Idle && !self.backend.is_in_copy()
    }

    /// It has said its last words.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// Whether a cancel with this key is for it.
    pub(crate) fn has_key(&self, pid: i32, secret: &[u8]) -> bool {
        self.pid == pid && self.secret == secret
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
}

/// Why a login fails, in PostgreSQL's words.
type Refusal = (&'static str, &'static str);

#[derive(Debug)]
pub(crate) struct Postgres {
    pub(crate) processes: Vec<Option<Box<Process>>>,
    numbers: Vec<u32>,
    next_number: u32,
    /// Until when each database's server does not listen, or is starting up.
    pub(crate) down_until: Vec<u64>,
    pub(crate) starting_until: Vec<u64>,
    /// Somebody else takes all of PostgreSQL's connections until then.
    pub(crate) full_until: u64,
    pub(crate) shared: Server,
}

impl Postgres {
    pub(crate) fn new(plan: &Plan, book: &Rc<RefCell<Book>>) -> Postgres {
        Postgres {
            processes: Vec::new(),
            numbers: Vec::new(),
            next_number: 1,
            down_until: vec![0; plan.databases.len()],
            starting_until: vec![0; plan.databases.len()],
            full_until: 0,
            shared: Shared::new(Rc::clone(book)),
        }
    }

    pub(crate) fn number(&self, index: u32) -> u32 {
        self.numbers[index as usize]
    }

    pub(crate) fn is_down(&self, database: u16, now: u64) -> bool {
        now < self.down_until[usize::from(database)]
    }

    /// Everything is well again.
    pub(crate) fn recover(&mut self) {
        self.down_until.fill(0);
        self.starting_until.fill(0);
        self.full_until = 0;
    }

    fn add(&mut self, process: Process) -> u32 {
        let index = match self.processes.iter().position(Option::is_none) {
            Some(free) => free,
            None => {
                self.processes.push(None);
                self.numbers.push(0);
                self.processes.len() - 1
            }
        };
        self.numbers[index] = process.number;
        self.processes[index] = Some(Box::new(process));
        index as u32
    }
}

impl World {
    /// A connection that the pooler asked for has come to PostgreSQL, or not.
    pub(crate) fn connected(&mut self, id: LinkId, stands: bool) {
        let Some(link) = self.network.get_mut(id) else { return };
        if link.pooler_closed {
            return;
        }
        link.opened = Some(stands);
        if stands {
            let Peer::Postgres { database, .. } = link.peer else { return };
            // It can be read and written from now on, though the pooler will learn of it a little later.
            let number = self.postgres.next_number;
            self.postgres.next_number += 1;
            let defaults = self.plan.databases[usize::from(database)].defaults;
            let process = Process {
                number,
                link: id,
                database,
                user: String::new(),
                dbname: String::new(),
                phase: Phase::Starting,
                backend: Backend::new(&self.postgres.shared, defaults, "", false, true),
                units: Units::default(),
                inbox: Vec::new(),
                held: Vec::new(),
                outbox: Vec::new(),
                busy_until: None,
                works: false,
                active_at: self.now,
                pid: number as i32,
                secret: (self.random.next() as u32).to_be_bytes(),
                ending: false,
            };
            let index = self.postgres.add(process);
            if let Some(link) = self.network.get_mut(id) {
                link.peer = Peer::Postgres { database, backend: Some(index) };
            }
        } else if let Some(link) = self.network.get_mut(id) {
            link.peer_closed = true;
        }
        self.list(id);
    }

    pub(crate) fn process_awakes(&mut self, index: u32, number: u32) {
        let present = self.postgres.processes[index as usize].as_ref().is_some_and(|process| process.number == number);
        if !present {
            return;
        }
        let Some(mut process) = self.postgres.processes[index as usize].take() else { return };
        let id = process.link;
        let ends = self.serve(&mut process, index);
        if let Some(complaint) = process.backend.take_complaint() {
            let whom = format!("server {} of {}/{}", process.number, process.database, process.user);
            self.fail(complaint.invariant, format!("{whom}: {}", complaint.text));
        }
        let found = self.book.borrow_mut().take_complaint();
        if let Some(complaint) = found {
            let whom = format!("server {} of {}/{}", process.number, process.database, process.user);
            self.fail(complaint.invariant, format!("{whom}: {}", complaint.text));
        }
        self.note_said();
        if ends {
            self.close_peer_side(id, Leaving::Orderly);
            return;
        }
        self.postgres.processes[index as usize] = Some(process);
        self.tell_heard();
    }

    /// Works on what has come. True: the process has ended.
    fn serve(&mut self, process: &mut Process, index: u32) -> bool {
        if let Some(until) = process.busy_until {
            if self.now < until {
                return self.flush(process);
            }
            process.busy_until = None;
            if std::mem::take(&mut process.works) {
                let progress = process.backend.wake(false, &mut process.held);
                self.progressed(process, index, progress);
            } else if self.plan.purpose.curve.is_some() {
                self.progressed(process, index, Progress::Done);
            }
        }
        loop {
            if self.flush(process) {
                return true;
            }
            if process.busy_until.is_some() || process.outbox.len() > UNSENT_LEN_MAX || process.ending {
                return false;
            }
            let Some(link) = self.network.get_mut(process.link) else { return true };
            let readable = link.down.readable();
            if !readable.is_empty() {
                process.inbox.extend_from_slice(readable);
                let count = readable.len();
                link.down.consume(count);
                self.list(process.link);
            }
            match self.next_message(process, index) {
                Some(true) => {}
                Some(false) => {
                    let Some(link) = self.network.get(process.link) else { return true };
                    return link.down.end_arrived && link.down.is_empty();
                }
                None => return true,
            }
        }
    }

    /// Writes what can be written. True: that was all, and the process has ended.
    fn flush(&mut self, process: &mut Process) -> bool {
        let Some(link) = self.network.get_mut(process.link) else { return true };
        if link.pooler_closed && !process.outbox.is_empty() {
            // Nobody will read it: the process finds its connection gone.
            return true;
        }
        if !process.outbox.is_empty() {
            let count = link.up.write(&process.outbox);
            process.outbox.drain(..count);
            link.peer_blocked = !process.outbox.is_empty();
            self.pump(process.link, true);
        }
        process.ending && process.outbox.is_empty()
    }

    /// One message. `Some(false)`: none is whole; `None`: the process ends without a word.
    fn next_message(&mut self, process: &mut Process, index: u32) -> Option<bool> {
        if matches!(process.phase, Phase::Starting) {
            return self.startup(process, index);
        }
        let header = match Header::parse(&process.inbox) {
            Ok(Some(header)) if process.inbox.len() >= header.total_len() => header,
            Ok(_) => return Some(false),
            Err(_) => {
                self.fail(11, format!("server {} got a message of bad length", process.number));
                return None;
            }
        };
        let message: Vec<u8> = process.inbox.drain(..header.total_len()).collect();
        let body = &message[HEADER_LEN..];
        if let Phase::Proving(_) = process.phase {
            if let Err((code, text)) = self.prove(process, header.tag, body) {
                self.refuse(process, code, text);
            }
            return Some(true);
        }
        if header.tag == tag::TERMINATE {
            return None;
        }
        self.note_taken(process, header.tag);
        process.active_at = self.now;
        if header.tag == tag::QUERY && self.tells_waits(process, index, body) {
            self.note_answer(process);
            return Some(true);
        }
        let begins = header.tag == tag::QUERY && process.backend.status() == Status::Idle;
        let application = self.application_at(process);
        let progress = process.backend.message(header.tag, body, &mut process.held);
        self.note_run(process, begins, application);
        // What belongs to a COPY that is over has no answer whose end could be seen.
        if matches!(header.tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL) && process.is_idle() {
            self.note_rest(process.link);
        }
        if progress == Progress::Done && matches!(header.tag, tag::QUERY | tag::SYNC) && self.is_at_work(process, index)
        {
            return Some(true);
        }
        let flushes = matches!(
            header.tag,
            tag::QUERY | tag::SYNC | tag::FLUSH | tag::FUNCTION_CALL | tag::COPY_DONE | tag::COPY_FAIL
        );
        if flushes || process.backend.is_in_copy() || process.held.len() > HELD_LEN_MAX || progress == Progress::Gone {
            process.outbox.append(&mut process.held);
        }
        self.progressed(process, index, progress);
        Some(true)
    }

    fn progressed(&mut self, process: &mut Process, index: u32, progress: Progress) {
        process.active_at = self.now;
        match progress {
            Progress::Done => {}
            Progress::Works(micros) => {
                process.works = true;
                self.keep_busy(process, index, micros);
            }
            Progress::Gone => process.ending = true,
        }
        self.note_answer(process);
        // After a statement that took time: whatever ends with ReadyForQuery is sent.
        if process.held.len().checked_sub(6).is_some_and(|at| process.held[at] == b'Z') {
            process.outbox.append(&mut process.held);
        }
    }

    pub(crate) fn keep_busy(&mut self, process: &mut Process, index: u32, micros: u64) {
        process.busy_until = Some(self.now + micros);
        self.after(micros, Happening::Process { index, number: process.number });
    }

    /// A cancel strikes whatever its backend is doing at that moment (I4), then its connection is closed.
    pub(crate) fn strike(&mut self, id: LinkId, pid: i32, secret: [u8; 4]) {
        let aim = self.network.get(id).and_then(|link| link.asked.aim);
        if let Some(Peer::Postgres { backend: Some(index), .. }) = self.network.get(id).map(|link| link.peer) {
            self.postgres.processes[index as usize] = None;
        }
        self.close_peer_side(id, Leaving::Orderly);
        let found = self
            .postgres
            .processes
            .iter()
            .position(|process| process.as_ref().is_some_and(|process| process.has_key(pid, &secret)));
        let Some(index) = found else { return };
        let Some(mut process) = self.postgres.processes[index].take() else { return };
        if (process.works || process.backend.is_in_copy()) && !process.ending {
            self.judge_strike(&process, aim);
            process.works = false;
            process.busy_until = None;
            self.census.cancels_struck += 1;
            process.backend.wake(true, &mut process.held);
            self.note_answer(&mut process);
            process.outbox.append(&mut process.held);
            let number = process.number;
            self.after(0, Happening::Process { index: index as u32, number });
        }
        self.postgres.processes[index] = Some(process);
    }

    fn startup(&mut self, process: &mut Process, _index: u32) -> Option<bool> {
        let inbox = std::mem::take(&mut process.inbox);
        let parsed = frontend::parse_startup(&inbox);
        match parsed {
            Ok(None) => {
                process.inbox = inbox;
                Some(false)
            }
            Ok(Some((Startup::Cancel(request), _))) => {
                let secret = request.secret.try_into().unwrap_or_default();
                let after = self.random.skewed(1, 5_000);
                self.after(after, Happening::Strike { link: process.link, pid: request.pid, secret });
                // The connection stays until the signal is sent; the process has nothing else to do.
                process.busy_until = Some(u64::MAX);
                Some(true)
            }
            Ok(Some((Startup::Start(message), used))) => {
                process.user = String::from_utf8_lossy(message.parameter(b"user").unwrap_or(b"")).into_owned();
                process.dbname = String::from_utf8_lossy(message.parameter(b"database").unwrap_or(b"")).into_owned();
                let mut values = process.backend.values();
                for (name, value) in message.parameters() {
                    let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
                    if let Some(parameter) = parameters::index(&name)
                        && let Some(digit) = parameters::digit(parameter, &value)
                    {
                        values[parameter] = digit;
                    }
                }
                let session = self.is_session_pool(process);
                process.backend = Backend::new(&self.postgres.shared, values, &process.user, session, true);
                process.backend.pid = process.pid;
                process.inbox = inbox[used..].to_vec();
                self.count_started(process);
                if let Err((code, text)) = self.admit(process) {
                    self.refuse(process, code, text);
                }
                Some(true)
            }
            Ok(Some((Startup::Ssl | Startup::GssEnc, _))) | Err(_) => {
                self.fail(11, "the pooler's startup packet is not one");
                None
            }
        }
    }

    /// A pool whose servers belong to one client until they are reset.
    fn is_session_pool(&self, process: &Process) -> bool {
        let database = process.dbname.as_str().into();
        let key = units::PoolKey { database, user: process.user.as_str().into() };
        self.plan.mode(&key) == PoolMode::Session && !self.plan.settings.global.servers.server_reset_query.is_empty()
    }

    fn admit(&mut self, process: &mut Process) -> Result<(), Refusal> {
        if self.now < self.postgres.starting_until[usize::from(process.database)] {
            return Err(("57P03", "the database system is starting up"));
        }
        if self.now < self.postgres.full_until {
            return Err(("53300", "sorry, too many clients already"));
        }
        if self.plan_holds() && self.random.chance(self.plan.faults.refused_logins) {
            self.census.logins_refused += 1;
            return Err((if self.random.chance(500) { "53300" } else { "57P03" }, "not now"));
        }
        if self.plan_holds() && self.random.chance(self.plan.faults.final_refusals) {
            self.census.refused_for_good += 1;
            let code = *self.random.pick(&FINAL);
            return Err((code, FOR_GOOD));
        }
        let Some(user) = self.plan.users.iter().find(|user| user.name == process.user) else {
            return Err(("28000", "role does not exist"));
        };
        match user.login {
            Login::Trust => {
                self.welcome(process);
                return Ok(());
            }
            Login::Clear => {
                Authentication::CleartextPassword.encode(&mut process.outbox);
                process.phase = Phase::Proving(Proof::Clear);
            }
            Login::Md5 => {
                let salt = (self.random.next() as u32).to_be_bytes();
                Authentication::Md5Password { salt }.encode(&mut process.outbox);
                process.phase = Phase::Proving(Proof::Md5(salt));
            }
            Login::Scram => {
                backend::encode_sasl(&mut process.outbox, &[auth::scram::MECHANISM.as_bytes()]);
                process.phase = Phase::Proving(Proof::Sasl);
            }
        }
        Ok(())
    }

    fn prove(&mut self, process: &mut Process, message: u8, body: &[u8]) -> Result<(), Refusal> {
        const WRONG: Refusal = ("28P01", "password authentication failed for user");
        let broken = |_| ("08P01", "bad password message");
        if message != tag::PASSWORD {
            return Err(("08P01", "expected password response"));
        }
        let Phase::Proving(proof) = std::mem::replace(&mut process.phase, Phase::Starting) else { return Err(WRONG) };
        let right = match proof {
            Proof::Clear => Password::decode(body).map_err(broken)?.password == PASSWORD.as_bytes(),
            Proof::Md5(salt) => {
                let given = Password::decode(body).map_err(broken)?.password;
                let secret = Secret::Md5(Md5Hash::of(PASSWORD, &process.user));
                auth::verify_md5(&secret, &process.user, salt, given)
            }
            Proof::Sasl => {
                let initial = SaslInitial::decode(body).map_err(broken)?;
                let verifier = self.verifier(process);
                let nonce = std::array::from_fn(|at| (at as u32 + process.number) as u8);
                let started = ServerExchange::start(initial.response.unwrap_or_default(), verifier, &nonce);
                let (exchange, first) = started.map_err(|_| WRONG)?;
                Authentication::SaslContinue(&first).encode(&mut process.outbox);
                process.phase = Phase::Proving(Proof::SaslFinal(Box::new(exchange)));
                return Ok(());
            }
            Proof::SaslFinal(exchange) => {
                let response = SaslResponse::decode(body).map_err(broken)?;
                let done = exchange.finish(response.response).map_err(|_| WRONG)?;
                Authentication::SaslFinal(&done.server_final).encode(&mut process.outbox);
                true
            }
        };
        if !right {
            return Err(WRONG);
        }
        self.welcome(process);
        Ok(())
    }

    fn verifier(&self, process: &Process) -> auth::Verifier {
        let user = self.plan.users.iter().find(|user| user.name == process.user);
        user.expect("a user who is asked for a password exists").verifier.clone()
    }

    fn welcome(&mut self, process: &mut Process) {
        let out = &mut process.outbox;
        Authentication::Ok.encode(out);
        let values = process.backend.values();
        for (parameter, &digit) in values.iter().enumerate() {
            let (name, value) = (parameters::NAMES[parameter], parameters::value(parameter, digit));
            ParameterStatus { name: name.as_bytes(), value: value.as_bytes() }.encode(out);
        }
        ParameterStatus { name: b"server_version", value: b"18.0" }.encode(out);
        BackendKeyData { pid: process.pid, secret: &process.secret }.encode(out);
        backend::encode_ready(out, Status::Idle);
        process.phase = Phase::Serving;
        self.census.server_logins += 1;
    }

    fn refuse(&mut self, process: &mut Process, code: &'static str, text: &str) {
        self.trouble_at = Some(self.now);
        self.say_fatal(process, code, text);
    }

    /// FATAL, and the end.
    pub(crate) fn say_fatal(&mut self, process: &mut Process, code: &'static str, text: &str) {
        let code = SqlState::from_bytes(code.as_bytes()).expect("codes here are five letters and digits");
        let error = ErrorResponse { severity: "FATAL", code, message: text, detail: None, hint: None };
        process.outbox.append(&mut process.held);
        error.encode(&mut process.outbox);
        process.busy_until = None;
        process.ending = true;
    }

    /// What a link's peer has sent last may be words that end it.
    pub(crate) fn last_words_arrive(&mut self, id: LinkId) {
        let now = self.now;
        let Some(link) = self.network.get_mut(id) else { return };
        let all_there = |link: &Link| link.up.in_flight() == 0 && link.up.is_ended();
        if link.dying && all_there(link) && link.last_words_at.is_none() {
            link.last_words_at = Some(now);
        }
    }
}
