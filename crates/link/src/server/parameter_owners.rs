//! For each tracked parameter of a server: PostgreSQL's configuration, a session or the pooler decides its value.
//!
//! ```text
//!   configuration    after login and after RESET: a changed configuration reaches the parameter, and the server reports it
//!   session          a session has set it, or the pooler has for a session that had set it elsewhere
//!   pooler           connect_query has set it, or the pooler has for sessions that have set none, where RESET would give another value
//! ```
//!
//! Promises: a parameter that a session has set and not reset is the session's, also if its value is the configuration's.
//!
//! //= pg18 sql-reset

use machine::moved_server::MovedOwners;
use session_state::own_changes::OwnChanges;
use session_state::parameter_set::ParameterSet;
use session_state::parameters::Tracked;

/// The owner of a parameter's value on a server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Owner {
    Configuration,
    Session,
    Pooler,
}

#[derive(Copy, Clone, Debug, Default)]
pub struct ParameterOwners {
    by_session: ParameterSet,
    by_pooler: ParameterSet,
    /// Set by `connect_query`: RESET does not give them the value that sessions begin with.
    base: ParameterSet,
    /// The changes that the pooler's last query makes.
    sent: OwnChanges,
    /// The parameters of sessions, and of the pooler, before that query.
    before: (ParameterSet, ParameterSet),
}

impl ParameterOwners {
    #[must_use]
    pub(crate) fn of(&self, index: usize) -> Owner {
        match () {
            () if self.by_session.contains(index) => Owner::Session,
            () if self.by_pooler.contains(index) => Owner::Pooler,
            () => Owner::Configuration,
        }
    }

    /// The parameters that belong to sessions, of those that other sessions are given by RESET.
    #[inline]
    #[must_use]
    pub fn of_sessions(&self) -> ParameterSet {
        self.by_session & Tracked::EVER_RESET
    }

    /// The parameters that the pooler has set for sessions that have set none.
    #[must_use]
    pub(crate) fn of_pooler(&self) -> ParameterSet {
        self.by_pooler
    }

    /// The parameters that `connect_query` has set.
    #[must_use]
    pub(crate) fn of_base(&self) -> ParameterSet {
        self.base
    }

    /// `connect_query` has set these.
    pub(crate) fn begin(&mut self, base: ParameterSet) {
        *self = ParameterOwners { base, by_pooler: base, ..ParameterOwners::default() };
    }

    /// A session's statements have done this.
    pub(crate) fn change(&mut self, changes: OwnChanges) {
        self.by_session = changes.over(self.by_session, ParameterSet::NONE);
        self.by_pooler = self.by_pooler.without(changes.reset | changes.set);
    }

    /// The pooler sends a query that does this for a session. `own`: the parameters that the session has set itself; the server then has no
    /// other session's, but for those that are being reset. A RESET counts once it is accepted.
    pub(crate) fn send(&mut self, changes: OwnChanges, own: ParameterSet) {
        (self.sent, self.before) = (changes, (self.by_session, self.by_pooler));
        let set = changes.set;
        let others = self.by_session.without(own | changes.reset);
        self.by_session = self.by_session.without(set | others) | set & own;
        self.by_pooler = self.by_pooler.without(set) | set.without(own) | others;
    }

    /// The server has accepted it.
    pub(crate) fn accepted(&mut self) {
        self.by_session = self.by_session.without(self.sent.reset);
        self.by_pooler = self.by_pooler.without(self.sent.reset);
    }

    /// The server has refused it: its transaction is rolled back.
    pub(crate) fn refused(&mut self) {
        (self.by_session, self.by_pooler) = self.before;
    }

    /// The changes that the pooler's last query makes.
    #[must_use]
    pub(crate) fn sent(&self) -> OwnChanges {
        self.sent
    }

    pub(super) fn moved(&self, tracked: &Tracked) -> MovedOwners {
        let [by_session, by_pooler, base] =
            [self.by_session, self.by_pooler, self.base].map(|set| tracked.names_of(set));
        MovedOwners { by_session, by_pooler, base }
    }

    pub(super) fn of_moved(moved: &MovedOwners, tracked: &Tracked) -> ParameterOwners {
        let [by_session, by_pooler, base] = [&moved.by_session, &moved.by_pooler, &moved.base]
            .map(|names| tracked.set_of(names.iter().map(String::as_bytes)));
        ParameterOwners { by_session, by_pooler, base, ..ParameterOwners::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ZONE: usize = 2;

    #[test]
    fn a_parameter_has_one_owner() {
        let zone = ParameterSet::one(ZONE);
        let mut owners = ParameterOwners::default();
        assert_eq!(owners.of(ZONE), Owner::Configuration);
        owners.change(OwnChanges::of_set(zone));
        assert_eq!(owners.of(ZONE), Owner::Session);
        owners.send(OwnChanges::of_reset(zone), ParameterSet::NONE);
        assert_eq!(owners.of(ZONE), Owner::Session, "the RESET may be refused");
        owners.accepted();
        assert_eq!(owners.of(ZONE), Owner::Configuration);
        owners.send(OwnChanges::of_set(zone), zone);
        owners.refused();
        assert_eq!(owners.of(ZONE), Owner::Configuration);
        owners.send(OwnChanges::of_set(zone), ParameterSet::NONE);
        assert_eq!(owners.of(ZONE), Owner::Pooler, "for a session that has set none");
        owners.send(OwnChanges::of_set(zone), zone);
        assert_eq!(owners.of(ZONE), Owner::Session);
        owners.change(OwnChanges::of_reset(ParameterSet::ALL));
        assert_eq!(owners.of(ZONE), Owner::Configuration);
    }

    #[test]
    fn what_texts_are_read_by_is_never_reset() {
        let mut owners = ParameterOwners::default();
        owners.change(OwnChanges::of_set(ParameterSet::ALL));
        assert_eq!(owners.of(Tracked::CLIENT_ENCODING), Owner::Session);
        let of_sessions = owners.of_sessions();
        assert!(of_sessions.contains(ZONE) && !of_sessions.contains(Tracked::CLIENT_ENCODING));
    }

    #[test]
    fn owners_are_the_same_in_the_other_process() {
        let tracked = Tracked::new(&[]);
        let mut owners = ParameterOwners::default();
        owners.begin(ParameterSet::one(1));
        owners.change(OwnChanges::of_set(ParameterSet::one(ZONE)));
        let there = ParameterOwners::of_moved(&owners.moved(&tracked), &tracked);
        assert_eq!([1, ZONE].map(|index| there.of(index)), [Owner::Pooler, Owner::Session]);
        assert_eq!(there.of_base(), owners.of_base());
    }
}
