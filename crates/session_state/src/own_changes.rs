//! The tracked parameters that a session's statements set for the session, and those that they reset.
//!
//! ```text
//!   SET TimeZone = 'UTC'       set     the session's own, also where its server has the same value by itself
//!   RESET TimeZone, RESET ALL  reset   as the session began: its server's, or its startup packet's
//!   SET LOCAL, ROLLBACK        nothing
//! ```
//!
//! A transaction's changes are one value, so that a savepoint is a copy of it and a rollback forgets it
//! ([`crate::state::journal`]).

use crate::parameter_set::ParameterSet;

/// Changes one after the other, as one.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OwnChanges {
    /// As the session began.
    pub reset: ParameterSet,
    /// Set, after any reset.
    pub set: ParameterSet,
}

impl OwnChanges {
    #[must_use]
    pub fn of_set(set: ParameterSet) -> OwnChanges {
        OwnChanges { reset: ParameterSet::NONE, set }
    }

    #[must_use]
    pub fn of_reset(reset: ParameterSet) -> OwnChanges {
        OwnChanges { reset, set: ParameterSet::NONE }
    }

    #[must_use]
    pub fn is_none(self) -> bool {
        self == OwnChanges::default()
    }

    /// These changes, and then `later`.
    #[must_use]
    pub fn then(self, later: OwnChanges) -> OwnChanges {
        OwnChanges { reset: self.reset | later.reset, set: self.set.without(later.reset) | later.set }
    }

    /// The parameters that belong to the session, or are set on its server, by these changes. `before`: those that did so before;
    /// `first`: those that the session began with.
    #[must_use]
    pub fn over(self, before: ParameterSet, first: ParameterSet) -> ParameterSet {
        before.without(self.reset) | first & self.reset | self.set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_change_of_a_parameter_holds() {
        let (zone, style) = (ParameterSet::one(2), ParameterSet::one(1));
        let (set, reset) = (OwnChanges::of_set(zone), OwnChanges::of_reset(ParameterSet::ALL));
        let over = |changes: OwnChanges, first| changes.over(zone | style, first);
        assert_eq!(over(set.then(reset), ParameterSet::NONE), ParameterSet::NONE);
        assert_eq!(over(set.then(reset), style), style, "it is as in the startup packet again");
        assert_eq!(over(reset.then(set), ParameterSet::NONE), zone);
        assert_eq!(over(OwnChanges::default(), ParameterSet::NONE), zone | style);
        assert!(OwnChanges::default().then(OwnChanges::default()).is_none() && !set.is_none());
    }
}
