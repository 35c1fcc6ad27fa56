//! The parts of a server: fields that change together.

use std::net::SocketAddr;
use std::sync::Arc;

use auth::Mark;
use connections::databases::{Address, Database};
use connections::encryption::Encryption;
use session_state::parameters::{Parameters, Reported, Tracked};
use session_state::prepared::PreparedOnServer;
use session_state::shape::Described;
use session_state::state::{Base, Defines, OnServer, State as SessionState};
use session_state::unnamed::Version;
use units::{ConnId, Serial, Time};
use wire::backend::Status;

use super::{Asked, CloseReason, Overdue, ParameterOwners, Sequences, Spoken, Tally};
use crate::charge::Charge;
use crate::permits::Permits;
use crate::verdict::Verdict;

/// What does not change once a connection is open.
#[derive(Debug)]
pub struct Identity {
    pub serial: Serial,
    /// Its name in the log and the console: its id on the worker that opened it.
    pub name: ConnId,
    /// The pooler's own address, once a TCP connection is open.
    pub local: Option<SocketAddr>,
    /// What it was opened to, as the database's entry has it.
    pub host: Arc<Address>,
    /// What it is connected to: of a name, the address that was found.
    pub address: Arc<Address>,
    /// How its bytes are encrypted.
    pub encryption: Encryption,
    /// Of what a client has proved, if the server was shown that.
    pub mark: Option<Mark>,
    /// The settings it was opened with: it may be on its way to another worker while they change.
    pub opened_for: Arc<Database>,
    /// How often RECONNECT had been ordered by then.
    pub reconnects: u32,
    pub connected_at: Time,
    /// The session that it was opened for, and whose own it will be: one that replicates.
    pub opened_for_session: Option<ConnId>,
}

/// The message that is being read.
#[derive(Debug, Default)]
pub struct ServerIncoming {
    /// The beginning of a message that must be read whole.
    pub inbox: Vec<u8>,
    /// Bytes of the current message still to come, its tag, and whether they are the client's.
    pub skip: u32,
    pub skip_tag: u8,
    pub skip_forward: bool,
    /// Of a server that is one session's own: it streams (CopyBothResponse), and no ReadyForQuery has come since.
    pub streams: bool,
}

/// Prepared statements on a server, and its answers about them.
#[derive(Debug)]
pub struct Statements {
    pub prepared: PreparedOnServer,
    /// The description that it is sending to the pooler.
    pub described: Described,
    /// What the pooler has asked about a statement.
    pub verdict: Verdict,
    /// The version of the unnamed statement that it has, if that is known.
    pub unnamed: Version,
    /// Which statements its session's names stand for, for statistics.
    pub spoken: Spoken,
}

/// The reports of a new server, while the pooler asks it for its base.
#[derive(Debug, Default)]
pub struct Begins {
    /// The last reported value of each parameter.
    pub reported: Reported,
    /// The row of its answer.
    pub row: Option<Box<[u8]>>,
}

impl Begins {
    /// A ParameterStatus has come.
    pub fn note(&mut self, name: &[u8], value: &[u8]) {
        match self.reported.iter_mut().find(|(known, _)| **known == *name) {
            Some((_, known)) => *known = value.into(),
            None => self.reported.push((name.into(), value.into())),
        }
    }
}

/// What sessions have set on a server. The next one may need other values.
#[derive(Debug)]
pub struct Kept {
    /// Present while a new server is asked for its base.
    pub begins: Option<Box<Begins>>,
    /// Its role and settings when it was opened, as far as PostgreSQL does not report them.
    pub base: Arc<Base>,
    pub parameters: Arc<Parameters>,
    /// The values that RESET gives it: those of its login, or of PostgreSQL's configuration where that has changed since.
    pub at_reset: Arc<Parameters>,
    pub owners: ParameterOwners,
    /// Untracked parameters whose reported values differ from those that the pool's servers begin with.
    pub reported: Reported,
    /// What sessions have set on it; `None`: nothing.
    pub session_state: Option<Arc<SessionState>>,
    /// Present if it has a role, an authorization, or a setting for which rights are needed.
    pub rights: Option<RightsSince>,
    /// What SQL's PREPARE has left on it.
    pub on_server: OnServer,
    pub sequences: Sequences,
    /// Present if PostgreSQL was told another application_name than the client's.
    pub shown_name: Option<Box<ShownName>>,
}

