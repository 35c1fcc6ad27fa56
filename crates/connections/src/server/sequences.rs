//! Which sessions have used `nextval` on a server. `currval` and `lastval` there return their values to any session.
//!
//! //= pg18 functions-sequence

use units::ConnId;

#[derive(Debug, Default)]
pub struct Sequences {
    /// The last session that used `nextval`.
    by: Option<ConnId>,
    /// Others used it before.
    is_mixed: bool,
    /// It used it since it was linked.
    is_fresh: bool,
}

impl Sequences {
    /// A session is linked to the server.
    pub fn linked(&mut self) {
        self.is_fresh = false;
    }

    /// Whether the session could see values of other sessions. `asks`: its statement calls currval; `is_first`: it is
    /// the session's first statement in this link, so that all values here are from others, seen or not; `matters`: a
    /// later statement may call it.
    pub fn mislead(&self, session: ConnId, asks: bool, is_first: bool, matters: bool) -> bool {
        let others = self.by.is_some_and(|by| by != session);
        others && matters || asks && !self.is_fresh && (self.is_mixed || is_first)
    }

    /// DISCARD SEQUENCES or DISCARD ALL has run.
    pub fn discarded(&mut self) {
        *self = Sequences::default();
    }

    pub fn drawn(&mut self, session: ConnId) {
        self.is_mixed |= self.by.is_some_and(|by| by != session);
        (self.by, self.is_fresh) = (Some(session), true);
    }
}
