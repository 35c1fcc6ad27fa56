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
mod parts;
mod sequences;

use std::sync::Arc;

use auth::{Challenge, ClientExchange};
use session_state::base::Base;
use session_state::parameters::{Parameters, Reported};
use session_state::prepared::PreparedOnServer;
use session_state::shape::Described;
use session_state::state::{Defines, OnServer};
use units::deadline::Armed;
use units::{ConnId, PoolId, PoolKey, Serial, Time, WorkerId, limits};
use wire::backend::Status;

use crate::Verdict;
use crate::databases::{Address, Database};
use crate::flow::Flow;

pub use ledger::{Answerer, Entry, Expect, Ledger, Unexpected};
pub use parts::{
    BackendKey, Cancelling, End, Hold, Identity, Incoming, Kept, LimitWait, Statements, Traces, Transaction, Work,
};
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
    pub state: State,
    pub pool: PoolId,
    pub flow: Flow,
    pub ledger: Ledger,
    pub armed: Armed,
    pub identity: Identity,
    pub incoming: Incoming,
    pub statements: Statements,
    pub kept: Kept,
    pub traces: Traces,
    pub backend: BackendKey,
    pub transaction: Transaction,
    pub hold: Hold,
    pub cancel: Cancelling,
    pub end: End,
    pub work: Work,
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
            state: State::Connecting,
            pool,
            flow: Flow::default(),
            ledger: Ledger::default(),
            armed: Armed::default(),
            identity: Identity { serial, name, local: None, address, opened_for, connected_at: now },
            incoming: Incoming::default(),
            statements: Statements {
                prepared: PreparedOnServer::default(),
                described: Described::default(),
                verdict: Verdict::None,
                unnamed: session_state::unnamed::NONE,
            },
            kept: Kept {
                parameters,
                reported: Vec::new(),
                session_state: None,
                on_server: OnServer::default(),
                sequences: Sequences::default(),
            },
            traces: Traces::default(),
            backend: BackendKey::default(),
            transaction: Transaction {
                status: Status::Idle,
                #[cfg(feature = "sabotage")]
                status_seen: false,
                query_at: now,
                began_at: None,
                defines: Defines::Nothing,
                local_rights: false,
                emptying: None,
                answer_failed: false,
            },
            hold: Hold::default(),
            cancel: Cancelling::default(),
            end: End::default(),
            work: Work {
                since: now,
                worked_at: Time::ZERO,
                travelled_at: None,
                used: false,
                charge: None,
                permits: None,
            },
        }
    }

    pub fn holds_messages(&self) -> bool {
        self.hold.is_on
    }

    /// What its client's messages wait for has been answered.
    pub fn has_answered(&self) -> bool {
        let ledger = &self.ledger;
        let settled =
            if self.hold.flushed { ledger.depth() == 0 } else { !ledger.awaits_ready() && !ledger.awaits_verdict() };
        (settled || ledger.is_copy_open()) && self.cancel.overdue != Overdue::Answered
    }

    /// Since when what it runs is to end, if that is cancelled for want of time.
    pub fn overdue_since(&self) -> Option<Time> {
        match self.cancel.overdue {
            // What began later is another query.
            Overdue::Since(at) => (at >= self.transaction.query_at).then_some(at),
            Overdue::No | Overdue::Answered => None,
        }
    }

    /// A query of its client's has been answered, or has failed.
    #[inline]
    pub fn query_answered(&mut self) {
        if self.cancel.overdue != Overdue::No {
            self.cancel.overdue = if self.cancel.under_way > 0 { Overdue::Answered } else { Overdue::No };
            // One that waited for an answer of our own to go comes too late.
            self.cancel.is_wanted = false;
        }
    }

    /// It has told of a parameter that is not tracked; `base`: all that its pool's servers begin with.
    pub fn reports(&mut self, name: &[u8], value: &[u8], base: &Reported) {
        self.kept.reported.retain(|(known, _)| **known != *name);
        let begins = base.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value);
        if begins.is_some_and(|begins| begins != value) && value.len() <= limits::PARAMETER_LEN_MAX {
            self.kept.reported.push((name.into(), value.into()));
        }
    }

    /// Nothing owed, nothing half read, outside a transaction (I3).
    pub fn is_clean(&self) -> bool {
        self.ledger.is_clear()
            && self.incoming.skip == 0
            && self.incoming.inbox.is_empty()
            && self.transaction.status == Status::Idle
    }

    /// It is clean, and so is what is under way around it: its next session may have it as it is.
    #[inline]
    pub fn is_free_at_once(&self) -> bool {
        let flows = self.flow.is_clear() && self.flow.is_reading();
        let is_marked = self.traces.tainted || self.traces.is_unsettled || self.ledger.is_doubtful();
        flows && !is_marked && self.cancel.under_way == 0
    }

    /// Nothing is under way on it, neither an answer nor a transaction.
    pub fn is_between_transactions(&self) -> bool {
        self.ledger.is_clear() && self.is_between_messages() && self.transaction.status == Status::Idle
    }

    /// It has said nothing by halves.
    pub fn is_between_messages(&self) -> bool {
        self.incoming.skip == 0 && self.incoming.inbox.is_empty()
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
