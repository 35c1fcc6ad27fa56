//! One connection to PostgreSQL. It refers to things of its worker by ids only, so that it can be lent to another worker.
//!
//! Its states are in [`states`], and drawn in `docs/states.md`.

mod accessors;
mod asked;
mod chore;
mod close_reason;
pub mod ledger;
mod moving;
mod parameter_owners;
mod parts;
mod sequences;
mod spoken;
pub mod states;
mod tally;

pub use asked::{Asked, AskedText};
pub use chore::Chore;
pub use close_reason::CloseReason;
pub use ledger::{Answerer, Entry, Expect, Ledger, Request, Unexpected};
pub use moving::Arrived;
pub use parameter_owners::{Owner, ParameterOwners};
pub use parts::{
    Bare, Before, Begins, Cancelling, End, Hold, Identity, Kept, Lease, LimitWait, RightsSince, ServerIncoming,
    ShownName, Statements, Traces, Transaction, UnderWay, Work,
};
pub use sequences::Sequences;
pub use spoken::{Said, Spoken};
pub use states::{Group, ServerState};
use std::any::Any;
use std::sync::Arc;
pub use tally::{Call, Tally};

use connections::flow::Flow;
use connections::server_login::BackendKey;
use machine::mail::LentServer;
use session_state::parameter_set::ParameterSet;
use session_state::parameters::{Parameters, Reported, Tracked};
use session_state::prepared::PreparedOnServer;
use session_state::shape::Described;
use session_state::state::{Effect, Effects, OnServer};
use session_state::tracker::Places;
use units::deadline::Armed;
use units::{ConnId, PoolId, Time, limits};
use wire::backend::Status;

use crate::resendable::{KeptRequest, SentBegin};
use crate::special::{Facts, Special, Watched};
use crate::verdict::Verdict;

/// Whether a server's query has taken longer than `query_timeout` allows, where it is then cancelled instead of the
/// session being closed; and whether a cancel, its client's too, may hit the next one.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Overdue {
    #[default]
    No,
    /// Since when it is being cancelled.
    Since(Time),
    /// The query has been answered. The cancel is still under way, and may hit the next query.
    Answered,
}

/// One server connection.
#[derive(Debug)]
pub struct Server {
    state: ServerState,
    pub(crate) pool: PoolId,
    pub(crate) facts: Watched<ServerFacts>,
    pub(crate) ledger: Ledger,
    pub(crate) armed: Armed,
    pub(crate) identity: Identity,
    pub(crate) incoming: ServerIncoming,
    pub(crate) statements: Statements,
    pub(crate) kept: Kept,
    /// The statements under way, where slow ones are logged or some are traced.
    pub(crate) asked: Option<Box<Asked>>,
    pub(crate) lease: Lease,
    pub(crate) backend: BackendKey,
    pub(crate) transaction: Transaction,
    /// The last BEGIN that it was sent.
    pub(crate) begin: SentBegin,
    /// The last request, where reads are sent again.
    pub(crate) request: KeptRequest,
    pub(crate) work: Work,
}

/// The parts of a server that may make its link special.
#[derive(Debug, Default)]
pub struct ServerFacts {
    pub(crate) flow: Flow,
    pub(crate) hold: Hold,
    pub(crate) cancel: Cancelling,
    pub(crate) effects: UnderWay,
    pub(crate) end: End,
    pub(crate) traces: Traces,
}

impl ServerFacts {
    /// A parameter of its session is about to change.
    pub(crate) fn note_before(&mut self, parameters: &Arc<Parameters>, own: ParameterSet) {
        let before = || Box::new(Before { parameters: Arc::clone(parameters), own });
        self.effects.before.get_or_insert_with(before);
    }

    /// A session gets it: what held of the one before is over.
    fn forget_last_link(&mut self) {
        (self.effects.local_rights, self.effects.before) = (false, None);
        self.cancel.linked();
        self.end.fatal_error_forwarded = false;
    }
}

impl Facts for ServerFacts {
    fn special(&self) -> Special {
        let ServerFacts { flow, hold, cancel, effects, end, traces } = self;
        Special::SERVER_PAUSED.if_so(!flow.is_reading() || !flow.is_clear())
            | Special::HELD.if_so(hold.is_on())
            | Special::CANCELLED.if_so(cancel.is_any())
            | Special::EFFECTS.if_so(effects.are_any() || traces.is_unsettled)
            | Special::CLOSES.if_so(end.close_needed.is_some() || end.fatal_error_forwarded)
            | Special::TRACES.if_so(traces.are_any())
            | Special::TEXT_KEPT.if_so(traces.last_text.is_some())
    }
}

