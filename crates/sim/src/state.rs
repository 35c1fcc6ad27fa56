//! The state of a PostgreSQL session, and the effect of a transaction's end on it.
//!
//! ```text
//!   kept      settings, temporary tables, LISTENs    undone with the transaction, back to a savepoint
//!   lasting   cursors, locks, seed, sequences        not undone; but cursors of a transaction that fails are gone
//! ```
//!
//! Prepared statements are in `backend::session::prepared`, with those of the protocol, which share their names.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::parameters::Settings;
use crate::settings;

/// A temporary table: which statement created it, and how many rows it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub maker: String,
    pub rows: u32,
    pub drops: bool,
}

/// State that the end of a transaction may undo.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    session: Settings,
    /// Set until the transaction's end; takes precedence over the session's.
    local: Settings,
    /// Reset since the last ReadyForQuery: until the next one a server has its login's values.
    gone: BTreeSet<String>,
    pub tables: BTreeMap<String, Table>,
    pub channels: BTreeSet<String>,
    /// LISTEN and UNLISTEN of this transaction: the channel or `None` for all, and whether it listens afterwards.
    pub pending: Vec<(Option<String>, bool)>,
    /// NOTIFY of this transaction.
    pub notices: Vec<(String, String)>,
}

/// A cursor made by DECLARE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub maker: String,
    pub rows: u32,
    pub len: u32,
    pub at: u32,
    pub hold: bool,
    /// The depth of savepoints at which it was declared; 0: in a transaction that has committed.
    depth: usize,
}

/// State that no rollback undoes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lasting {
    pub cursors: BTreeMap<String, Cursor>,
    /// Advisory locks, and how often each is held.
    pub locks: BTreeMap<i64, u32>,
    pub libraries: BTreeSet<String>,
    pub seed: Option<u64>,
    /// The latest value of nextval, by sequence.
    pub currents: BTreeMap<String, u64>,
    pub last: Option<String>,
}

/// The whole state at one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    kept: Rc<Kept>,
    lasting: Rc<Lasting>,
    resets: Rc<Settings>,
    begun: Rc<Settings>,
}

/// The state, with earlier states for a rollback.
#[derive(Clone, Debug)]
pub struct State {
    kept: Rc<Kept>,
    committed: Rc<Kept>,
    savepoints: Vec<(String, Rc<Kept>)>,
    lasting: Rc<Lasting>,
    /// The values of settings that the session has not set, if they differ from the default.
    resets: Rc<Settings>,
    /// The same of what servers begin with beyond their login.
    begun: Rc<Settings>,
    pub login: String,
}

impl State {
    #[must_use]
    pub fn new(resets: Settings, login: &str) -> State {
        let kept = Rc::new(Kept::default());
        State {
            committed: Rc::clone(&kept),
            kept,
            savepoints: Vec::new(),
            lasting: Rc::default(),
            resets: Rc::new(resets),
            begun: Rc::default(),
            login: login.to_owned(),
        }
    }

