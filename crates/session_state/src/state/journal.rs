//! A session's state through its transaction: what a rollback brings back.
//!
//! It may be asked only from the first change on: whatever was begun or saved before that is as the state is now. So a
//! session that changes nothing costs nothing, and a savepoint that nobody noted is the transaction's beginning.
//!
//! //= pg18 sql-rollback-to

use std::collections::BTreeSet;
use std::sync::Arc;

use units::limits;

use super::channels::Channels;
use super::effects::{RoleReset, is_identity};
use super::{Base, SettingChange, State};
use crate::own_changes::OwnChanges;

#[derive(Debug)]
struct Savepoint {
    name: Box<[u8]>,
    state: Arc<State>,
    own: OwnChanges,
}

/// The state now, and as it was.
#[derive(Debug, Default)]
pub struct Journal {
    now: Arc<State>,
    /// When the transaction began.
    before: Arc<State>,
    /// When the session began.
    first: Arc<State>,
    /// Of those settings, and those of its servers' base, by name, what has been reset: the server has the values of its login, if
    /// that was not taken back.
    reverted: BTreeSet<Box<[u8]>>,
    /// Settings that the open transaction has reset and then set by SET LOCAL. They are restored when it ends.
    overlaid: BTreeSet<Box<[u8]>>,
    /// What was set again in the transaction that is open: its rollback takes that back, and not the reset, which may be older.
    restored: BTreeSet<Box<[u8]>>,
    /// The tracked parameters that the open transaction has set and reset for the session.
    own: OwnChanges,
    /// The changes of committed transactions that the session has not taken over yet.
    committed_own: OwnChanges,
    savepoints: Vec<Savepoint>,
    /// Not all of them are kept.
    dropped: bool,
    /// One was gone back to that was not: what holds is not known.
    lost: bool,
    /// Something has failed since the last ReadyForQuery.
    failed: bool,
    /// A DO or CALL was sent since the last commit or rollback. A COMMIT in it also commits the statements before it in its batch.
    ran_procedure: bool,
    /// A transaction block has failed, and has not ended nor gone back to a savepoint.
    in_failed_block: bool,
    /// The text that takes the session's role away has not been answered yet, and its server was not given the role.
    has_forgotten_role: bool,
}

impl Journal {
    pub(crate) fn now(&self) -> &Arc<State> {
        &self.now
    }

    /// The channels that it listens to, as far as that is committed.
    pub fn channels(&self) -> &Channels {
        self.before.channels()
    }

    /// It listens on its own server, or has until its transaction ends.
    pub fn listens_alone(&self) -> bool {
        self.before.channels().alone || self.now.channels().alone
    }

    /// It listens to no channel, committed or not.
    pub fn is_deaf(&self) -> bool {
        self.before.channels().is_empty() && self.now.channels().is_empty()
    }

    /// Whether a rollback would change anything.
    pub(crate) fn is_open(&self) -> bool {
        !self.savepoints.is_empty() || !self.own.is_none() || !Arc::ptr_eq(&self.now, &self.before)
    }

    /// `base`: what its server began with. Whether that has lost something of it which no name brings back.
    pub(crate) fn change(&mut self, change: &SettingChange, base: &Base) -> bool {
        let first = Arc::clone(&self.first);
        let reverted = first.kept().chain(base.names()).filter(|name| is_reset(name, change));
        self.reverted.extend(reverted.map(Box::from));
        Arc::make_mut(&mut self.now).apply_over(&first, base, change);
        if self.reverted.iter().any(|name| is_identity(name)) {
            // It had the login's rights when it set this, and has them no more.
            self.bind(change);
        }
        base.loses_more(change)
    }

    /// SET LOCAL has set this. SET SESSION would end the local value, so the setting is not restored yet.
    pub(crate) fn set_locally(&mut self, name: &[u8]) {
        self.overlaid.extend(self.reverted.take(name));
    }

    /// Tracked parameters were set or reset for the session.
    pub(crate) fn change_own(&mut self, changes: OwnChanges) {
        self.own = self.own.then(changes);
    }

    /// The changes of tracked parameters that are committed, since the last call.
    pub fn take_own(&mut self) -> OwnChanges {
        std::mem::take(&mut self.committed_own)
    }

    /// With which role's rights this was changed is not known.
    pub(crate) fn bind(&mut self, change: &SettingChange) {
        if let SettingChange::Set { name, .. } = change {
            Arc::make_mut(&mut self.now).bind(name);
        }
    }

