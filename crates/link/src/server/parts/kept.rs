//! The session state that is on a server, and the state that it had when it was opened.

use std::sync::Arc;

use session_state::parameters::{Interned, Parameters, Reported, Tracked};
use session_state::state::{Base, OnServer, State as SessionState};
use units::{Serial, Time};

use crate::server::{ParameterOwners, Sequences};

/// The reports of a new server, while the pooler asks it for its base.
#[derive(Debug, Default)]
pub struct Begins {
    /// The last reported value of each parameter.
    pub(crate) reported: Reported,
    /// The row of its answer.
    pub(crate) row: Option<Box<[u8]>>,
}

impl Begins {
    /// A ParameterStatus has come.
    pub(crate) fn note(&mut self, name: &[u8], value: &[u8]) {
        match self.reported.iter_mut().find(|(known, _)| **known == *name) {
            Some((_, known)) => *known = value.into(),
            None => self.reported.push((name.into(), value.into())),
        }
    }
}

/// The session state that is on a server. The next session may need other values.
#[derive(Debug)]
pub struct Kept {
    /// Present while a new server is asked for its base.
    pub(crate) begins: Option<Box<Begins>>,
    /// Its role and settings when it was opened, as far as PostgreSQL does not report them.
    pub(crate) base: Arc<Base>,
    pub(crate) parameters: Arc<Parameters>,
    /// The values that RESET gives it: those of its login, or of PostgreSQL's configuration where that has changed since.
    pub(crate) at_reset: Arc<Parameters>,
    pub(crate) owners: ParameterOwners,
    /// Untracked parameters whose reported values differ from those that the pool's servers begin with.
    pub(crate) reported: Reported,
    /// What sessions have set on it; `None`: nothing.
    pub(crate) session_state: Option<Arc<SessionState>>,
    /// Present if it has a role, an authorization, or a setting for which rights are needed.
    pub(crate) rights: Option<RightsSince>,
    /// What SQL's PREPARE has left on it.
    pub(crate) on_server: OnServer,
    pub(crate) sequences: Sequences,
    /// Present if PostgreSQL was told another application_name than the client's.
    pub(crate) shown_name: Option<Box<ShownName>>,
}

/// Since when a server has what needs rights, by its session's state.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct RightsSince {
    /// Not later than when it was given the oldest of its role, its authorization and its guarded settings.
    pub(crate) given_at: Time,
    /// The session that left it last, if all of that is this session's; and when that session had asked for rights last.
    pub(crate) last: Option<(Serial, Time)>,
}

/// Another application_name than the client's, by `server_application_name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownName {
    /// What PostgreSQL was told.
    pub(crate) shown: Box<[u8]>,
    /// What the client had at that time.
    pub(crate) own: Box<[u8]>,
    /// False: the client has set a name since.
    pub(crate) is_in_force: bool,
}

impl ShownName {
    /// PostgreSQL has reported a name. Whether it is this one, so that the client is to see its own.
    pub(crate) fn is_reported(&mut self, name: &[u8]) -> bool {
        self.is_in_force = *self.shown == *name;
        self.is_in_force
    }
}

impl Kept {
    /// One copy of equal parameters: those that it has are another worker's or another process's copy.
    pub fn intern(&mut self, interned: &mut Interned) {
        self.parameters = interned.intern((*self.parameters).clone());
    }

    /// A session that moves to another process with its server leaves this state on it.
    pub fn leave(&mut self, state: Arc<SessionState>) {
        self.session_state = (!state.is_initial()).then_some(state);
    }

    /// Its role and settings when it was opened.
    pub fn base(&self) -> &Base {
        &self.base
    }

    #[inline]
    pub fn parameters(&self) -> &Arc<Parameters> {
        &self.parameters
    }

    pub fn owners(&self) -> &ParameterOwners {
        &self.owners
    }

    /// Untracked parameters whose reported values differ from those that the pool's servers begin with.
    pub fn reported(&self) -> &Reported {
        &self.reported
    }

    /// What sessions have set on it; `None`: nothing.
    #[inline]
    pub fn session_state(&self) -> Option<&Arc<SessionState>> {
        self.session_state.as_ref()
    }

    /// What SQL's PREPARE has left on it.
    pub fn on_server(&self) -> &OnServer {
        &self.on_server
    }

    pub fn on_server_mut(&mut self) -> &mut OnServer {
        &mut self.on_server
    }

    /// Whether PostgreSQL was sent another application_name than the client's.
    pub fn has_shown_name(&self) -> bool {
        self.shown_name.is_some()
    }

    /// The application_name that PostgreSQL has.
    pub fn name_at_postgresql(&self) -> &[u8] {
        match &self.shown_name {
            Some(name) if name.is_in_force => &name.shown,
            _ => self.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default(),
        }
    }
}

/// The reset that has removed a server's base.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bare {
    /// DISCARD ALL: `connect_query` runs again.
    Cleared,
    /// RESET in `server_reset_query`: the base is set again by name.
    Reset,
}

impl Bare {
    /// None if the server has no base beyond its login.
    #[must_use]
    pub(crate) fn of(self, is_login: bool) -> Option<Bare> {
        (!is_login).then_some(self)
    }
}
