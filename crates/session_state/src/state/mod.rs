//! Session state as a value: what a session has set, what a server has, and the SETs that make the one the other.
//!
//! ```text
//!   session ──► State { app.user_id, statement_timeout, role }
//!   server  ──► State { statement_timeout, search_path }      difference: RESET search_path; SET app.user_id = '7'; SET ROLE …
//! ```
//!
//! A value never changes while it is shared, so that a transaction's beginning and its savepoints are copies of a pointer.
//! A setting is kept as the clause that its client wrote: set again, it means the same. What PostgreSQL reports by
//! itself (`TimeZone`, `DateStyle` and so on) is not here but in [`crate::parameters`].
//!
//! Does not do: deciding when. It knows nothing of messages, transactions and servers.
//!
//! //= pg18 sql-set
//! //= pg18 sql-reset

mod again;
pub mod base;
pub(crate) mod channels;
pub mod check;
mod difference;
pub(crate) mod effects;
mod expectation;
mod haste;
pub(crate) mod journal;
mod meaning;
pub(crate) mod prepared;
mod reading;
pub(crate) mod rights;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use crate::pins::{PinSnapshot, Pins};
pub use again::Again;
pub use base::Base;
pub use channels::{ListenerWait, Overflow, Subscriptions, is_portable};
pub use difference::{Difference, Risk};
pub use effects::{Effect, Effects, RoleReset};
pub use expectation::Expectation;
pub use prepared::{OnServer, Remedy, of_protocol as prepare_of_protocol};
pub(crate) use reading::Note;
pub use reading::{Defines, KnownRow, Reader, Reading, Sketch, rules_by};
pub use rights::{TEMP_BUFFERS, needs_rights};

use sql::setting_key;
use units::{limits, milliseconds};

use crate::parameters::quote_literal;
use again::by_default;
use channels::Channels;

/// The role that statements run as, beyond the login: the clauses of SET SESSION AUTHORIZATION and SET ROLE.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Identity {
    authorization: Option<Box<[u8]>>,
    role: Option<Box<[u8]>>,
}

impl Identity {
    fn is_login(&self) -> bool {
        *self == Identity::default()
    }
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Setting {
    /// `None`: it cannot be set again by what is known of it.
    again: Option<Again>,
    /// The role that set it, where that may have needed rights that the login has not; `None`: any role could.
    by: Option<Arc<Identity>>,
}

impl Setting {
    /// It is unknown which role has set it, and whether the login may.
    fn is_of_unknown_role(&self) -> bool {
        self.again.is_none() && self.by.is_some()
    }
}

/// What a session has set, by names in lower case. What is not here is as in its server's [`Base`].
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct State {
    settings: BTreeMap<Box<[u8]>, Setting>,
    identity: Identity,
    /// Of sessions only: a server that has listened is sent UNLISTEN.
    channels: Channels,
    /// Of names and clauses.
    len: usize,
    /// More was set than is kept.
    overflowed: bool,
}

/// One change of a session's settings.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SettingChange {
    /// `None`: to something that cannot be set again.
    Set {
        name: Box<[u8]>,
        again: Option<Again>,
    },
    Reset(Box<[u8]>),
    /// SET ROLE NONE.
    NoRole,
    /// Role and authorization stay. //= pg18 sql-reset
    ResetAll,
    /// They go as well, and the channels.
    DiscardAll,
    Channels(channels::SubscriptionChange),
}

impl SettingChange {
    fn is_reset(&self) -> bool {
        !matches!(self, SettingChange::Set { .. } | SettingChange::Channels(_))
    }

    fn is_bound(&self) -> bool {
        matches!(self, SettingChange::Set { again: None, .. })
    }

    /// It takes a role, an authorization, or a setting for which rights may be needed.
    pub(crate) fn needs_rights(&self) -> bool {
        matches!(self, SettingChange::Set { name, .. } if effects::is_identity(name) || rights::may_be_needed(name))
    }
}

impl State {
    /// Nothing was set. Channels do not count: they are no server's.
    pub fn is_initial(&self) -> bool {
        self.settings.is_empty() && self.identity.is_login() && !self.overflowed
    }

    /// Something was set that cannot be set on another server.
    pub fn is_bound(&self) -> bool {
        self.overflowed || self.settings.values().any(|setting| setting.again.is_none())
    }

    /// What is made without a schema's name may be temporary. //= pg18 runtime-config-client#GUC-SEARCH-PATH
    pub(crate) fn makes_temporary(&self) -> bool {
        let path = self.settings.get(&b"search_path"[..]).and_then(|setting| setting.again.as_ref());
        path.is_some_and(|path| path.bytes().to_ascii_lowercase().windows(7).any(|part| part == b"pg_temp"))
    }

    pub fn sets_local_buffers(&self) -> bool {
        self.settings.contains_key(TEMP_BUFFERS)
    }

