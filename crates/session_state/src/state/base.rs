//! What a pool's servers begin with: what `connect_query` has set, and the role of ALTER ROLE … SET role.
//!
//! ```text
//!   login ──► connect_query ──► asked ──► Base { search_path, role }
//!   a session's State says what that session has set; what it does not name is as in the base
//!   to leave a session's state: a name that the base has is set to the base's value, any other is RESET
//! ```
//!
//! PostgreSQL's own RESET and DISCARD ALL know nothing of it: RESET brings back what the login began with, and DISCARD ALL ends
//! even a role that ALTER ROLE has set. For a session both bring back the base, as its pool's servers get it again.
//!
//! Does not do: what is no setting and no role. Temporary tables, prepared statements and locks of a `connect_query` are there again
//! when it has run again, after each DISCARD ALL of the pooler's.
//!
//! //= pg18 sql-set-role
//! //= pg18 sql-discard

use std::sync::LazyLock;

use sql::quoted_setting;

use super::check::{Check, Checked};
use super::effects::{Effect, is_identity, is_passing};
use super::{Again, Effects, Identity, Setting, SettingChange, State, rights};
use crate::parameters::Tracked;

/// What the servers of a pool begin with.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Base {
    state: State,
    /// A `connect_query` has run. It may have set more: PostgreSQL does not list settings with a dot in their names.
    is_partial: bool,
    /// It has changed parameters that servers report.
    pub sets_reported: bool,
}

/// Nothing: as the login is.
pub static LOGIN: LazyLock<Base> = LazyLock::new(Base::default);

/// SET ROLE NONE where the base has a role.
const NO_ROLE: &[u8] = b"role none";
/// As the login, where the base has another's authorization.
const NO_AUTHORIZATION: &[u8] = b"session authorization default";

impl Base {
    /// What to ask a server that has just run its `connect_query`, if there is one. `effects`: those of that text.
    pub fn question(effects: Option<&Effects>) -> Check {
        let is_dotted = |name: &[u8]| name.contains(&b'.');
        let mut names: Vec<Box<[u8]>> = Vec::new();
        for effect in effects.into_iter().flat_map(Effects::iter) {
            match effect {
                Effect::Change(changes) => names.extend(changes.iter().filter_map(|change| match change {
                    SettingChange::Set { name, .. } => Some(name.clone()),
                    _ => None,
                })),
                Effect::QueryAgain { names: asked, .. } => names.extend(asked.iter().cloned()),
                _ => {}
            }
        }
        names.retain(|name| is_dotted(name));
        names.sort();
        names.dedup();
        Check { with_settings: effects.is_some(), with_identity: true, is_hasty: false, names }
    }

    /// The row of the answer; `None`: it is none that was expected.
    pub fn read(question: &Check, row: &[u8], tracked: &Tracked) -> Option<Base> {
        let Checked { settings, named, .. } = question.read(row)?;
        let mut state = State::default();
        for (name, value) in settings.iter().flatten().chain(&named) {
            let name = name.to_ascii_lowercase();
            let is_unset = value.is_empty() && (name.contains(&b'.') || is_identity(&name));
            if is_unset || tracked.index(&name).is_some() || is_passing(&name) {
                continue;
            }
            let again = Again::Value(value.as_slice().into());
            match is_identity(&name) {
                true => state.set(&name, Some(&again)),
                false => state.put(&name, Setting { again: Some(again), by: None }),
            }
        }
        Some(Base { state, is_partial: question.with_settings, sets_reported: false })
    }

    /// Of a server that has answered nothing that is understood, after a `connect_query`, if there is one.
    pub fn unread(has_query: bool) -> Base {
        Base { is_partial: has_query, ..Base::default() }
    }

    /// Its servers begin as their login does.
    pub fn is_login(&self) -> bool {
        self.state.is_initial() && !self.is_partial
    }

    /// What gives a server that is as its login this base.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.state.write_difference(&State::default(), &LOGIN, out);
    }

    pub(super) fn setting(&self, name: &[u8]) -> Option<&Again> {
        self.state.settings.get(name)?.again.as_ref()
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.state.identity
    }

    /// Whether a server reports this as its value, so that no session has set it.
    pub(crate) fn is(&self, name: &[u8], value: &[u8]) -> bool {
        match name {
            b"role" => clause(name, value) == self.identity().role,
            b"session_authorization" => clause(name, value) == self.identity().authorization,
            name => matches!(self.setting(name), Some(Again::Value(known)) if **known == *value),
        }
    }

    /// Its settings, and the identity that it has.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.state.kept()
    }

    pub(crate) fn has(&self, name: &[u8]) -> bool {
        match name {
            b"role" => self.identity().role.is_some(),
            b"session_authorization" => self.identity().authorization.is_some(),
            name => self.state.settings.contains_key(name),
        }
    }

    /// Whether only DISCARD ALL and another `connect_query` end this setting for certain.
    pub(super) fn must_be_cleared(&self, name: &[u8], setting: &Setting) -> bool {
        let is_unlisted = self.is_partial && name.contains(&b'.') && !self.has(name);
        let needs_rights = self.has(name) && rights::may_be_needed(name);
        setting.by.is_some() || quoted_setting(name).is_none() || is_unlisted || needs_rights
    }
}

fn clause(name: &[u8], value: &[u8]) -> Option<Box<[u8]>> {
    if value.is_empty() { None } else { super::clause(name, Some(&Again::Value(value.into()))) }
}

impl Identity {
    /// As this, on a server with that base.
    pub(super) fn over(&self, base: &Identity) -> Identity {
        match &self.authorization {
            Some(_) => self.clone(),
            None => Identity {
                authorization: base.authorization.clone(),
                role: self.role.clone().or_else(|| base.role.clone()),
            },
        }
    }
}

impl State {
    /// SET ROLE NONE, in a session that began with a role if `has_role`.
    pub(super) fn end_role(&mut self, has_role: bool) {
        self.identity.role = has_role.then(|| NO_ROLE.into());
    }

    /// The server has gone back to what its login began with.
    pub(crate) fn lose(&mut self, name: &[u8], base: &Base) {
        match name {
            b"role" if base.has(name) => self.identity.role = Some(NO_ROLE.into()),
            b"session_authorization" if base.has(name) => {
                self.identity = Identity { authorization: Some(NO_AUTHORIZATION.into()), role: None };
            }
            name if base.has(name) => self.put(name, Setting { again: None, by: None }),
            name => self.forget(name),
        }
    }

    /// As a server with this base has it.
    pub(super) fn on(&self, base: &Base) -> State {
        let mut state = self.clone();
        for (name, setting) in &base.state.settings {
            if !state.settings.contains_key(name) {
                state.put(name, setting.clone());
            }
        }
        state.identity = self.identity.over(base.identity());
        if state.identity.role.as_deref() == Some(NO_ROLE) {
            state.identity.role = None;
        }
        state
    }
}

#[cfg(test)]
#[path = "base_tests.rs"]
mod tests;
