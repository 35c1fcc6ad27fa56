//! One connection to a lookup database: its states, and the lookups that it has not answered yet.
//!
//! ```text
//!   Connecting ──opened, encrypted──► LoggingIn ──ReadyForQuery──► Ready: lookups are sent, and answered in their order
//!                                                                   │  ▲
//!                                    a lookup's names are not known │  │ their schema has been looked for, once
//!                                                                   ▼  │
//!                                                                 Searching
//! ```
//!
//! Promises that nothing of any client but the user's name, as a value, is ever sent. Does not know who waits for the
//! answers: `waiting` does.

use std::collections::VecDeque;
use std::sync::Arc;

use auth::{Keys, Password};
use connections::databases::{Address, Database};
use connections::encryption::Encryption;
use connections::flow::Flow;
use connections::server_login::{Credentials, Derived, Progress, ServerLogin};
use connections::{Broken, MessageType};
use settings::TlsSettings;
use units::random::Random;
use units::{Time, limits};
use wire::backend::{Fields, tag};
use wire::{HEADER_LEN, Header, SqlState, frontend};

use super::answer::{self, Answer};
use super::end::LookupEnd;
use super::search::{Resolved, Search};
use super::target::Target;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) target: Arc<Target>,
    pub(super) address: Arc<Address>,
    /// What it is connected to, by TCP.
    pub(super) remote: Option<Address>,
    /// How its bytes are encrypted.
    pub(super) encryption: Encryption,
    /// When it was asked for.
    pub(super) since: Time,
    /// When its login or its search began.
    pub(super) busy_since: Time,
    /// When it last had something to do.
    pub(super) idle_since: Time,
    /// It has answered a lookup.
    pub(super) has_answered: bool,
    pub(super) flow: Flow,
    /// The result of its search for the schema of the query's names.
    pub(super) resolved: Option<Resolved>,
    /// Names of the query are not known. The next connection looks for them anew, since an administrator may have made them meanwhile.
    pub(super) is_obsolete: bool,
    state: State,
    /// Part of a message.
    inbox: Vec<u8>,
}

#[derive(Debug)]
enum State {
    Connecting,
    LoggingIn(Box<ServerLogin>),
    /// What it owes, the oldest first.
    Ready(VecDeque<Owed>),
    /// The schema of the query's names is looked for.
    Searching(Search),
}

#[derive(Debug)]
enum Owed {
    /// The answer to [`answer::prepare`].
    Prepared,
    Lookup(Box<Answer>),
}

/// What its bytes have brought.
#[derive(Debug)]
pub(super) enum News {
    /// These keys have to be derived.
    Derive {
        password: Password,
        salt: Vec<u8>,
        iterations: u32,
    },
    LoggedIn,
    /// PostgreSQL does not know a name of the query, and a search for its schema has begun. All lookups have to be sent again.
    Searches,
    /// The search has ended.
    Searched,
    /// The server refuses the login.
    Refused(Option<SqlState>, String),
    /// The oldest lookup is answered.
    Answered(Box<Answer>),
}

impl Connection {
    pub(super) fn new(target: Arc<Target>, address: Arc<Address>, tls: &TlsSettings, now: Time) -> Connection {
        Connection {
            encryption: Encryption::new(tls, &address),
            target,
            address,
            remote: None,
            since: now,
            busy_since: now,
            idle_since: now,
            has_answered: false,
            flow: Flow::default(),
            resolved: None,
            is_obsolete: false,
            state: State::Connecting,
            inbox: Vec::new(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.state, State::Ready(_))
    }

    pub(super) fn is_connecting(&self) -> bool {
        matches!(self.state, State::Connecting)
    }

    /// It is opened once more, to try it with TLS if it was without, and the other way round.
    pub(super) fn connect_again(&mut self) {
        (self.state, self.inbox) = (State::Connecting, Vec::new());
    }

    /// Whether it owes nothing.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(&self.state, State::Ready(owed) if owed.is_empty())
    }