/// Since when a server has what needs rights, by its session's state.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RightsSince {
    /// Not later than when it was given the oldest of its role, its authorization and its guarded settings.
    pub given_at: Time,
    /// The session that left it last, if all of that is this session's; and when that session had asked for rights last.
    pub last: Option<(Serial, Time)>,
}

/// Another application_name than the client's, by `server_application_name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownName {
    /// What PostgreSQL was told.
    pub shown: Box<[u8]>,
    /// What the client had at that time.
    pub own: Box<[u8]>,
    /// False: the client has set a name since.
    pub is_in_force: bool,
}

impl ShownName {
    /// PostgreSQL has reported a name. Whether it is this one, so that the client is to see its own.
    pub fn is_reported(&mut self, name: &[u8]) -> bool {
        self.is_in_force = *self.shown == *name;
        self.is_in_force
    }
}

impl Kept {
    /// The application_name that PostgreSQL has.
    pub fn name_at_postgresql(&self) -> &[u8] {
        match &self.shown_name {
            Some(name) if name.is_in_force => &name.shown,
            _ => self.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default(),
        }
    }
}

/// The reset that has removed a server's base.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bare {
    /// DISCARD ALL: `connect_query` runs again.
    Cleared,
    /// RESET in `server_reset_query`: the base is set again by name.
    Reset,
}

impl Bare {
    /// None if the server has no base beyond its login.
    #[must_use]
    pub fn of(self, is_login: bool) -> Option<Bare> {
        (!is_login).then_some(self)
    }
}

/// Other marks that sessions leave on a server.
#[derive(Debug, Default)]
pub struct Traces {
    /// A session may have left state on it that was not followed: it is reset before the next session gets it.
    pub needs_reset: bool,
    /// A reset is removing its base, which is set again after it.
    pub bare: Option<Bare>,
    /// The same, because the catalogue shows side effects that were defined past the pooler. A DISCARD ALL of its
    /// session does not clear this mark.
    pub tainted: bool,
    /// A statement that the pooler ran before the client's has failed: what it should have removed may still be there.
    pub prelude_failed: bool,
    /// Its client's open transaction defines something that the pool has noted.
    pub is_unsettled: bool,
    /// A session has had temporary objects on it, or may have: PostgreSQL no longer takes another `temp_buffers` there.
    //= pg18 runtime-config-resource#GUC-TEMP-BUFFERS
    pub has_local_buffers: bool,
    /// LISTEN has run on it, and no UNLISTEN * since.
    pub listens: bool,
    /// The process id, as known to its client, of the last session that ran NOTIFY on it; 0: none has.
    pub notified_by: i32,
    /// The beginning of the last text that it was sent, kept for messages of `chaos_check`.
    pub last_text: Option<Vec<u8>>,
    /// The statements under way, where slow ones are logged.
    pub asked: Option<Box<Asked>>,
    /// The query of the configuration's own that it is answering may set parameters.
    pub query_sets: bool,
}

/// The transaction of its client, or the last one.
#[derive(Debug)]
pub struct Transaction {
    /// The status in its last ReadyForQuery.
    pub status: Status,
    /// A ReadyForQuery has come since the link.
    #[cfg(debug_assertions)]
    pub status_seen: bool,
    /// When the query under way was sent, or the last answer came.
    pub query_at: Time,
    /// When it began: with the first statement that was sent.
    pub began_at: Option<Time>,
    /// Whether statements that other clients have prepared may mean something else after this transaction.
    pub defines: Defines,
    /// Its client's transaction may run under another role by SET LOCAL.
    pub local_rights: bool,
    /// A statement under way needs these databases to have no connections; no names: several statements do.
    pub emptying: Option<Box<[sql::Word]>>,
    /// Its client has got an error for the request being answered.
    pub answer_failed: bool,
    /// What the answer has come to, for statistics.
    pub tally: Tally,
}

