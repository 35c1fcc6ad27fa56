//! Who has drawn from sequences on a server: `currval` and `lastval` there tell of it, whoever asks.
//!
//! //= pg18 functions-sequence

use units::ConnId;

#[derive(Debug, Default)]
pub struct Sequences {
    /// The last session that did.
    by: Option<ConnId>,
    /// Others did before it.
    is_mixed: bool,
    /// It did so since it was linked.
    is_fresh: bool,
}

impl Sequences {
    /// A session has the server from now on.
    pub fn linked(&mut self) {
        self.is_fresh = false;
    }

    /// Whether others' draws would be told of. `asks`: currval is asked for; `is_first`: by the first that the session says
    /// here, so that whatever was drawn, others drew, seen or not; `matters`: it may be asked for, later.
    pub fn mislead(&self, session: ConnId, asks: bool, is_first: bool, matters: bool) -> bool {
        let others = self.by.is_some_and(|by| by != session);
        others && matters || asks && !self.is_fresh && (self.is_mixed || is_first)
    }

    /// All is forgotten, by DISCARD SEQUENCES or DISCARD ALL.
    pub fn discarded(&mut self) {
        *self = Sequences::default();
    }

    pub fn drawn(&mut self, session: ConnId) {
        self.is_mixed |= self.by.is_some_and(|by| by != session);
        (self.by, self.is_fresh) = (Some(session), true);
    }
}