    /// It is open, and encrypted if it has to be. `out` gets the startup packet.
    pub(super) fn log_in(&mut self, database: &Database, out: &mut Vec<u8>) {
        self.state = State::LoggingIn(Box::default());
        // The settings of roles and databases do not count beside these, and no client has any part in them.
        let parameters = [
            ("user", &*self.target.user),
            ("database", database.name_at_server()),
            ("application_name", "pgweir auth_query"),
            ("search_path", "pg_catalog"),
            ("client_encoding", "UTF8"),
            ("DateStyle", "ISO"),
            ("TimeZone", "UTC"),
        ];
        frontend::encode_startup(out, parameters.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())));
    }

    /// Sends a lookup.
    pub(super) fn ask(&mut self, user: &str, out: &mut Vec<u8>) {
        let State::Ready(owed) = &mut self.state else {
            unreachable!("lookups are sent on a connection that is ready")
        };
        owed.push_back(Owed::Lookup(Box::default()));
        answer::ask(&self.target.query, user, out);
    }

    /// The keys of [`News::Derive`]. Returns the challenge that they are for.
    pub(super) fn go_on_with(&mut self, keys: Keys, out: &mut Vec<u8>) -> Result<Option<Derived>, Broken> {
        match &mut self.state {
            State::LoggingIn(login) => login.go_on_with(keys, out),
            State::Connecting | State::Ready(_) | State::Searching(_) => Ok(None),
        }
    }

    /// Reads bytes that have come. `news` gets what they bring, also before an error.
    ///
    /// # Errors
    /// The server has broken the protocol, or says that the connection ends.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        credentials: Credentials<'_>,
        random: &mut Random,
        out: &mut Vec<u8>,
        news: &mut Vec<News>,
    ) -> Result<(), LookupEnd> {
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.extend_from_slice(bytes);
        let mut at = 0;
        let mut is_read = false;
        while !is_read {
            is_read = match &mut self.state {
                State::Connecting => return Err(LookupEnd::TooEarly),
                State::LoggingIn(login) => {
                    let progress = login.read(&inbox, &mut at, credentials, random, out)?;
                    self.logged_in(progress, out, news)
                }
                State::Ready(_) | State::Searching(_) => match next_message(&inbox, &mut at)? {
                    None => true,
                    Some((message, body)) => {
                        self.message(message, body, out, news)?;
                        false
                    }
                },
            };
        }
        inbox.drain(..at);
        self.inbox = inbox;
        Ok(())
    }

    /// Returns whether the bytes at hand are read.
    fn logged_in(&mut self, progress: Progress<'_>, out: &mut Vec<u8>, news: &mut Vec<News>) -> bool {
        match progress {
            Progress::Open => return true,
            Progress::Derive { password, salt, iterations } => {
                news.push(News::Derive { password, salt, iterations });
            }
            Progress::Ready => {
                self.state = State::Ready(VecDeque::from([Owed::Prepared]));
                answer::prepare(out);
                news.push(News::LoggedIn);
            }
            Progress::Refused(body) => {
                let fields = Fields::decode(body);
                news.push(News::Refused(fields.sqlstate(), words(&fields)));
                return true;
            }
        }
        false
    }

    /// Reads one message after the login.
    fn message(&mut self, message: u8, body: &[u8], out: &mut Vec<u8>, news: &mut Vec<News>) -> Result<(), LookupEnd> {
        if matches!(message, tag::NOTICE | tag::PARAMETER_STATUS | tag::NOTIFICATION) {
            return Ok(());
        }
        let fields = (message == tag::ERROR).then(|| Fields::decode(body));
        if let Some(fields) = fields.filter(Fields::is_fatal) {
            // The connection ends with this error.
            return Err(LookupEnd::Said { words: words(&fields) });
        }
        match &mut self.state {
            State::Connecting | State::LoggingIn(_) => unreachable!("it has logged in"),
            State::Searching(search) => {
                if let Some(resolved) = search.take(message, body, &self.target.query, out)? {
                    (self.resolved, self.state) = (Some(resolved), State::Ready(VecDeque::new()));
                    news.push(News::Searched);
                }
            }
            State::Ready(owed) => match (owed.front_mut(), fields) {
                (Some(Owed::Prepared), Some(fields)) => return Err(LookupEnd::Said { words: words(&fields) }),
                (Some(Owed::Prepared), None) => {
                    if message == tag::READY_FOR_QUERY {
                        owed.pop_front();
                    }
                }
                (Some(Owed::Lookup(answer)), _) => {
                    if !answer.take(message, body)? {
                        return Ok(());
                    }
                    let Some(Owed::Lookup(answer)) = owed.pop_front() else { unreachable!("it is the first") };
                    if answer.misses_names() && self.resolved.is_none() {
                        self.state = State::Searching(Search::begin(owed.len(), out));
                        news.push(News::Searches);
                    } else {
                        news.push(News::Answered(answer));
                    }
                }
                (None, _) => {
                    return Err(Broken::Unexpected { message: MessageType(message) }.into());
                }
            },
        }
        Ok(())
    }
}

/// The next complete message, its type and its body.
fn next_message<'a>(inbox: &'a [u8], at: &mut usize) -> Result<Option<(u8, &'a [u8])>, Broken> {
    let rest = &inbox[*at..];
    let Some(header) = Header::parse(rest)? else { return Ok(None) };
    if header.body_len() > limits::SERVER_MESSAGE_LEN_MAX {
        return Err(Broken::TooLong);
    }
    if rest.len() < header.total_len() {
        return Ok(None);
    }
    *at += header.total_len();
    Ok(Some((header.tag, &rest[HEADER_LEN..header.total_len()])))
}

/// As PgBouncer writes a server's error into the log.
fn words(fields: &Fields<'_>) -> String {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    format!("{} {}", text(fields.severity()), text(fields.message()))
}