impl Transaction {
    /// None, since `at`.
    #[must_use]
    pub fn idle(at: Time) -> Transaction {
        Transaction {
            status: Status::Idle,
            #[cfg(debug_assertions)]
            status_seen: false,
            query_at: at,
            began_at: None,
            defines: Defines::Nothing,
            local_rights: false,
            emptying: None,
            answer_failed: false,
            tally: Tally::default(),
        }
    }
}

/// Whether its client's messages wait for an answer.
#[derive(Debug, Default)]
pub struct Hold {
    waits: Waits,
    /// The last wait of its session for a limit. It is valid while the session's admission says that it waits.
    pub limit_wait: LimitWait,
}

/// What its client's messages wait for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Waits {
    #[default]
    No,
    /// For a ReadyForQuery: after the replay, or after a message that decides which statements exist.
    ForReady,
    /// Within a batch, and a Flush was sent: until nothing is owed.
    ForFlushed,
}

impl Hold {
    #[inline]
    pub fn is_on(&self) -> bool {
        self.waits != Waits::No
    }

    /// They wait behind a Flush.
    pub fn is_flushed(&self) -> bool {
        self.waits == Waits::ForFlushed
    }

    /// They wait from now on, if they do not yet.
    pub fn begin(&mut self) {
        if self.waits == Waits::No {
            self.waits = Waits::ForReady;
        }
    }

    /// A Flush is sent, and they wait for what it brings. False: one was sent already.
    pub fn flush(&mut self) -> bool {
        std::mem::replace(&mut self.waits, Waits::ForFlushed) != Waits::ForFlushed
    }

    /// They go on.
    #[inline]
    pub fn end(&mut self) {
        self.waits = Waits::No;
    }

    /// They wait, or go on.
    pub fn set(&mut self, is_on: bool) {
        if is_on { self.begin() } else { self.end() }
    }
}

/// The wait of a linked session for a limit.
#[derive(Copy, Clone, Debug, Default)]
pub struct LimitWait {
    /// Since when it waits for the first of its limits.
    pub since: Time,
    /// Its deadline in milliseconds; 0: none.
    pub deadline_ms: u32,
}

/// Cancels of its queries.
#[derive(Debug, Default)]
pub struct Cancelling {
    /// Cancel connections under way for the linked session, or the last one.
    pub under_way: u32,
    /// Its client has asked for a cancel, which waits until the server has answered the pooler's own query.
    pub is_requested: bool,
    pub overdue: Overdue,
}

impl Cancelling {
    /// Whether a cancel is wanted or under way, or may hit what comes next.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.under_way > 0 || self.is_requested || self.overdue != Overdue::No
    }
}

/// How it ends.
#[derive(Debug, Default)]
pub struct End {
    /// The server has closed the connection, or is about to: no Terminate is sent.
    pub gone: bool,
    /// It is closed when it is released, and why.
    pub close_needed: Option<CloseReason>,
    /// Its client has got the server's own FATAL error.
    pub fatal_error_forwarded: bool,
}

/// What it works for, and since when.
#[derive(Debug)]
pub struct Work {
    /// When the state last changed.
    pub since: Time,
    /// When its present session got it, or the last one.
    pub linked_at: Time,
    /// How long its session had waited for it, in microseconds.
    pub waited_us: u64,
    /// When a session last had it.
    pub worked_at: Time,
    /// When it was lent to this worker, if no session has had it here yet.
    pub travelled_at: Option<Time>,
    /// How often it was given to a session.
    pub uses: u32,
    /// Which class its time is charged to until it is free.
    pub charge: Option<Charge>,
    /// The permits of a transaction whose session has ended.
    pub permits: Option<Box<Permits>>,
}