    /// Its servers begin with this beyond their login.
    pub fn begin_with(&mut self, begins: &[(&str, &str)]) {
        let begun = Rc::make_mut(&mut self.begun);
        begun.extend(begins.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    }

    #[must_use]
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    pub fn kept_mut(&mut self) -> &mut Kept {
        Rc::make_mut(&mut self.kept)
    }

    #[must_use]
    pub fn lasting(&self) -> &Lasting {
        &self.lasting
    }

    pub fn lasting_mut(&mut self) -> &mut Lasting {
        Rc::make_mut(&mut self.lasting)
    }

    #[must_use]
    pub fn moment(&self) -> Moment {
        Moment {
            kept: Rc::clone(&self.kept),
            lasting: Rc::clone(&self.lasting),
            resets: Rc::clone(&self.resets),
            begun: Rc::clone(&self.begun),
        }
    }

    /// Whether the settings are certainly those of this moment.
    #[must_use]
    pub fn is_same_as(&self, moment: &Moment) -> bool {
        let begins_alike = Rc::ptr_eq(&self.resets, &moment.resets) && Rc::ptr_eq(&self.begun, &moment.begun);
        Rc::ptr_eq(&self.kept, &moment.kept) && begins_alike
    }

    /// The current value of a setting; empty if there is no such setting.
    #[must_use]
    pub fn setting(&self, name: &str) -> &str {
        value(&self.kept, (&self.resets, &self.begun), name)
    }

    /// Sets it; `None`: resets it to the session's initial value.
    pub fn set(&mut self, name: &str, value: Option<String>, local: bool) {
        if local {
            let value = value.unwrap_or_else(|| default(&self.kept, (&self.resets, &self.begun), name).to_owned());
            self.kept_mut().local.insert(name.to_owned(), value);
            return;
        }
        let is_begun = value.is_none() && self.begun.contains_key(name);
        let kept = self.kept_mut();
        if is_begun {
            kept.gone.insert(name.to_owned());
        }
        kept.local.remove(name);
        match value {
            Some(value) => kept.session.insert(name.to_owned(), value),
            None => kept.session.remove(name),
        };
    }

    /// The values set by SET, by name.
    pub fn set_by_session(&self) -> impl Iterator<Item = (&str, &str)> {
        self.kept.session.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The state that a session keeps when it continues at another server.
    ///
    /// # Errors
    /// It had state that cannot be on another server.
    pub fn moved(&self) -> Result<State, String> {
        let mut state = State::new(Settings::clone(&self.resets), &self.login);
        state.begun = Rc::clone(&self.begun);
        let begins = state.moment();
        state.kept_mut().session.clone_from(&self.committed.session);
        // The pool's listener listens for it.
        state.kept_mut().channels.clone_from(&self.committed.channels);
        state.commit();
        let mut lasting = Rc::clone(&self.lasting);
        if lasting.cursors.values().any(|cursor| cursor.depth > 0) {
            // The cursors are gone with their transaction, whether it was committed or not.
            Rc::make_mut(&mut lasting).cursors.retain(|_, cursor| cursor.depth == 0);
        }
        let here = Moment { kept: Rc::clone(&self.committed), lasting, ..begins };
        let lost = here.differences(&state.moment());
        if lost.is_empty() { Ok(state) } else { Err(lost.join("; ")) }
    }

    /// ReadyForQuery: what was reset is as the session began.
    pub fn ready(&mut self) {
        if !self.kept.gone.is_empty() {
            self.kept_mut().gone.clear();
        }
        if !self.committed.gone.is_empty() {
            Rc::make_mut(&mut self.committed).gone.clear();
        }
    }

    pub fn reset_all(&mut self) {
        self.lose(|name| !settings::is_identity(name));
        let kept = self.kept_mut();
        kept.session.retain(|name, _| settings::is_identity(name));
        kept.local.retain(|name, _| settings::is_identity(name));
    }

    fn lose(&mut self, which: impl Fn(&str) -> bool) {
        let lost: Vec<String> = self.begun.keys().filter(|name| which(name)).cloned().collect();
        if !lost.is_empty() {
            self.kept_mut().gone.extend(lost);
        }
    }

    /// DISCARD ALL. Libraries stay loaded.
    pub fn discard_all(&mut self) {
        *self.kept_mut() = Kept::default();
        self.lose(|_| true);
        let lasting = self.lasting_mut();
        *lasting = Lasting { libraries: std::mem::take(&mut lasting.libraries), ..Lasting::default() };
    }

    /// The current role.
    #[must_use]
    pub fn user(&self) -> &str {
        let role = self.setting("role");
        if role.is_empty() { self.session_user() } else { role }
    }

    #[must_use]
    pub fn session_user(&self) -> &str {
        let user = self.setting("session_authorization");
        if user.is_empty() { &self.login } else { user }
    }

    pub fn savepoint(&mut self, name: &str) {
        self.savepoints.push((name.to_owned(), Rc::clone(&self.kept)));
    }

    /// False: there is none of that name.
    pub fn release(&mut self, name: &str) -> bool {
        let Some(at) = self.savepoints.iter().rposition(|(known, _)| known == name) else { return false };
        self.savepoints.truncate(at);
        self.cursors_rise(at + 1);
        true
    }

    /// False: there is none of that name.
    pub fn roll_back_to(&mut self, name: &str) -> bool {
        let Some(at) = self.savepoints.iter().rposition(|(known, _)| known == name) else { return false };
        self.savepoints.truncate(at + 1);
        self.kept = Rc::clone(&self.savepoints[at].1);
        self.cursors_fall(at + 1);
        true
    }

    /// The depth of savepoints of something declared now.
    #[must_use]
    fn depth(&self) -> usize {
        self.savepoints.len() + 1
    }

    pub fn declare(&mut self, name: &str, maker: String, (rows, len): (u32, u32), hold: bool) {
        let cursor = Cursor { maker, rows, len, at: 0, hold, depth: self.depth() };
        self.lasting_mut().cursors.insert(name.to_owned(), cursor);
    }

    /// An error: undoes everything since the last savepoint at once.
    pub fn fail(&mut self) {
        let depth = self.savepoints.len();
        self.kept = Rc::clone(self.savepoints.last().map_or(&self.committed, |(_, kept)| kept));
        self.cursors_fall(depth);
    }

    pub fn roll_back(&mut self) {
        self.kept = Rc::clone(&self.committed);
        self.savepoints.clear();
        self.cursors_fall(0);
    }

    /// The notifications that the transaction sends.
    pub fn commit(&mut self) -> Vec<(String, String)> {
        self.savepoints.clear();
        let mut notices = Vec::new();
        if !Rc::ptr_eq(&self.kept, &self.committed) {
            let kept = self.kept_mut();
            kept.local.clear();
            kept.tables.retain(|_, table| !table.drops);
            for (channel, listens) in std::mem::take(&mut kept.pending) {
                match channel {
                    Some(channel) if listens => drop(kept.channels.insert(channel)),
                    Some(channel) => drop(kept.channels.remove(&channel)),
                    None => kept.channels.clear(),
                }
            }
            notices = std::mem::take(&mut kept.notices);
            self.committed = Rc::clone(&self.kept);
        }
        let made_here = |cursor: &Cursor| cursor.depth > 0;
        if self.lasting.cursors.values().any(made_here) {
            let cursors = &mut self.lasting_mut().cursors;
            cursors.retain(|_, cursor| cursor.hold || !made_here(cursor));
            cursors.values_mut().for_each(|cursor| cursor.depth = 0);
        }
        notices
    }

    /// Closes cursors deeper than this.
    fn cursors_fall(&mut self, depth: usize) {
        if self.lasting.cursors.values().any(|cursor| cursor.depth > depth) {
            self.lasting_mut().cursors.retain(|_, cursor| cursor.depth <= depth);
        }
    }

    /// Moves cursors from deeper savepoints up to this depth.
    fn cursors_rise(&mut self, depth: usize) {
        if self.lasting.cursors.values().any(|cursor| cursor.depth > depth) {
            self.lasting_mut().cursors.values_mut().for_each(|cursor| cursor.depth = cursor.depth.min(depth));
        }
    }
}

/// What a session has not set. `begins`: by its login, and by what its server has set after that.
fn default<'s>(kept: &Kept, begins: (&'s Settings, &'s Settings), name: &str) -> &'s str {
    let (resets, begun) = begins;
    let begun = begun.get(name).filter(|_| !kept.gone.contains(name));
    begun.or_else(|| resets.get(name)).map(String::as_str).or(settings::default(name)).unwrap_or("")
}

fn value<'s>(kept: &'s Kept, begins: (&'s Settings, &'s Settings), name: &str) -> &'s str {
    let set = kept.local.get(name).or_else(|| kept.session.get(name));
    set.map_or_else(|| default(kept, begins, name), String::as_str)
}

