//! The far end of a server connection: the simulator's PostgreSQL, and what it is sent held against the protocol.

use auth::scram::{MECHANISM, NONCE_LEN};
use auth::{Md5Hash, ServerExchange, Verifier};
use sim::backend::{Backend, Progress};
use sim::book::Complaint;
use sim::parameters::{DEFAULTS, NAMES, value};
use sim::shared::Server;
use sim::statement::{Body, split};
use units::ConnId;
use wire::backend::{self, Authentication, BackendKeyData, ParameterStatus, Status};
use wire::frontend::{self, Password, SaslInitial, SaslResponse, Startup, StartupMessage, len_max, tag};
use wire::{HEADER_LEN, Header, cstr};

use super::setting::PASSWORDS;

const SALT: [u8; 4] = [1, 2, 3, 4];

/// More rows, or longer ones, would only take time.
const ROWS_LEN_MAX: u64 = 20_000;

/// As is a text that is longer.
const TEXT_LEN_MAX: usize = 4096;

/// How far a login is.
enum Phase {
    Starting,
    /// The password of database `fixed` is asked for by md5, that of `two` by SCRAM.
    Md5(String),
    Sasl,
    SaslFinal(Box<ServerExchange>),
    Serving,
}

pub(super) struct Process {
    backend: Backend,
    phase: Phase,
    /// A statement that takes time is being run.
    works: bool,
    /// It was never shown a wrong password.
    is_convinced: bool,
    /// It has ended and closes its connection.
    ended: bool,
    pid: i32,
    secret: [u8; 4],
}

