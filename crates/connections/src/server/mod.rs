//! One connection to PostgreSQL: a value that refers to nothing of its worker but ids, so that it can be lent.
//!
//! ```text
//!  Connecting ─► LoggingIn ─► Busy(Setup) ─► Idle ◄────────────────────────────┐
//!                                            │  ▲                              │
//!                                  link      ▼  │ release           clean      │
//!                                          Linked ──► Draining ──► Busy(Rollback, Reset)
//!                                                     (client vanished)        ▲
//!                      Idle ─► Busy(Check) ─► Idle         Held: a cancel is in flight, or half a message
//! ```

pub mod ledger;
mod sequences;

use std::net::SocketAddr;
use std::sync::Arc;

use auth::{Challenge, ClientExchange};
use session_state::base::Base;
use session_state::parameters::{Parameters, Reported};
use session_state::prepared::Prepared;
use session_state::shape::Described;
use session_state::state::{Defines, OnServer, State as SessionState};
use session_state::unnamed::Version;
use units::deadline::Armed;
use units::{ConnId, PoolId, PoolKey, Serial, Time, WorkerId, limits};
use wire::backend::Status;

use crate::databases::{Address, Database};
use crate::flow::Flow;
use crate::{Charge, Verdict};

pub use ledger::{Answerer, Entry, Expect, Ledger, Unexpected};
pub use sequences::Sequences;

/// What a server is doing.
#[derive(Debug)]
pub enum State {
    Connecting,
    LoggingIn(Box<Login>),
    /// Answering something of the pooler's own.
    Busy(Chore),
    Idle,
    Linked(ConnId),
    /// It listens, for all sessions of its pool on this worker.
    Listening,
    /// Its client is gone; what it still owes is read and thrown away.
    Draining {
        read: u64,
        cancelled: bool,
    },
    /// Nobody's, and not to be handed out yet (I3): a cancel for its last client is under way, half a message has been
    /// read, or its socket has not taken everything.
    Held,
}

/// What the pooler itself asks a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Chore {
    /// `connect_query`
    Setup,
    /// `server_check_query`
    Check,
    /// Ends a transaction whose client is gone.
    Rollback,
    /// `server_reset_query`
    Reset,
    /// `chaos_poison`
    Poison,
    /// `chaos_check`
    Compare,
    /// Whether what names hide has changed.
    Poll,
    /// What names hide.
    Catalogue,
    /// The same, of a pool that knows nothing yet: its clients wait for it.
    First,
    /// A session that has left it listened.
    Unlisten,
    /// What the pool's servers wait for.
    Waits,
}

impl Chore {
    /// Whether it asks what names hide.
    pub fn is_of_names(self) -> bool {
        matches!(self, Chore::Poll | Chore::Catalogue | Chore::First)
    }

    /// Whether its answer's rows are read.
    pub fn asks_for_rows(self) -> bool {
        self.is_of_names() || self == Chore::Waits
    }

    /// As the log says it.
    pub fn words(self) -> &'static str {
        match self {
            Chore::Setup => "connect query",
            Chore::Check => "server check",
            Chore::Rollback => "rollback",
            Chore::Reset => "reset query",
            Chore::Poison => "chaos_poison",
            Chore::Compare => "chaos_check",
            Chore::Poll => "catalogue poll",
            Chore::Catalogue => "catalogue query",
            Chore::First => "first catalogue query",
            Chore::Unlisten => "unlisten",
            Chore::Waits => "question about waits",
        }
    }
}

/// A login in progress.
#[derive(Debug, Default)]
pub struct Login {
    pub scram: Option<ClientExchange>,
    /// Asked of the hashing threads; the answer goes on with the exchange.
    pub computing: Option<Challenge>,
    /// The server has proved that it knows our keys too.
    pub verified: bool,
    pub authenticated: bool,
    /// ParameterStatus as they came.
    pub reported: Reported,
}

/// Whether what a server runs has taken longer than `query_timeout` allows, where that cancels and closes nothing.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Overdue {
    #[default]
    No,
    /// Then it was to be cancelled.
    Since(Time),
    /// It has been answered. The cancel is under way still, and may strike what comes next.
    Answered,
}

/// The groups that a pool counts its servers by.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Group {
    Opening,
    /// Soon idle: checks and resets.
    Returning,
    /// Not soon: draining, held, asked about its database.
    Recovering,
    Idle,
    /// In use.
    Linked,
}