    /// What decides, besides the reported parameters, which tables a text's names mean and what its constants are.
    pub fn meaning(&self) -> impl Iterator<Item = Option<&[u8]>> {
        let settings =
            meaning::SETTINGS.into_iter().map(|name| self.settings.get(name)?.again.as_ref().map(Again::bytes));
        settings.chain([self.identity.authorization.as_deref(), self.identity.role.as_deref()])
    }

    /// How long its session can wait for a server; `None`: it does not say, or nothing that is understood.
    pub fn deadline_ms(&self) -> Option<u32> {
        match self.settings.get(&b"pgweir.deadline_ms"[..])?.again.as_ref()? {
            Again::Value(value) => milliseconds(value),
            Again::Clause(clause) => {
                let value = clause.trim_ascii();
                let value = value.strip_suffix(b"'").unwrap_or(value);
                let start = value.iter().rposition(|byte| matches!(byte, b'=' | b'\''));
                let start = start.or_else(|| value.iter().rposition(u8::is_ascii_whitespace));
                milliseconds(&value[start? + 1..])
            }
        }
    }

    /// A session begins with a setting of its own, in its startup packet. //= pg18 libpq-connect (options)
    pub fn begin_with(&mut self, name: &[u8], value: &[u8]) {
        let name = setting_key(name.iter().copied());
        self.set(&name, Some(&Again::Value(value.into())));
    }

    /// As [`State::apply`], in a session that began with settings of its own, on servers with this base: these are what a reset
    /// brings back.
    fn apply_over(&mut self, first: &State, base: &Base, change: &SettingChange) {
        match change {
            SettingChange::NoRole => self.end_role(base.has_role()),
            SettingChange::Reset(name) if **name == *b"role" => self.identity.role.clone_from(&first.identity.role),
            SettingChange::Reset(name) if **name == *b"session_authorization" => self.identity = first.identity.clone(),
            SettingChange::Reset(name) => match first.settings.get(name) {
                Some(setting) => self.put(name, setting.clone()),
                None if base.has(name) => self.remove(name),
                None => self.apply(change),
            },
            SettingChange::ResetAll | SettingChange::DiscardAll => {
                self.apply(change);
                if *change == SettingChange::DiscardAll {
                    self.identity = first.identity.clone();
                }
                first.settings.iter().for_each(|(name, setting)| self.put(name, setting.clone()));
            }
            SettingChange::Set { .. } | SettingChange::Channels(_) => self.apply(change),
        }
    }

    pub fn value(&self, name: &[u8]) -> Option<&[u8]> {
        match self.settings.get(&setting_key(name.iter().copied())[..])?.again.as_ref()? {
            Again::Value(value) => Some(value),
            Again::Clause(_) => None,
        }
    }

    pub(crate) fn apply(&mut self, change: &SettingChange) {
        match change {
            SettingChange::Set { name, again } => self.set(name, again.as_ref()),
            SettingChange::Reset(name) => match &**name {
                b"role" => self.identity.role = None,
                b"session_authorization" => self.identity = Identity::default(),
                name if name.contains(&b'.') && self.settings.contains_key(name) => {
                    self.set(name, Some(&by_default(name)))
                }
                name => self.remove(name),
            },
            SettingChange::NoRole => self.identity.role = None,
            SettingChange::ResetAll => self.clear(),
            SettingChange::DiscardAll => {
                self.clear();
                self.identity = Identity::default();
                self.channels.remove(None);
            }
            SettingChange::Channels(change) => self.channels.apply(change),
        }
    }

    /// As [`State::apply`], of a setting that the server reports. The role that had set it `before` has most likely done so now.
    pub(crate) fn learn(&mut self, name: &[u8], again: Option<Again>, before: &State) {
        self.set(name, again.as_ref());
        match (before.settings.get(name), self.settings.get_mut(name)) {
            (Some(known), Some(_)) if known.is_of_unknown_role() => self.bind(name),
            (Some(known), Some(setting)) => setting.by.clone_from(&known.by),
            _ => {}
        }
    }

    /// As [`State::bind`], if it was otherwise `before`.
    pub(crate) fn bind_if_new(&mut self, name: &[u8], before: &State) {
        if self.settings.get(name) != before.settings.get(name) {
            self.bind(name);
        }
    }

    /// It is unknown which role has set this: if that may have needed rights that the login has not, it holds on this server alone.
    fn bind(&mut self, name: &[u8]) {
        if let Some(setting) = self.settings.get_mut(name).filter(|_| rights::may_be_needed(name)) {
            self.len -= setting.again.take().map_or(0, |again| again.bytes().len());
            setting.by = Some(Arc::default());
        }
    }

