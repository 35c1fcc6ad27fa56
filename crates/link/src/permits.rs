//! The permits that a transaction has under the limits that apply to it.

use std::sync::Arc;

use units::Time;

/// The permits of one transaction. Its session has them; if the session ends first, its server has them until the
/// transaction is over.
#[derive(Clone, Debug)]
pub struct Permits {
    /// Of its class, by name: a reload may number classes anew.
    pub class: Option<Arc<str>>,
    /// Of its first statement, by fingerprint.
    pub statement: Option<u64>,
    pub since: Time,
    /// When its client sent it: before `since`, if it had to wait for the permit.
    pub requested_at: Time,
    /// When it got its server.
    pub linked_at: Option<Time>,
}

impl Permits {
    /// None yet, for a transaction that was requested at `asked_at` and comes to its first limit now.
    #[must_use]
    pub fn new(now: Time, asked_at: Time) -> Permits {
        Permits { class: None, statement: None, since: now, requested_at: asked_at, linked_at: None }
    }
}