    /// A session begins with this.
    pub(crate) fn starting(first: Arc<State>) -> Journal {
        Journal { now: Arc::clone(&first), before: Arc::clone(&first), first, ..Journal::default() }
    }

    /// Whether the session has what a text takes away.
    pub fn has_role_of(&self, reset: RoleReset) -> bool {
        self.now.has_role() || reset == RoleReset::All && self.now.has_authorization()
    }

    /// The session's next text takes its role away, and no server accepts the role any more: the next server is not given it. If the text
    /// fails, the session has the role still.
    pub fn forget_role(&mut self, reset: RoleReset) {
        debug_assert!(!self.is_open(), "a session without a server has no transaction");
        let name: &[u8] = if reset == RoleReset::All { b"session_authorization" } else { b"role" };
        Arc::make_mut(&mut self.now).forget(name);
        self.has_forgotten_role = true;
    }

    /// The text was not sent: the session has its role again. Whether it had forgotten it.
    pub fn remember_role(&mut self) -> bool {
        let had_forgotten = self.has_forgotten_role;
        if had_forgotten {
            self.rolled_back();
        }
        had_forgotten
    }

    /// What it says between two transactions, for another process.
    pub(crate) fn settled(&self) -> (&State, &State, &BTreeSet<Box<[u8]>>) {
        debug_assert!(!self.is_open(), "only a session outside of a transaction moves");
        (&self.now, &self.first, &self.reverted)
    }

    /// The same, come from another process.
    pub(crate) fn of_settled(now: State, first: State, reverted: BTreeSet<Box<[u8]>>) -> Journal {
        let now = Arc::new(now);
        Journal { before: Arc::clone(&now), now, first: Arc::new(first), reverted, ..Journal::default() }
    }

    /// Whether the server may have something else than the session, since the session has reset what it began with.
    pub(crate) fn is_reverted(&self) -> bool {
        !self.reverted.is_empty()
    }

    /// Whether the server may have its login's value of this, since the session has reset it.
    pub(crate) fn has_reverted(&self, name: &[u8]) -> bool {
        self.reverted.contains(name)
    }

    /// What the session began with.
    pub(crate) fn first(&self) -> &State {
        &self.first
    }

    /// Whether the session began with something that PostgreSQL's DISCARD ALL does not bring back.
    pub fn has_first(&self) -> bool {
        !self.first.is_initial()
    }

    /// Whether this brings back something that the server knows nothing of.
    pub(crate) fn reverts(&self, change: &SettingChange, base: &Base) -> bool {
        self.first.kept().chain(base.names()).any(|name| is_reset(name, change))
    }

    /// What the server can be counted on to have of the session's state. From now on it is sent the rest.
    pub(crate) fn take_reverted(&mut self, base: &Base, in_transaction: bool) -> State {
        let mut state = State::clone(&self.now);
        let reverted = std::mem::take(&mut self.reverted);
        state.lose_all(reverted.iter().map(|name| &**name), base);
        if in_transaction {
            self.restored.extend(reverted);
        }
        state
    }

    /// Another server knows nothing of what was reset.
    pub(crate) fn forget_reverted(&mut self) {
        self.reverted.clear();
        self.overlaid.clear();
        self.restored.clear();
    }

    /// The whole state is another, as the server tells; in no transaction. `lost`: of the base, what the server has no more.
    pub(crate) fn replace(&mut self, state: Arc<State>, lost: impl Iterator<Item = Box<[u8]>>) {
        self.now = state;
        self.reverted.extend(lost);
        self.committed();
    }

    pub(crate) fn committed(&mut self) {
        if *self.now == *self.before {
            self.now = Arc::clone(&self.before);
        }
        self.before = Arc::clone(&self.now);
        self.committed_own = self.committed_own.then(std::mem::take(&mut self.own));
        self.reverted.append(&mut self.overlaid);
        self.restored.clear();
        self.savepoints.clear();
        self.forget_flags();
    }

    pub(crate) fn rolled_back(&mut self) {
        self.reverted.append(&mut self.overlaid);
        self.reverted.append(&mut self.restored);
        self.now = Arc::clone(&self.before);
        self.own = OwnChanges::default();
        self.savepoints.clear();
        self.forget_flags();
    }