impl Server {
    /// A server that a pool is opening. None of its parameters is known yet.
    #[must_use]
    pub fn connecting(now: Time, pool: PoolId, identity: Identity, parameters: Arc<Parameters>) -> Server {
        Server {
            state: ServerState::Connecting,
            pool,
            facts: Watched::new(ServerFacts::default()),
            ledger: Ledger::default(),
            armed: Armed::default(),
            identity,
            incoming: ServerIncoming::default(),
            statements: Statements {
                prepared: PreparedOnServer::default(),
                described: Described::default(),
                unnamed: session_state::unnamed::NONE,
            },
            kept: Kept {
                at_reset: Arc::clone(&parameters),
                parameters,
                reported: Vec::new(),
                begins: None,
                owners: ParameterOwners::default(),
                base: Arc::default(),
                session_state: None,
                rights: None,
                on_server: OnServer::default(),
                sequences: Sequences::default(),
                shown_name: None,
            },
            asked: None,
            lease: Lease::default(),
            backend: BackendKey::default(),
            transaction: Transaction::idle(now),
            begin: SentBegin::default(),
            request: KeptRequest::default(),
            work: Work {
                since: now,
                worked_at: Time::ZERO,
                heard_at: Time::ZERO,
                travelled_at: None,
                uses: 0,
                charge: None,
                permits: None,
            },
        }
    }

    /// The server that another worker has lent.
    ///
    /// # Panics
    /// If another crate has put something else into the mail: there is no other implementation of [`LentServer`].
    #[must_use]
    pub fn of_lent(lent: Box<dyn LentServer>) -> Server {
        let lent: Box<dyn Any> = lent;
        *lent.downcast::<Server>().expect("only servers are lent")
    }

    /// A session gets it.
    #[inline]
    pub(crate) fn linked(&mut self, now: Time, waited_us: u64) {
        self.lease = Lease::of(now, waited_us);
        self.work.count_use();
        self.work.travelled_at = None;
        self.transaction.query_at = now;
        #[cfg(debug_assertions)]
        {
            self.transaction.status_seen = false;
        }
        self.kept.sequences.linked();
        if !self.facts.noted().is_none() {
            self.facts.forget_last_link();
        }
    }

    /// Its session has released it, or is gone: no message waits, and no transaction is under way.
    #[inline]
    pub fn released(&mut self) {
        if self.facts.hold.is_on() {
            self.facts.hold.end();
        }
        debug_assert!(self.transaction.status == Status::Idle, "a server is released outside a transaction");
        self.lease.verdict = Verdict::None;
        self.lease.began_at = None;
    }

    /// It has logged in for the session that it was opened for, with these parameters.
    pub fn logged_in_with(&mut self, parameters: Arc<Parameters>) {
        self.kept.parameters = parameters;
        self.work.count_use();
    }

    /// DISCARD ALL is sent, which removes its base.
    pub fn clear_begins(&mut self) {
        self.facts.traces.bare = Bare::Cleared.of(self.kept.base.is_login());
    }

    /// Whether `connect_query` brings back what a reset has taken away.
    pub fn runs_connect_query(&self) -> bool {
        // Where texts are not read, only the query itself brings it back.
        let runs_again = |bare| bare == Bare::Cleared || !self.kept.base.is_read();
        self.facts.traces.bare.is_some_and(runs_again) && self.identity.opened_for.connect_query.is_some()
    }

    /// What a reset has taken away is there again.
    pub fn restored(&mut self) {
        if self.runs_connect_query() {
            self.kept.owners.begin(self.kept.owners.of_base());
        }
        self.facts.traces.bare = None;
    }

    /// A query of the configuration's own is sent to a server without a session. `is_harmless`: it touches no session state, and calls
    /// nothing that does. `is_followed`: so is what sessions set.
    pub fn own_query_sent(&mut self, effects: &Effects, is_harmless: bool, is_followed: bool) {
        self.facts.traces.query_sets = !is_harmless && !effects.only_reset();
        if is_harmless {
            return;
        }
        let is_cleared = effects.iter().any(|effect| *effect == Effect::DiscardAll) && self.kept.base.has_unlisted();
        let bare = if is_cleared { Bare::Cleared } else { Bare::Reset };
        self.facts.traces.bare = bare.of(self.kept.base.is_login());
        if !is_followed {
            return;
        }
        let before = self.kept.session_state.as_deref().cloned().unwrap_or_default();
        match effects.resets(before) {
            Some(state) => {
                // What it began with is brought back to a server that has nothing of a session's, and only if it can be set by name.
                let has_more = !state.is_initial() || self.kept.base.has_unlisted() && !is_cleared;
                self.facts.traces.needs_reset |= self.facts.traces.bare.is_some() && has_more;
                self.kept.session_state = (!state.is_initial()).then(|| Arc::new(state));
            }
            None => self.facts.traces.needs_reset = true,
        }
    }

    /// Where the statements of a built-in test leave their effects.
    pub fn places<'a>(&'a mut self, tracked: &'a Tracked) -> Places<'a> {
        Places {
            now: Time::ZERO,
            on_server: &mut self.kept.on_server,
            listens: &mut self.facts.traces.listens,
            names: None,
            tracked,
            reported: &self.kept.parameters,
            first: None,
            base: &self.kept.base,
            local_rights: false,
        }
    }

    /// Planted: its facts are taken as ordinary, whatever they are.
    #[cfg(debug_assertions)]
    pub fn overlook_facts(&mut self) {
        self.facts.overlook();
    }