impl Moment {
    fn value(&self, name: &str) -> &str {
        value(&self.kept, (&self.resets, &self.begun), name)
    }

    /// The differences from the wanted state: name, actual value, wanted value.
    #[must_use]
    pub fn differences(&self, wanted: &Moment) -> Vec<String> {
        let mut found = Vec::new();
        let names = |moment: &Moment| -> Vec<String> {
            let kept = &moment.kept;
            let begins = moment.resets.keys().chain(moment.begun.keys());
            kept.session.keys().chain(kept.local.keys()).chain(begins).cloned().collect()
        };
        let all: BTreeSet<String> = names(self).into_iter().chain(names(wanted)).collect();
        for name in all {
            let (is, should) = (self.value(&name), wanted.value(&name));
            let lasts = |moment: &Moment| {
                let set = moment.kept.session.get(&name).map(String::as_str);
                set.unwrap_or_else(|| default(&moment.kept, (&moment.resets, &moment.begun), &name)).to_owned()
            };
            if is != should {
                found.push(format!("{name} is {is:?}, not {should:?}"));
            } else if lasts(self) != lasts(wanted) {
                found.push(format!(
                    "{name} would be {:?} after this transaction, not {:?}",
                    lasts(self),
                    lasts(wanted)
                ));
            }
        }
        let mut differ = |what: &str, is: &dyn std::fmt::Debug, should: &dyn std::fmt::Debug, same: bool| {
            if !same {
                found.push(format!("{what} are {is:?}, not {should:?}"));
            }
        };
        let (is, should) = (&self.kept.tables, &wanted.kept.tables);
        differ("temporary tables", is, should, is == should);
        let (is, should) = (&self.lasting.cursors, &wanted.lasting.cursors);
        differ("cursors", is, should, is == should);
        let (is, should) = (&self.lasting.locks, &wanted.lasting.locks);
        differ("advisory locks", is, should, is == should);
        // Channels are not compared: notifications show whether the session listens.
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        State::new(Settings::new(), "user1")
    }

