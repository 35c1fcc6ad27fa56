//! Accessors of a session for the crate `worker`, and its parts, which have methods of their own.

use std::sync::Arc;

use connections::flow::Flow;
use machine::arrival::Identity;
use session_state::login_report::LoginReport;
use session_state::parameters::Parameters;
use session_state::tracker::Tracker;
use units::deadline::{Deadlines, Owner};
use units::{ConnId, PoolId, PoolKey, StatementRow, Time};

use super::{Claim, ClientStatements, Incoming, OwnParameters, Session};

impl Session {
    /// Its pool.
    #[inline]
    pub fn pool(&self) -> PoolId {
        self.pool
    }

    /// The client, as it has logged in.
    #[inline]
    pub fn identity(&self) -> &Arc<Identity> {
        &self.identity
    }

    /// The values of its tracked parameters.
    #[inline]
    pub fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    /// The parameters that it has set itself.
    #[inline]
    pub fn own(&self) -> &OwnParameters {
        &self.own
    }

    /// A server has accepted its parameters once.
    #[inline]
    pub fn is_confirmed(&self) -> bool {
        self.confirmed
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

    /// The bytes that it has sent and that are not dealt with yet.
    #[inline]
    pub fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    #[inline]
    pub fn incoming_mut(&mut self) -> &mut Incoming {
        &mut self.incoming
    }

    /// The statements that it has prepared.
    #[inline]
    pub fn statements(&self) -> &ClientStatements {
        &self.statements
    }

    #[inline]
    pub fn statements_mut(&mut self) -> &mut ClientStatements {
        &mut self.statements
    }

    /// Its class, and what the limits allow it.
    #[inline]
    pub fn claim(&self) -> &Claim {
        &self.facts.claim
    }

    #[inline]
    pub fn claim_mut(&mut self) -> &mut Claim {
        &mut self.facts.claim
    }

    /// When its last request was sent.
    #[inline]
    pub fn request_at(&self) -> Time {
        self.request_at
    }

    /// When the last byte moved, in either direction.
    #[inline]
    pub fn progress_at(&self) -> Time {
        self.progress_at
    }

    /// The statement that was answered last.
    #[inline]
    pub fn last_statement(&self) -> StatementRow {
        self.last_statement
    }

    /// Its tracker, while there is session state to follow.
    #[inline]
    pub fn tracker(&self) -> Option<&Tracker> {
        self.facts.tracker.as_deref()
    }

    #[inline]
    pub fn tracker_mut(&mut self) -> Option<&mut Tracker> {
        // What it has to follow is no fact of the link: that it is there is one.
        if self.facts.tracker.is_some() { self.facts.tracker.as_deref_mut() } else { None }
    }

    /// There is something to follow from now on.
    pub fn ensure_tracker(&mut self) -> &mut Tracker {
        self.facts.tracker.get_or_insert_default()
    }

    /// The session ends.
    pub fn take_tracker(&mut self) -> Option<Box<Tracker>> {
        self.facts.tracker.take()
    }

    /// It sends a request.
    #[inline]
    pub fn requests(&mut self, now: Time) {
        self.request_at = now;
    }

    /// A byte has moved, in either direction.
    #[inline]
    pub fn progresses(&mut self, now: Time) {
        self.progress_at = now;
    }

    /// Its login ends with this report: a parameter that it has not set itself follows the pool's servers.
    pub fn begin_with(&mut self, report: &LoginReport) {
        self.own = OwnParameters::begun(self.parameters.known(), report.edition);
        self.reset_to = report.reset_to();
    }

    /// It has these parameters from the end of its login on. Returns those of its startup packet.
    pub fn take_parameters(&mut self, parameters: Arc<Parameters>, report: &LoginReport) -> Arc<Parameters> {
        self.confirmed = self.facts.tracker.is_none() && Arc::ptr_eq(&parameters, &report.parameters);
        std::mem::replace(&mut self.parameters, parameters)
    }

    /// It replicates: its own server has logged in with these parameters.
    pub fn take_own_parameters(&mut self, parameters: Arc<Parameters>) {
        self.parameters = parameters;
    }

    /// It has come from another process: its database and user have the names of its pool's, so that there is one copy.
    pub fn share_names(&mut self, key: &PoolKey) {
        if let Some(identity) = Arc::get_mut(&mut self.identity) {
            identity.share_names(key);
        }
    }

    /// Arms its timer.
    pub fn arm(&mut self, deadlines: &mut Deadlines, own: ConnId, at: Time) {
        deadlines.arm(Owner::Conn(own), &mut self.armed, at);
    }

    /// Whether its timer was armed for this time last.
    pub fn is_due(&mut self, at: Time) -> bool {
        self.armed.spend(at)
    }
}