impl Process {
    /// A session at the database's server.
    pub(super) fn new(database: &Server, is_session: bool, conn: ConnId) -> Process {
        let number = conn.to_bits();
        Process {
            backend: Backend::new(database, DEFAULTS, "", is_session, true),
            phase: Phase::Starting,
            works: false,
            is_convinced: true,
            ended: false,
            pid: (number >> 27) as i32 & 0x3f_ffff,
            secret: (number as u32).to_be_bytes(),
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    /// A statement that takes time is being run.
    pub(super) fn is_at_work(&self) -> bool {
        self.works
    }

    /// It was never shown a wrong password.
    pub(super) fn is_convinced(&self) -> bool {
        self.is_convinced
    }

    pub(super) fn take_complaint(&mut self) -> Option<Complaint> {
        self.backend.take_complaint()
    }

    /// Whether a cancel with this key would end something.
    pub(super) fn is_struck_by(&self, pid: i32, secret: &[u8]) -> bool {
        self.pid == pid && self.secret[..] == *secret && self.backend.is_cancellable()
    }

    /// A cancel strikes: the client whose statement it was at.
    pub(super) fn strike(&mut self, out: &mut Vec<u8>) -> Option<u32> {
        let owner = self.backend.client();
        self.wake(true, out);
        owner
    }

    /// Asks for a password, or not.
    fn started(&mut self, start: &StartupMessage<'_>, out: &mut Vec<u8>) {
        match start.parameter(b"database").expect("it is always named") {
            b"fixed" => {
                let user = start.parameter(b"user").expect("it is always named");
                self.phase = Phase::Md5(String::from_utf8_lossy(user).into_owned());
                Authentication::Md5Password { salt: SALT }.encode(out);
            }
            b"two" => {
                self.phase = Phase::Sasl;
                backend::encode_sasl(out, &[b"SCRAM-SHA-256-PLUS", MECHANISM.as_bytes()]);
            }
            _ => self.welcome(out),
        }
    }

    /// The pooler knows the passwords. It goes wrong only where somebody else has spoken for this server.
    fn prove(&mut self, message: u8, body: &[u8], out: &mut Vec<u8>) {
        assert_eq!(message, tag::PASSWORD, "a server is answered by a {}", message.escape_ascii());
        let (right, next) = match std::mem::replace(&mut self.phase, Phase::Serving) {
            Phase::Md5(user) => {
                let answer = auth::md5::response(&Md5Hash::of(PASSWORDS[1], &user), SALT);
                (Password::decode(body).is_ok_and(|given| given.password == answer.as_bytes()), None)
            }
            Phase::Sasl => {
                let verifier = Verifier::derive(PASSWORDS[0], b"salt", 1);
                let first = SaslInitial::decode(body).ok().and_then(|initial| initial.response);
                let started = first.and_then(|first| ServerExchange::start(first, verifier, &[5; NONCE_LEN]).ok());
                (started.is_some(), started)
            }
            Phase::SaslFinal(exchange) => {
                let done = SaslResponse::decode(body).ok().and_then(|last| exchange.finish(last.response).ok());
                if let Some(done) = &done {
                    Authentication::SaslFinal(&done.server_final).encode(out);
                }
                (done.is_some(), None)
            }
            Phase::Starting | Phase::Serving => panic!("nothing is asked"),
        };
        self.is_convinced &= right;
        match next {
            Some((exchange, line)) => {
                Authentication::SaslContinue(&line).encode(out);
                self.phase = Phase::SaslFinal(Box::new(exchange));
            }
            None if right => self.welcome(out),
            None => self.ended = true,
        }
    }

    fn welcome(&mut self, out: &mut Vec<u8>) {
        self.phase = Phase::Serving;
        Authentication::Ok.encode(out);
        for (at, name) in NAMES.iter().enumerate() {
            ParameterStatus { name: name.as_bytes(), value: value(at, DEFAULTS[at]).as_bytes() }.encode(out);
        }
        BackendKeyData { pid: self.pid, secret: &self.secret }.encode(out);
        backend::encode_ready(out, Status::Idle);
    }

    /// Goes on with what takes time.
    pub(super) fn wake(&mut self, cancelled: bool, out: &mut Vec<u8>) {
        self.works = false;
        let progress = self.backend.wake(cancelled, out);
        self.progressed(progress);
    }

    fn progressed(&mut self, progress: Progress) {
        match progress {
            Progress::Done => {}
            Progress::Works(_) => self.works = true,
            Progress::Gone => self.ended = true,
        }
    }

    /// Works on a message, or on the startup packet, if it is at nothing. Returns how long it was, if it was whole.
    pub(super) fn message(&mut self, heard: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        if self.ended || self.works {
            return None;
        }
        if matches!(self.phase, Phase::Starting) {
            let (packet, used) = frontend::parse_startup(heard).expect("a sound startup packet")?;
            let start = match packet {
                Startup::Start(start) => start,
                Startup::Ssl => {
                    out.push(b'S');
                    return Some(used);
                }
                other => panic!("a server is told {other:?}"),
            };
            self.started(&start, out);
            return Some(used);
        }
        let header = sound_header(heard)?;
        let body = heard.get(HEADER_LEN..header.total_len())?;
        if !matches!(self.phase, Phase::Serving) {
            self.prove(header.tag, body, out);
            return Some(header.total_len());
        }
        let progress = match header.tag {
            tag::QUERY | tag::PARSE if !is_modest(header.tag, body) => {
                self.backend.message(tag::QUERY, b"vacuum\0", out)
            }
            other => self.backend.message(other, body, out),
        };
        self.progressed(progress);
        Some(header.total_len())
    }
}

/// Whether it is short enough to be looked at, and its answer to be given.
fn is_modest(message: u8, body: &[u8]) -> bool {
    if body.len() > TEXT_LEN_MAX {
        return false;
    }
    let text = if message == tag::PARSE { cstr(body).map_or(&b""[..], |(_, rest)| rest) } else { body };
    let text = cstr(text).map_or(&b""[..], |(text, _)| text);
    let statements = split(&String::from_utf8_lossy(text));
    let modest = statements.iter().all(|statement| match statement.body {
        Body::Select { rows, len } | Body::CopyOut { rows, len } => {
            u64::from(rows) * u64::from(len + 30) < ROWS_LEN_MAX
        }
        _ => true,
    });
    statements.len() < 50 && modest
}

/// The beginning of what a server was sent must be sound, whether it answers or not.
fn sound_header(heard: &[u8]) -> Option<Header> {
    let header = Header::parse(heard).expect("what servers are sent has sound lengths")?;
    let max = len_max(header.tag).unwrap_or_else(|| panic!("a server is sent a {}", header.tag.escape_ascii()));
    assert!(header.body_len() + 4 <= max, "a server is sent a message of {} bytes", header.body_len());
    Some(header)
}