    fn set(state: &mut State, value: &str, local: bool) {
        state.set("app.x", Some(value.to_owned()), local);
    }

    #[test]
    fn a_local_value_holds_until_the_end_of_the_transaction() {
        let mut state = state();
        set(&mut state, "1", false);
        set(&mut state, "2", true);
        assert_eq!(state.setting("app.x"), "2");
        state.commit();
        assert_eq!(state.setting("app.x"), "1");
        set(&mut state, "2", true);
        set(&mut state, "3", false);
        state.commit();
        assert_eq!(state.setting("app.x"), "3");
    }

    #[test]
    fn savepoints_undo_settings_and_cursors() {
        let mut state = state();
        set(&mut state, "1", false);
        state.savepoint("a");
        set(&mut state, "2", false);
        state.declare("h", "c1.1".to_owned(), (1, 1), true);
        state.savepoint("b");
        set(&mut state, "3", false);
        // An error undoes what came since the last savepoint, at once.
        state.fail();
        assert_eq!(state.setting("app.x"), "2");
        assert!(state.roll_back_to("a") && !state.release("b"));
        assert_eq!((state.setting("app.x"), state.lasting().cursors.len()), ("1", 0));
        state.declare("h", "c1.2".to_owned(), (1, 1), true);
        assert!(state.release("a"));
        state.commit();
        assert_eq!((state.setting("app.x"), state.lasting().cursors.len()), ("1", 1));
        state.roll_back();
        assert_eq!(state.lasting().cursors.len(), 1);
    }

    #[test]
    fn differences_are_listed_by_name() {
        let (mut one, other) = (state(), state());
        set(&mut one, "1", false);
        assert_eq!(one.moment().differences(&other.moment()), ["app.x is \"1\", not \"\""]);
        set(&mut one, "", false);
        one.lasting_mut().locks.insert(7, 1);
        assert_eq!(other.moment().differences(&one.moment()), ["advisory locks are {}, not {7: 1}"]);
    }
}
