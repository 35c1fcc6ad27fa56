//! Tracked parameters that the statements being answered have reset, by index: the server has its own values, and the session what
//! it began with; but what a statement has set after that is as it was set.

use super::Tracker;
use crate::own_changes::OwnChanges;
use crate::parameter_set::ParameterSet;

#[derive(Copy, Clone, Debug, Default)]
pub struct Restarting {
    reset: ParameterSet,
    /// Reset, and set after that.
    set: ParameterSet,
    /// Both, as far as an error undoes nothing of it.
    committed: (ParameterSet, ParameterSet),
    /// Parameters that were reported since the session's statements were last settled.
    reported: ParameterSet,
    /// Since the last ReadyForQuery something has run that may have changed parameters which servers report.
    pub(super) may_report: bool,
    /// Some have been, before the last ReadyForQuery: the server may have other values than the session.
    is_done: bool,
}

impl Restarting {
    pub(super) fn reset(&mut self, index: usize) {
        let one = ParameterSet::one(index);
        (self.reset, self.set) = (self.reset | one, self.set.without(one));
    }

    pub(super) fn reset_all(&mut self) {
        (self.reset, self.set) = (ParameterSet::ALL, ParameterSet::NONE);
    }

    pub(super) fn set(&mut self, index: usize) {
        let was_reset = self.reset & ParameterSet::one(index);
        self.reset = self.reset.without(was_reset);
        self.set |= was_reset;
    }

    /// A parameter was reported while the session had the server.
    pub fn note_reported(&mut self, index: usize) {
        self.reported.insert(index);
    }

    /// The parameters that were reported since this was last asked.
    pub fn reported(&self) -> ParameterSet {
        self.reported
    }

    /// Returns these parameters and forgets them.
    pub(super) fn take_reported(&mut self) -> ParameterSet {
        std::mem::take(&mut self.reported)
    }

    pub fn is_any(&self) -> bool {
        !(self.reset | self.set).is_empty()
    }

    /// Whether a parameter that is reported now is so because the client has reset it.
    pub fn is_reset(&self, index: usize) -> bool {
        self.reset.contains(index)
    }

    /// Whether the client has set it after that. A server before PostgreSQL 14 may have reported it when it was still taken for reset.
    pub fn is_set(&self, index: usize) -> bool {
        self.set.contains(index)
    }

    /// The client's ReadyForQuery.
    pub(super) fn ready(&mut self) {
        *self = Restarting { is_done: self.is_done | self.is_any(), reported: self.reported, ..Restarting::default() };
    }

    /// PostgreSQL has committed all resets so far.
    pub(super) fn committed(&mut self) {
        self.committed = (self.reset, self.set);
    }

    /// An error came: what was reset in the same batch and is not committed is as it was before.
    pub(super) fn failed(&mut self) {
        (self.reset, self.set) = self.committed;
    }

    /// As a tracker that comes from another process has it.
    pub(super) fn with_done(is_done: bool) -> Restarting {
        Restarting { is_done, ..Restarting::default() }
    }

    /// Code has reset some.
    pub fn be_done(&mut self) {
        self.is_done = true;
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    pub(super) fn take_done(&mut self) -> bool {
        std::mem::take(&mut self.is_done)
    }
}

/// SET of a tracked parameter has run.
pub(super) fn set_parameter(tracker: &mut Tracker, index: usize, is_local: bool) {
    tracker.restarting.set(index);
    if !is_local {
        tracker.journal.change_own(OwnChanges::of_set(ParameterSet::one(index)));
    }
}

/// RESET of a tracked parameter has run.
pub(super) fn reset_parameter(tracker: &mut Tracker, index: usize) {
    tracker.restarting.reset(index);
    tracker.journal.change_own(OwnChanges::of_reset(ParameterSet::one(index)));
}

/// RESET ALL, or DISCARD ALL, has run.
pub(super) fn reset_parameters(tracker: &mut Tracker) {
    tracker.restarting.reset_all();
    tracker.journal.change_own(OwnChanges::of_reset(ParameterSet::ALL));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_behind_a_reset_is_as_it_was_set() {
        let mut restarting = Restarting::default();
        restarting.set(1);
        assert!(!restarting.is_any(), "nothing was reset");
        restarting.reset_all();
        restarting.set(1);
        assert!(restarting.is_set(1) && !restarting.is_reset(1) && restarting.is_reset(2) && !restarting.is_set(2));
        restarting.reset(1);
        assert!(restarting.is_reset(1) && !restarting.is_set(1));
    }

    #[test]
    fn a_reset_is_done_with_ready_for_query_and_not_after_an_error() {
        let mut restarting = Restarting::default();
        restarting.reset(3);
        restarting.failed();
        restarting.ready();
        assert!(!restarting.is_done());
        restarting.reset(3);
        restarting.ready();
        assert!(restarting.is_done() && !restarting.is_any());
        restarting.failed();
        restarting.ready();
        assert!(restarting.take_done() && !restarting.is_done());
        restarting.reset_all();
        restarting.committed();
        restarting.set(1);
        restarting.failed();
        assert!(restarting.is_reset(1), "it was set in vain");
        restarting.ready();
        assert!(restarting.is_done() && !restarting.is_any());
    }
}
