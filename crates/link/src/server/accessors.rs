//! Accessors of a server for the crate `worker`, and its parts, which have methods of their own.

use connections::flow::Flow;
use connections::server_login::BackendKey;
use session_state::parameters::Interned;
use units::deadline::{Armed, Deadlines, Owner};
use units::{ConnId, PoolId, Time};

use super::{
    Cancelling, End, Hold, Identity, Kept, Lease, Ledger, Server, ServerIncoming, ServerState, Statements, Traces,
    Transaction, Work,
};

impl Server {
    /// Its pool.
    #[inline]
    pub fn pool(&self) -> PoolId {
        self.pool
    }

    /// The bytes that its socket has not taken, and whether it is read.
    #[inline]
    pub fn flow(&self) -> &Flow {
        &self.facts.flow
    }

    #[inline]
    pub fn flow_mut(&mut self) -> &mut Flow {
        &mut self.facts.flow
    }

    /// The answers that it owes.
    #[inline]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    #[inline]
    pub fn ledger_mut(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// What does not change once its connection is open.
    #[inline]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    #[inline]
    pub fn identity_mut(&mut self) -> &mut Identity {
        &mut self.identity
    }

    /// The message that is being read.
    #[inline]
    pub fn incoming(&self) -> &ServerIncoming {
        &self.incoming
    }

    #[inline]
    pub fn incoming_mut(&mut self) -> &mut ServerIncoming {
        &mut self.incoming
    }

    /// The values of its present link, or of the last one.
    #[inline]
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Its session has it and has sent nothing yet.
    pub fn not_begun(&mut self) {
        self.lease.began_at = None;
    }

    /// Its prepared statements.
    #[inline]
    pub fn statements(&self) -> &Statements {
        &self.statements
    }

    #[inline]
    pub fn statements_mut(&mut self) -> &mut Statements {
        &mut self.statements
    }

    /// What sessions have set on it.
    #[inline]
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    #[inline]
    pub fn kept_mut(&mut self) -> &mut Kept {
        &mut self.kept
    }

    /// Other marks that sessions have left on it.
    #[inline]
    pub fn traces(&self) -> &Traces {
        &self.facts.traces
    }

    #[inline]
    pub fn traces_mut(&mut self) -> &mut Traces {
        &mut self.facts.traces
    }

    /// Its process id, and the secret with which its queries are cancelled.
    #[inline]
    pub fn backend(&self) -> &BackendKey {
        &self.backend
    }

    /// The transaction of its client, or the last one.
    #[inline]
    pub fn transaction(&self) -> &Transaction {
        &self.transaction
    }

    #[inline]
    pub fn transaction_mut(&mut self) -> &mut Transaction {
        &mut self.transaction
    }

    /// Whether its client's messages wait.
    #[inline]
    pub fn hold(&self) -> &Hold {
        &self.facts.hold
    }

    #[inline]
    pub fn hold_mut(&mut self) -> &mut Hold {
        &mut self.facts.hold
    }

    /// Cancels of its queries.
    #[inline]
    pub fn cancel(&self) -> &Cancelling {
        &self.facts.cancel
    }

    #[inline]
    pub fn cancel_mut(&mut self) -> &mut Cancelling {
        &mut self.facts.cancel
    }

    /// How it ends.
    #[inline]
    pub fn end(&self) -> &End {
        &self.facts.end
    }

    #[inline]
    pub fn end_mut(&mut self) -> &mut End {
        &mut self.facts.end
    }

    /// What it works for, and since when.
    #[inline]
    pub fn work(&self) -> &Work {
        &self.work
    }

    #[inline]
    pub fn work_mut(&mut self) -> &mut Work {
        &mut self.work
    }

    /// Arms its timer.
    pub fn arm(&mut self, deadlines: &mut Deadlines, own: ConnId, at: Time) {
        deadlines.arm(Owner::Conn(own), &mut self.armed, at);
    }

    /// Whether its timer was armed for this time last.
    pub fn is_due(&mut self, at: Time) -> bool {
        self.armed.spend(at)
    }

    /// Whether its timer is early enough for something that is due at this time.
    #[inline]
    pub fn is_armed_by(&self, at: Time) -> bool {
        self.armed.is_by(at)
    }

    /// It has come from another worker, which had its timer, its versions of statements, and its copy of parameters.
    pub fn arrived_here(&mut self, interned: &mut Interned) {
        debug_assert!(matches!(self.state, ServerState::Held), "its sender has withheld it");
        self.armed = Armed::default();
        self.facts.flow.restart();
        self.statements.unnamed = session_state::unnamed::UNKNOWN;
        self.kept.intern(interned);
    }
}
