//! The base of a server: the settings and the role that it has before its first session, by `connect_query` and by ALTER ROLE … SET role.
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
//! Only settings and roles are kept here. Temporary tables, prepared statements and locks of a `connect_query` are made again when it runs
//! again, after the pooler's DISCARD ALL.
//!
//! //= pg18 sql-set-role
//! //= pg18 sql-discard

use std::sync::LazyLock;

use sql::quoted_setting;

use super::again::DEFAULT;
use super::check::{BY_RESET, Check, Checked, LOCK_TIMEOUT};
use super::effects::{Effect, is_identity, is_passing};
use super::journal::is_reset;
use super::{Again, Effects, Identity, Setting, SettingChange, State, rights};
use crate::parameters::Tracked;

/// The settings and the role of a server before its first session.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Base {
    state: State,
    /// The server has answered the question. Otherwise it is cleared after every session that has changed something.
    is_read: bool,
    /// A `connect_query` has run on it.
    has_query: bool,
    /// The `connect_query` may have set more: PostgreSQL does not list settings with a dot in their names.
    is_partial: bool,
    /// The role that RESET ROLE gives the server, where that is another one.
    role_by_reset: Option<Box<[u8]>>,
}

impl Default for Base {
    /// The base of a server that has only logged in.
    fn default() -> Base {
        Base { state: State::default(), is_read: true, has_query: false, is_partial: false, role_by_reset: None }
    }
}

/// The base of a server that has only logged in.
pub static LOGIN: LazyLock<Base> = LazyLock::new(Base::default);

/// SET ROLE NONE where the base has a role.
const NO_ROLE: &[u8] = b"role none";
/// The role that a server logged in with, where `connect_query` has ended it. Never sent: it only differs from [`NO_ROLE`].
const LOGIN_ROLE: &[u8] = b"role to default";
/// The login's authorization, where the base has another one.
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
        // The value that `connect_query` has set would not be listed.
        let locks_soon = !names.iter().any(|name| name.eq_ignore_ascii_case(LOCK_TIMEOUT));
        names.retain(|name| is_dotted(name));
        names.sort();
        names.dedup();
        let with_settings = effects.is_some();
        // Only then another role than the base's may be found behind a RESET.
        let with_role_by_reset = effects.into_iter().flat_map(Effects::iter).any(changes_role);
        Check { with_settings, with_identity: true, with_role_by_reset, is_hasty: false, locks_soon, names }
    }

    /// The row of the answer; `None`: it is none that was expected. `effects`: as in [`Base::question`].
    pub fn read(question: &Check, row: &[u8], effects: Option<&Effects>, tracked: &Tracked) -> Option<Base> {
        let Checked { settings, named, .. } = question.read(row)?;
        let (mut state, mut is_read, mut role_by_reset) = (State::default(), true, None);
        for (name, value) in settings.iter().flatten().chain(&named) {
            let name = name.to_ascii_lowercase();
            let is_unset = value.is_empty() && (name.contains(&b'.') || is_identity(&name));
            if is_unset || tracked.index(&name).is_some() || is_passing(&name) {
                continue;
            }
            if *name == *BY_RESET {
                role_by_reset = Some(value.as_slice().into());
                continue;
            }
            // In which encoding they are is not asked.
            is_read &= value.is_ascii();
            let again = Again::Value(value.as_slice().into());
            match is_identity(&name) {
                true => state.set(&name, Some(&again)),
                false => state.put(&name, Setting { again: Some(again), by: None }),
            }
        }
        let sets =
            |effect: &Effect| matches!(effect, Effect::Change(_) | Effect::Parameter { .. } | Effect::Restart(_));
        let is_partial = effects.is_some_and(|effects| !effects.iter().all(sets));
        // Without its `connect_query` the server may have the role of ALTER ROLE, which RESET ROLE brings back.
        let ends_role = is_partial || effects.into_iter().flat_map(Effects::iter).any(changes_role);
        if ends_role && state.identity.role.is_none() {
            state.identity.role = Some(NO_ROLE.into());
        }
        let is_read = is_read && !state.overflowed;
        Some(Base { is_read, state, has_query: effects.is_some(), is_partial, role_by_reset })
    }

    /// The base of a server that was not asked, or did not answer. `has_query`: a `connect_query` has run.
    pub fn unasked(has_query: bool) -> Base {
        Base { is_read: false, has_query, is_partial: has_query, ..Base::default() }
    }

    /// Whether all that it begins with is known.
    pub fn is_read(&self) -> bool {
        self.is_read
    }

    /// Nothing is known that has changed the server after its login.
    pub fn is_login(&self) -> bool {
        self.state.is_initial() && !self.has_query
    }

    /// Appends the statements that give a server this base after DISCARD ALL. If it is not known, RESET ROLE brings back the role of ALTER ROLE.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self.is_read {
            true => _ = self.state.write_difference(&State::default(), &LOGIN, out),
            false => out.extend_from_slice(b"RESET ROLE;"),
        }
    }

    /// RESET ALL removes settings from it that cannot be set again by name.
    pub fn has_unlisted(&self) -> bool {
        self.is_partial || !self.is_read
    }

    /// Whether a reset takes away something that is not set again by name: only DISCARD ALL and another `connect_query` bring it back.
    pub(crate) fn loses_more(&self, change: &SettingChange) -> bool {
        let is_reset = |name: &[u8]| is_reset(name, change);
        let unlisted = match change {
            SettingChange::Reset(name) => name.contains(&b'.') && !self.has(name),
            SettingChange::ResetAll | SettingChange::DiscardAll => true,
            SettingChange::Set { .. } | SettingChange::NoRole | SettingChange::Channels(_) => return false,
        };
        let guarded = || self.state.settings.keys().any(|name| is_reset(name) && rights::may_be_needed(name));
        !self.is_read || self.is_partial && unlisted || guarded()
    }

    /// Names with a dot, which a server does not list.
    pub(crate) fn dotted(&self) -> impl Iterator<Item = &[u8]> {
        self.state.names().filter(|name| name.contains(&b'.'))
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
            b"role" if value.is_empty() => !self.has_role(),
            b"role" => clause(name, value) == self.identity().role,
            b"session_authorization" => clause(name, value) == self.identity().authorization,
            name => matches!(self.setting(name), Some(Again::Value(known)) if **known == *value),
        }
    }

    /// It has settings, a role, or an authorization of its own.
    pub fn has_any(&self) -> bool {
        self.all_names().next().is_some()
    }

    /// The names of all settings, and of the role and authorization.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &[u8]> {
        self.state.kept()
    }

    /// The names of settings that a session has the rights to set again, and of the role and authorization.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.state.kept().filter(|name| !rights::may_be_needed(name))
    }

    /// Whether RESET ROLE gives a server this role, by ALTER ROLE or ALTER DATABASE.
    pub(crate) fn is_role_by_reset(&self, role: &[u8]) -> bool {
        self.role_by_reset.as_deref() == Some(role)
    }

    /// Its sessions begin with a role.
    pub(crate) fn has_role(&self) -> bool {
        self.identity().role.is_some() && !self.ends_role()
    }

    /// Its `connect_query` has ended the role of the login, or may have.
    fn ends_role(&self) -> bool {
        self.identity().role.as_deref() == Some(NO_ROLE)
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
        setting.by.is_some() || quoted_setting(name).is_none() || is_unlisted || needs_rights || !self.is_read
    }
}