    fn forget_flags(&mut self) {
        (self.failed, self.in_failed_block, self.ran_procedure) = (false, false, false);
        (self.dropped, self.has_forgotten_role) = (false, false);
    }

    /// A DO or CALL is sent. A COMMIT in it also commits the statements before it in its batch, and a later error does not undo them.
    //= pg18 plpgsql-transactions
    pub(crate) fn runs_procedure(&mut self) {
        self.ran_procedure = true;
    }

    /// The names of the settings of which it is not known whether a failed batch has changed them.
    pub(crate) fn unsure(&self) -> Vec<Box<[u8]>> {
        if !self.failed || !self.ran_procedure || Arc::ptr_eq(&self.now, &self.before) {
            return Vec::new();
        }
        let (now, before) = (&self.now.settings, &self.before.settings);
        let names: BTreeSet<_> = now.keys().chain(before.keys()).collect();
        names.into_iter().filter(|name| now.get(*name) != before.get(*name)).cloned().collect()
    }

    /// Whether, since this was asked last, something was taken back of which nobody knows how far.
    pub(crate) fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    pub(crate) fn is_in_failed_block(&self) -> bool {
        self.in_failed_block
    }

    /// A statement failed: alone it is undone, in a transaction block that is up to what follows.
    pub(crate) fn failed(&mut self) {
        self.failed = true;
    }

    /// ReadyForQuery. `idle`: outside of a transaction block.
    pub(crate) fn ready(&mut self, idle: bool) {
        match (idle, self.failed) {
            (true, true) => self.rolled_back(),
            (true, false) => self.committed(),
            (false, failed) => (self.failed, self.in_failed_block) = (false, self.in_failed_block || failed),
        }
    }

    pub(crate) fn save(&mut self, name: &[u8]) {
        if self.savepoints.len() >= limits::SAVEPOINTS_MAX {
            // Rather one that a newer of its name hides: some drivers set one before each statement.
            self.savepoints.remove(self.savepoints.iter().position(|old| *old.name == *name).unwrap_or(0));
            self.dropped = true;
        }
        self.savepoints.push(Savepoint { name: name.into(), state: Arc::clone(&self.now), own: self.own });
    }

    /// It and those since are no more.
    pub(crate) fn release(&mut self, name: &[u8]) {
        let place = self.place(name);
        self.lost |= place.is_none() && self.dropped;
        self.savepoints.truncate(place.unwrap_or(0));
    }

    /// It stays, those since are no more.
    pub(crate) fn roll_back_to(&mut self, name: &[u8]) {
        self.in_failed_block = false;
        // A SET LOCAL behind the savepoint is undone; one before it is not, which is not known.
        self.reverted.append(&mut self.overlaid);
        self.reverted.extend(self.restored.iter().cloned());
        match self.place(name) {
            Some(place) => {
                self.now = Arc::clone(&self.savepoints[place].state);
                self.own = self.savepoints[place].own;
                self.savepoints.truncate(place + 1);
            }
            None => {
                self.lost |= self.dropped;
                self.now = Arc::clone(&self.before);
                self.own = OwnChanges::default();
                self.savepoints.clear();
            }
        }
    }

    fn place(&self, name: &[u8]) -> Option<usize> {
        self.savepoints.iter().rposition(|savepoint| *savepoint.name == *name)
    }
}