    /// All settings, so that a test can compare them.
    #[cfg(test)]
    pub(crate) fn settings(&self) -> impl std::fmt::Debug + '_ {
        &self.settings
    }

    /// Of all that is set.
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.settings.keys().map(|name| &**name)
    }

    /// And the role whose rights it has.
    fn kept(&self) -> impl Iterator<Item = &[u8]> {
        let authorization = self.identity.authorization.is_some().then_some(&b"session_authorization"[..]);
        let role = self.identity.role.is_some().then_some(&b"role"[..]);
        self.names().chain(authorization).chain(role)
    }

    pub(crate) fn forget(&mut self, name: &[u8]) {
        match name {
            b"role" => self.identity.role = None,
            b"session_authorization" => self.identity = Identity::default(),
            name => self.remove(name),
        }
    }

    pub(crate) fn channels(&self) -> &Channels {
        &self.channels
    }

    /// Takes out what a server lists by itself: not what the application calls its own.
    pub(crate) fn forget_listed(&mut self) {
        let listed = self.settings.keys().filter(|name| !name.contains(&b'.')).cloned();
        listed.collect::<Vec<_>>().iter().for_each(|name| self.remove(name));
    }

    fn clear(&mut self) {
        self.settings.clear();
        self.len = 0;
        self.overflowed = false;
    }

    fn set(&mut self, name: &[u8], again: Option<&Again>) {
        match name {
            b"role" => {
                let role = clause(name, again);
                self.overflowed |= role.is_none();
                return self.assume(Identity { role, ..self.identity.clone() });
            }
            // It ends the role, too. //= pg18 sql-set-session-authorization
            b"session_authorization" => {
                return self.assume(Identity { authorization: clause(name, again), role: None });
            }
            _ => {}
        }
        let by = (!self.identity.is_login() && rights::may_be_needed(name)).then(|| Arc::new(self.identity.clone()));
        self.put(name, Setting { again: again.cloned(), by });
    }

    fn put(&mut self, name: &[u8], mut setting: Setting) {
        self.remove(name);
        if self.len + name.len() > limits::SETTINGS_LEN_MAX {
            self.overflowed = true;
            return;
        }
        let len = |setting: &Setting| name.len() + setting.again.as_ref().map_or(0, |again| again.bytes().len());
        if self.len + len(&setting) > limits::SETTINGS_LEN_MAX {
            setting.again = None;
        }
        self.len += len(&setting);
        self.settings.insert(name.into(), setting);
    }

    fn assume(&mut self, identity: Identity) {
        // A role that cannot be assumed again must not be forgotten.
        self.overflowed |= identity.is_login();
        self.identity = identity;
    }

    fn remove(&mut self, name: &[u8]) {
        if let Some(before) = self.settings.remove(name) {
            self.len -= name.len() + before.again.map_or(0, |again| again.bytes().len());
        }
    }

    /// Appends the statements that give a server with the state `found` this one, each with its semicolon. `base`: the server's base,
    /// which both states are relative to.
    pub fn write_difference(&self, found: &State, base: &Base, out: &mut Vec<u8>) -> Risk {
        Difference { wanted: self, found, base, asks_again: false }.write(out)
    }
}

/// What follows SET to become somebody.
fn clause(name: &[u8], again: Option<&Again>) -> Option<Box<[u8]>> {
    match again.filter(|again| again.bytes().is_ascii())? {
        Again::Clause(clause) => Some(clause.clone()),
        Again::Value(value) => {
            let mut clause = name.to_vec();
            clause.push(b'=');
            quote_literal(value, &mut clause);
            Some(clause.into())
        }
    }
}

/// An identifier in quotes.
pub fn write_identifier(name: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in name {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(state: &mut State, name: &str, clause: &str) {
        let again = Some(Again::Clause(clause.as_bytes().into()));
        state.apply(&SettingChange::Set { name: name.as_bytes().into(), again });
    }

    fn difference(wanted: &State, found: &State) -> (String, Risk) {
        let mut out = Vec::new();
        let risk = wanted.write_difference(found, &base::LOGIN, &mut out);
        (String::from_utf8(out).expect("test values are ASCII"), risk)
    }

    #[test]
    fn reset_all_leaves_the_role_discard_all_does_not() {
        let mut state = State::default();
        set(&mut state, "role", "role r");
        set(&mut state, "work_mem", "work_mem = '1MB'");
        state.apply(&SettingChange::ResetAll);
        assert_eq!(difference(&state, &State::default()).0, "SET SESSION role r;");
        state.apply(&SettingChange::DiscardAll);
        assert!(state.is_initial() && state.len == 0);
    }

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        let mut server = State::default();
        set(&mut server, "a\"; drop table t; --.b", "");
        let (text, _) = difference(&State::default(), &server);
        assert_eq!(text, "RESET \"a\"\"; drop table t; --\".\"b\";");
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_rest_binds() {
        let mut state = State::default();
        let long = "x".repeat(limits::SETTINGS_LEN_MAX);
        set(&mut state, "a", &long);
        assert!(state.is_bound() && state.len == 1);
        state.apply(&SettingChange::Reset(b"a"[..].into()));
        assert!(!state.is_bound() && state.is_initial());
        for number in 0..100_000 {
            set(&mut state, &format!("app.setting_{number}"), "app.x = '1'");
        }
        assert!(state.len <= limits::SETTINGS_LEN_MAX && state.is_bound());
    }
}