/// Whether a statement of a `connect_query` gives the server a role, or ends one.
fn changes_role(effect: &Effect) -> bool {
    let changes_role = |change: &SettingChange| match change {
        SettingChange::Set { name, .. } | SettingChange::Reset(name) => is_identity(name),
        SettingChange::NoRole | SettingChange::DiscardAll => true,
        SettingChange::ResetAll | SettingChange::Channels(_) => false,
    };
    matches!(effect, Effect::Change(changes) if changes.iter().any(changes_role))
}

fn clause(name: &[u8], value: &[u8]) -> Option<Box<[u8]>> {
    if value.is_empty() { None } else { super::clause(name, Some(&Again::Value(value.into()))) }
}

impl Identity {
    /// The role and authorization of a session with this identity on a server with that base.
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
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.settings.contains_key(name)
    }

    pub(crate) fn has_authorization(&self) -> bool {
        self.identity.authorization.is_some()
    }

    /// A setting, or the role, is as at the session's beginning again.
    pub(crate) fn begin_again(&mut self, name: &[u8], first: &State) {
        match (name, first.settings.get(name)) {
            (b"role", _) => self.identity.role.clone_from(&first.identity.role),
            (name, Some(setting)) => self.put(name, setting.clone()),
            (_, None) => {}
        }
    }

    /// Whether a setting has an empty value, or may have, or the role is NONE by the session's own word.
    pub(crate) fn is_set_to_nothing(&self, name: &[u8]) -> bool {
        if name == b"role" {
            return self.identity.role.as_deref() == Some(NO_ROLE);
        }
        let again = self.settings.get(name).and_then(|setting| setting.again.as_ref());
        again.is_some_and(|again| match again {
            Again::Value(value) => value.is_empty(),
            Again::Clause(clause) => clause.trim_ascii_end().ends_with(b"''") || clause.ends_with(DEFAULT),
        })
    }

    /// Whether the session has this identity by itself: `session_authorization`, or else `role`.
    pub(crate) fn has_identity(&self, name: &[u8]) -> bool {
        if name == b"session_authorization" { self.has_authorization() } else { self.has_role() }
    }

    pub(crate) fn has_role(&self) -> bool {
        self.identity.role.is_some()
    }

    /// Something was set with rights that the login may not have: it may not be able to reset it, and the role may be no
    /// more when somebody has to. Or it is not known what it was before.
    pub fn needs_clearing(&self, base: &Base) -> bool {
        let mut settings = self.settings.iter();
        settings.any(|(name, setting)| base.must_be_cleared(name, setting)) || !base.is_read() && !self.is_initial()
    }

    /// SET ROLE NONE, on servers that begin with a role if `has_role`.
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

    /// As [`State::lose`], of all that a session has reset.
    pub(super) fn lose_all<'n>(&mut self, names: impl Iterator<Item = &'n [u8]>, base: &Base) {
        let mut loses_role = false;
        for name in names {
            self.lose(name, base);
            loses_role |= is_identity(name);
        }
        if loses_role && base.ends_role() && self.identity.authorization.is_none() {
            self.identity.role = Some(LOGIN_ROLE.into());
        }
    }

    /// The settings of a server with this base whose session has this state.
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
