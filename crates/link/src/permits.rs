//! The permits that a transaction has under the limits that apply to it.

use std::sync::Arc;

use units::Time;

/// The permits of one transaction. Its session has them; if the session ends first, its server has them until the
/// transaction is over.
#[derive(Clone, Debug)]
pub struct Permits {
    /// Of its class, by name: a reload may number classes anew.
    pub(crate) class: Option<Arc<str>>,
    /// Of its first statement, by fingerprint.
    pub(crate) statement: Option<u64>,
    pub(crate) since: Time,
    /// When its client sent it: before `since`, if it had to wait for the permit.
    pub(crate) requested_at: Time,
    /// When it got its server.
    pub(crate) linked_at: Option<Time>,
}

impl Permits {
    /// It has the permit of this class.
    pub fn take_class(&mut self, class: &Arc<str>) {
        self.class = Some(Arc::clone(class));
    }

    /// It has the permit of a statement with this fingerprint.
    pub fn take_statement(&mut self, fingerprint: u64) {
        self.statement = Some(fingerprint);
    }

    /// The session has its server.
    pub fn linked(&mut self, now: Time) {
        self.linked_at.get_or_insert(now);
    }

    /// The permit of its class, by name.
    pub fn class(&self) -> Option<&Arc<str>> {
        self.class.as_ref()
    }

    /// The permit of its first statement, by fingerprint.
    pub fn statement(&self) -> Option<u64> {
        self.statement
    }

    pub fn since(&self) -> Time {
        self.since
    }

    /// When its client sent the request.
    pub fn requested_at(&self) -> Time {
        self.requested_at
    }

    /// When it got its server.
    pub fn linked_at(&self) -> Option<Time> {
        self.linked_at
    }

    /// None yet, for a transaction that was requested at `asked_at` and comes to its first limit now.
    #[must_use]
    pub(crate) fn new(now: Time, asked_at: Time) -> Permits {
        Permits { class: None, statement: None, since: now, requested_at: asked_at, linked_at: None }
    }
}