    /// Whether its noted bits follow from its facts (I18).
    pub fn is_noted_rightly(&self) -> bool {
        self.facts.is_in_step()
    }

    /// Planted: its client is gone, and what it owes is forgotten.
    pub fn forget_owed(&mut self) {
        self.ledger = Ledger::default();
        self.transaction.status = Status::Idle;
    }

    pub fn holds_messages(&self) -> bool {
        self.facts.hold.is_on()
    }

    /// What its client's messages waited for has happened. They still wait while a cancel is under way that could hit
    /// them (I4): its end ends the hold too. Returns whether they may go on.
    pub fn end_hold(&mut self) -> bool {
        let may_go_on = self.facts.cancel.overdue != Overdue::Answered;
        if may_go_on {
            self.facts.hold.end();
        }
        may_go_on
    }

    /// Whether the answer that its client's messages wait for has come.
    pub fn has_answered(&self) -> bool {
        let ledger = &self.ledger;
        let settled = if self.facts.hold.is_flushed() {
            ledger.depth() == 0
        } else {
            !ledger.owed().awaits_ready() && !ledger.owed().awaits_verdict()
        };
        (settled || ledger.copying().is_open()) && self.facts.cancel.overdue != Overdue::Answered
    }

    /// Since when its query is being cancelled for `query_timeout`, if it is.
    pub fn overdue_since(&self) -> Option<Time> {
        match self.facts.cancel.overdue {
            // A query that began later is another one.
            Overdue::Since(at) => (at >= self.transaction.query_at).then_some(at),
            Overdue::No | Overdue::Answered => None,
        }
    }

    /// A query of its client has been answered, or has failed.
    #[inline]
    pub(crate) fn query_answered(&mut self) {
        let is_under_way = self.facts.cancel.under_way > 0;
        if is_under_way || self.facts.cancel.overdue != Overdue::No {
            self.facts.cancel.overdue = if is_under_way { Overdue::Answered } else { Overdue::No };
            // A cancel that waited for the end of the pooler's own query comes too late.
            self.facts.cancel.is_requested = false;
        }
    }

    /// Notes a ParameterStatus for an untracked parameter. `base`: the values that the pool's servers begin with.
    pub(crate) fn reports(&mut self, name: &[u8], value: &[u8], base: &Reported) {
        self.kept.reported.retain(|(known, _)| **known != *name);
        let begins = base.iter().find(|(known, _)| **known == *name).map(|(_, value)| &**value);
        if begins.is_some_and(|begins| begins != value) && value.len() <= limits::PARAMETER_LEN_MAX {
            self.kept.reported.push((name.into(), value.into()));
        }
    }

    /// Whether PostgreSQL may commit something while it answers what it owes.
    #[must_use]
    pub fn may_commit(&self) -> bool {
        self.ledger.owed().may_commit(self.transaction.status)
    }

    /// Planted: it counts as clean from its first ReadyForQuery on, whatever else it owes. Only builds with assertions know about that.
    pub fn owes_no_more_after_ready(&mut self) -> bool {
        #[cfg(debug_assertions)]
        if !self.ledger.is_clear() && self.transaction.status_seen {
            self.ledger = Ledger::default();
            self.incoming.skip = 0;
            self.transaction.status = Status::Idle;
            return true;
        }
        false
    }

    /// Nothing owed, nothing half read, outside a transaction (I3).
    pub fn is_clean(&self) -> bool {
        self.ledger.is_clear()
            && self.incoming.skip == 0
            && self.incoming.inbox.is_empty()
            && self.transaction.status == Status::Idle
    }

    /// For a clean server: whether the next session may have it without a reset or a wait.
    #[inline]
    pub fn is_free_at_once(&self) -> bool {
        let flows = self.facts.flow.is_clear() && self.facts.flow.is_reading();
        let Traces { tainted, is_unsettled, has_local_buffers, .. } = self.facts.traces;
        let is_marked = tainted || is_unsettled || has_local_buffers || self.ledger.is_doubtful();
        flows && !is_marked && self.facts.cancel.under_way == 0
    }

    /// Neither an answer nor a transaction is under way.
    pub fn is_between_transactions(&self) -> bool {
        self.ledger.is_clear() && self.is_between_messages() && self.transaction.status == Status::Idle
    }

    /// No message of it is half read.
    pub fn is_between_messages(&self) -> bool {
        self.incoming.skip == 0 && self.incoming.inbox.is_empty()
    }

    /// It is one session's own, and within a request of that session's.
    pub fn is_answering_its_own(&self) -> bool {
        matches!(self.state, ServerState::Own(_)) && self.transaction.status != Status::Idle
    }

    /// The session that has it, for a transaction or for life.
    pub fn session(&self) -> Option<ConnId> {
        match self.state {
            ServerState::Linked(session) | ServerState::Own(session) => Some(session),
            _ => None,
        }
    }
}

impl LentServer for Server {
    fn pool(&self) -> PoolId {
        self.pool
    }
}