impl State {
    pub fn group(&self) -> Group {
        match self {
            State::Connecting | State::LoggingIn(_) | State::Busy(Chore::Setup) => Group::Opening,
            // Whoever waits need not wait for these.
            State::Busy(Chore::Poll | Chore::Catalogue) | State::Draining { .. } | State::Held => Group::Recovering,
            State::Busy(_) => Group::Returning,
            State::Idle => Group::Idle,
            State::Linked(_) | State::Listening => Group::Linked,
        }
    }
}

/// One server connection.
#[derive(Debug)]
pub struct Server {
    pub serial: Serial,
    /// What the log and the console call it: its id on the worker that opened it.
    pub name: ConnId,
    /// Our end, once it stands by TCP.
    pub local: Option<SocketAddr>,
    pub state: State,
    pub pool: PoolId,
    pub address: Arc<Address>,
    /// The settings it was opened by: it may travel while they are changed.
    pub opened_for: Arc<Database>,
    pub flow: Flow,
    /// The beginning of a message that must be read whole.
    pub inbox: Vec<u8>,
    /// Bytes of the current message still to come, its tag, and whether they are the client's.
    pub skip: u32,
    pub skip_tag: u8,
    pub skip_forward: bool,
    pub ledger: Ledger,
    pub status: Status,
    pub prepared: Prepared,
    /// What it is describing to the pooler.
    pub described: Described,
    /// What it was asked about a statement.
    pub verdict: Verdict,
    /// Whose unnamed statement it has, if that is known.
    pub unnamed: Version,
    pub parameters: Arc<Parameters>,
    /// Of the others that it reports, those that are not as its pool's servers begin with.
    pub reported: Reported,
    /// What was set on it; `None`: nothing.
    pub session_state: Option<Arc<SessionState>>,
    /// What SQL's PREPARE has left on it.
    pub on_server: OnServer,
    pub sequences: Sequences,
    /// What was to be run aside has failed: its statement may be there still.
    pub aside_failed: bool,
    /// What its client's transaction defines is fresh in the pool's catalogue.
    pub is_unsettled: bool,
    /// A statement under way wants these databases to be empty; no names: several do.
    pub emptying: Option<Box<[sql::Word]>>,
    /// Somebody may have left on it what nobody followed to its end: to be cleared before anybody else gets it.
    pub soiled: bool,
    /// The same, because of what was found to be defined past the pooler: whatever its session does does not undo it.
    pub tainted: bool,
    /// When it was a session's last.
    pub worked_at: Time,
    /// The beginning of the text that it was sent last, where `chaos_check` may want to name it.
    pub heard: Option<Vec<u8>>,
    /// LISTEN has run on it, and no UNLISTEN * since.
    pub listens: bool,
    /// The pid that its client knew which said NOTIFY last; 0: nobody has.
    pub notified_by: i32,
    pub backend_pid: i32,
    pub backend_secret: Box<[u8]>,
    pub connected_at: Time,
    /// When the state last changed.
    pub since: Time,
    pub query_at: Time,
    pub transaction_at: Option<Time>,
    /// Cancel connections under way for whoever is, or was, linked.
    pub cancels: u32,
    /// Its client has had an error for the request being answered.
    pub answer_failed: bool,
    /// What other clients have prepared may mean something else once its client's transaction is over.
    pub defines: Defines,
    /// Its client's transaction may have another's rights for itself alone.
    pub local_rights: bool,
    /// Its client asked for a cancel before it was answered itself.
    pub cancel_wanted: bool,
    pub overdue: Overdue,
    /// Who pays for it until it is free.
    pub charge: Option<Charge>,
    /// It has served a session.
    pub used: bool,
    /// When it was lent to this worker, where it has served nobody yet.
    pub travelled_at: Option<Time>,
    /// The other side has closed, or is about to: there is nobody to say goodbye to.
    pub gone: bool,
    /// Not to be used again once released, and why.
    pub close_needed: Option<&'static str>,
    /// A ReadyForQuery has come since the link.
    #[cfg(feature = "sabotage")]
    pub status_seen: bool,
    /// Its client has been told by the server itself why it ends.
    pub last_words_told: bool,
    /// Its client's messages wait for a ReadyForQuery: of its parameters, or of what decides which statements exist.
    pub gated: bool,
    /// They wait in the midst of a batch, which the server was told to answer so far: the gate opens when nothing is owed.
    pub flushed: bool,
    pub armed: Armed,
}