/// Whether PostgreSQL gives a setting its login's value by this change.
pub(super) fn is_reset(name: &[u8], change: &SettingChange) -> bool {
    let is_identity = is_identity(name);
    match change {
        SettingChange::Set { .. } | SettingChange::NoRole | SettingChange::Channels(_) => false,
        // It ends the role, too. //= pg18 sql-set-session-authorization
        SettingChange::Reset(reset) if **reset == *b"session_authorization" => is_identity,
        SettingChange::Reset(reset) => *name == **reset,
        SettingChange::ResetAll => !is_identity,
        SettingChange::DiscardAll => true,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Again, base::LOGIN};
    use super::*;
    use crate::parameter_set::ParameterSet;

    fn set(journal: &mut Journal, value: &str) {
        let again = Some(Again::Clause(value.as_bytes().into()));
        journal.change(&SettingChange::Set { name: b"work_mem"[..].into(), again }, &LOGIN);
    }

    fn value(journal: &Journal) -> String {
        let mut out = Vec::new();
        journal.now().write_difference(&State::default(), &LOGIN, &mut out);
        String::from_utf8(out).expect("ASCII").replace("SET SESSION ", "")
    }

    #[test]
    fn a_rollback_brings_back_what_was_before_the_first_change() {
        let mut journal = Journal::default();
        set(&mut journal, "1");
        journal.ready(true);
        set(&mut journal, "2");
        journal.ready(false);
        assert!(journal.is_open());
        journal.rolled_back();
        assert_eq!(value(&journal), "1;");
        assert!(!journal.is_open());
    }

    #[test]
    fn an_error_undoes_what_stood_alone_and_leaves_a_block_to_its_end() {
        let mut journal = Journal::default();
        set(&mut journal, "1");
        journal.failed();
        journal.ready(true);
        assert_eq!(value(&journal), "");
        set(&mut journal, "2");
        journal.ready(false);
        journal.failed();
        journal.ready(false);
        assert_eq!(value(&journal), "2;");
        journal.rolled_back();
        assert_eq!(value(&journal), "");
    }

    #[test]
    fn savepoints_nest_and_hide_each_other() {
        let mut journal = Journal::default();
        set(&mut journal, "1");
        journal.save(b"a");
        set(&mut journal, "2");
        journal.save(b"a");
        set(&mut journal, "3");
        journal.roll_back_to(b"a");
        assert_eq!(value(&journal), "2;");
        journal.release(b"a");
        set(&mut journal, "4");
        journal.roll_back_to(b"a");
        assert_eq!(value(&journal), "1;");
        journal.roll_back_to(b"from before the first change");
        assert_eq!(value(&journal), "");
    }

    #[test]
    fn a_parameter_is_the_sessions_own_as_far_as_nothing_takes_that_back() {
        let zone = OwnChanges::of_set(ParameterSet::one(2));
        let own = |journal: &mut Journal| journal.take_own().over(ParameterSet::NONE, ParameterSet::NONE);
        type Way = fn(&mut Journal);
        let ways: [(&str, Way, bool); 7] = [
            ("alone", |journal| journal.ready(true), true),
            ("fails", |journal| (journal.failed(), journal.ready(true)).1, false),
            ("rolled back", |journal| (journal.ready(false), journal.rolled_back()).1, false),
            ("committed", |journal| (journal.ready(false), journal.committed()).1, true),
            ("an earlier savepoint", |journal| (journal.roll_back_to(b"earlier"), journal.committed()).1, false),
            ("a later one", |journal| (journal.save(b"s"), journal.roll_back_to(b"s"), journal.committed()).2, true),
            (
                "reset",
                |journal| (journal.change_own(OwnChanges::of_reset(ParameterSet::ALL)), journal.ready(true)).1,
                false,
            ),
        ];
        for (way, happens, expected) in ways {
            let mut journal = Journal::default();
            journal.change_own(zone);
            assert!(journal.is_open() && own(&mut journal).is_empty(), "{way}: it may be taken back");
            happens(&mut journal);
            assert_eq!(own(&mut journal).contains(2), expected, "{way}");
            assert!(own(&mut journal).is_empty() && !journal.is_open(), "{way}");
        }
    }

    #[test]
    fn a_release_of_what_was_saved_before_the_first_change_keeps_the_changes() {
        let mut journal = Journal::default();
        set(&mut journal, "1");
        journal.save(b"later");
        set(&mut journal, "2");
        journal.release(b"earlier");
        journal.committed();
        assert_eq!(value(&journal), "2;");
    }

    #[test]
    fn savepoints_that_are_not_kept_are_not_guessed() {
        let mut journal = Journal::default();
        journal.save(b"first");
        for _ in 0..2 * limits::SAVEPOINTS_MAX {
            journal.save(b"each");
        }
        set(&mut journal, "work_mem = '1MB'");
        journal.save(b"each");
        journal.roll_back_to(b"each");
        assert!(!journal.take_lost() && value(&journal).contains("1MB"), "the newest of a name is there");
        journal.roll_back_to(b"first");
        assert!(!journal.take_lost() && value(&journal).is_empty(), "of what is side_effects enough was given up");
        for number in 0..=limits::SAVEPOINTS_MAX {
            journal.save(format!("s{number}").as_bytes());
        }
        journal.roll_back_to(b"s0");
        assert!(journal.take_lost(), "nobody knows what holds");
    }
}
