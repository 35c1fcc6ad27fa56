//! Which sessions have used `nextval` on a server. `currval` and `lastval` there return their values to any session.
//!
//! //= pg18 functions-sequence

use machine::moved_server::{Drawer, MovedSequences};
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
    /// As another process is told. `companion`: the session that moves with the server.
    pub(super) fn moved(&self, companion: Option<ConnId>) -> MovedSequences {
        let by = self.by.map(|by| if Some(by) == companion { Drawer::Companion } else { Drawer::Another });
        MovedSequences { by, is_mixed: self.is_mixed }
    }

    /// As another process has told. `companion`: the session that came with the server.
    pub(super) fn of_moved(drawn: MovedSequences, companion: Option<ConnId>) -> Sequences {
        // An id that no session has.
        let nobody = ConnId::from_bits(u64::MAX);
        let by = drawn.by.map(|by| match by {
            Drawer::Companion => companion.unwrap_or(nobody),
            Drawer::Another => nobody,
        });
        Sequences { by, is_mixed: drawn.is_mixed, is_fresh: false }
    }

    /// A session is linked to the server.
    pub(crate) fn linked(&mut self) {
        self.is_fresh = false;
    }

    /// Whether the session could see values of other sessions. `asks`: its statement calls currval; `is_first`: it is
    /// the session's first statement in this link, so that all values here are from others, seen or not; `matters`: a
    /// later statement may call it.
    pub(crate) fn mislead(&self, session: ConnId, asks: bool, is_first: bool, matters: bool) -> bool {
        let others = self.by.is_some_and(|by| by != session);
        others && matters || asks && !self.is_fresh && (self.is_mixed || is_first)
    }

    /// DISCARD SEQUENCES or DISCARD ALL has run.
    pub(crate) fn discarded(&mut self) {
        *self = Sequences::default();
    }

    pub(crate) fn drawn(&mut self, session: ConnId) {
        self.is_mixed |= self.by.is_some_and(|by| by != session);
        (self.by, self.is_fresh) = (Some(session), true);
    }
}