impl Server {
    /// One that is being opened by a pool, with the parameters that are known of it: none.
    #[must_use]
    pub fn connecting(
        now: Time,
        name: ConnId,
        serial: Serial,
        pool: PoolId,
        address: Arc<Address>,
        opened_for: Arc<Database>,
        parameters: Arc<Parameters>,
    ) -> Server {
        Server {
            serial,
            name,
            local: None,
            state: State::Connecting,
            pool,
            address,
            opened_for,
            flow: Flow::default(),
            inbox: Vec::new(),
            skip: 0,
            skip_tag: 0,
            skip_forward: false,
            ledger: Ledger::default(),
            status: Status::Idle,
            prepared: Prepared::default(),
            described: Described::default(),
            verdict: Verdict::None,
            unnamed: session_state::unnamed::NONE,
            parameters,
            reported: Vec::new(),
            session_state: None,
            defines: Defines::Nothing,
            local_rights: false,
            on_server: OnServer::default(),
            sequences: Sequences::default(),
            aside_failed: false,
            is_unsettled: false,
            emptying: None,
            soiled: false,
            tainted: false,
            worked_at: Time::ZERO,
            heard: None,
            listens: false,
            notified_by: 0,
            backend_pid: 0,
            backend_secret: Box::default(),
            connected_at: now,
            since: now,
            query_at: now,
            transaction_at: None,
            cancels: 0,
            answer_failed: false,
            cancel_wanted: false,
            used: false,
            travelled_at: None,
            charge: None,
            gone: false,
            close_needed: None,
            #[cfg(feature = "sabotage")]
            status_seen: false,
            last_words_told: false,
            overdue: Overdue::No,
            gated: false,
            flushed: false,
            armed: Armed::default(),
        }
    }

    pub fn is_gated(&self) -> bool {
        self.gated
    }

    /// What its client's messages wait for has been answered.
    pub fn has_answered(&self) -> bool {
        let ledger = &self.ledger;
        let settled =
            if self.flushed { ledger.depth() == 0 } else { !ledger.awaits_ready() && !ledger.awaits_verdict() };
        (settled || ledger.is_copy_open()) && self.overdue != Overdue::Answered
    }

    /// Since when what it runs is to end, if that is cancelled for want of time.
    pub fn overdue_since(&self) -> Option<Time> {
        match self.overdue {
            // What began later is another query.
            Overdue::Since(at) => (at >= self.query_at).then_some(at),
            Overdue::No | Overdue::Answered => None,
        }
    }

    /// A query of its client's has been answered, or has failed.
    #[inline]
    pub fn query_answered(&mut self) {
        if self.overdue != Overdue::No {
            self.overdue = if self.cancels > 0 { Overdue::Answered } else { Overdue::No };
            // One that waited for an answer of our own to go comes too late.
            self.cancel_wanted = false;
        }
    }

    /// It has told of a parameter that is not tracked; `base`: all that its pool's servers begin with.
    pub fn reports(&mut self, name: &[u8], value: &[u8], base: &Reported) {
        self.reported.retain(|(known, _)| **known != *name);
        let begins = base.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value);
        if begins.is_some_and(|begins| begins != value) && value.len() <= limits::PARAMETER_LEN_MAX {
            self.reported.push((name.into(), value.into()));
        }
    }

    /// Nothing owed, nothing half read, outside a transaction (I3).
    pub fn is_clean(&self) -> bool {
        self.ledger.is_clear() && self.skip == 0 && self.inbox.is_empty() && self.status == Status::Idle
    }

    /// It is clean, and so is what is under way around it: its next session may have it as it is.
    #[inline]
    pub fn is_free_at_once(&self) -> bool {
        let flows = self.flow.is_clear() && self.flow.is_reading();
        let is_marked = self.tainted || self.is_unsettled || self.ledger.is_doubtful();
        flows && !is_marked && self.cancels == 0
    }

    /// It has said nothing by halves.
    pub fn is_between_messages(&self) -> bool {
        self.skip == 0 && self.inbox.is_empty()
    }

    pub fn session(&self) -> Option<ConnId> {
        match self.state {
            State::Linked(session) => Some(session),
            _ => None,
        }
    }
}

/// A server on its way to another worker, idle and clean.
#[derive(Debug)]
pub struct Lent {
    pub server: Server,
    /// Since when it has had no work: whoever gets it checks it first if that is long ago.
    pub idle_since: Time,
    pub key: PoolKey,
    pub homes: u16,
    /// What sessions of this pool are told at login, where they do not know it yet.
    pub base: Option<Arc<Base>>,
    /// Who counts it until the other side acknowledges.
    pub from: WorkerId,
    pub to: WorkerId,
}

impl Lent {
    #[must_use]
    pub fn pool(&self) -> PoolId {
        self.server.pool
    }
}
