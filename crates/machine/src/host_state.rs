//! One host of a database, as it was observed.

use std::sync::Arc;

use connections::databases::Address;
use units::Time;

/// Whether a PostgreSQL is in hot standby. A connection has the role that was reported at its login: PostgreSQL becomes a standby only by a restart, and
/// is promoted without one.
//= pg18 runtime-config-preset#GUC-IN-HOT-STANDBY
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostRole {
    Standby,
    Primary,
}

impl HostRole {
    #[must_use]
    pub fn of(in_hot_standby: bool) -> HostRole {
        if in_hot_standby { HostRole::Standby } else { HostRole::Primary }
    }

    #[must_use]
    pub fn is_standby(self) -> bool {
        self == HostRole::Standby
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            HostRole::Standby => "standby",
            HostRole::Primary => "primary",
        }
    }
}

/// Whether connections to a host succeed.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostState {
    /// A connection has failed: until then other hosts come first.
    Failed { until: Time },
    /// The host has not answered a probe for `host_timeout`. PostgreSQL may be frozen while its kernel still accepts connections and bytes. This ends
    /// with the next answer.
    Silent,
    /// A server has logged in there, or nothing is known. `None`: its role is not known.
    Alive { role: Option<HostRole> },
}

/// A host, as it was observed last. The order is that of the observations; of two at the same time, a login counts more than a failure.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Upstream {
    /// When it was observed.
    pub at: Time,
    pub state: HostState,
    /// Since when it has been in this state.
    pub since: Time,
}

impl Upstream {
    /// No connection to it has been tried.
    pub const UNTRIED: Upstream =
        Upstream { at: Time::ZERO, state: HostState::Alive { role: None }, since: Time::ZERO };

    /// Observed now.
    #[must_use]
    pub fn new(at: Time, state: HostState) -> Upstream {
        Upstream { at, state, since: at }
    }

    /// The later of two observations. If both have seen the same, it has lasted since the earlier one.
    pub(crate) fn merge(self, later: Upstream) -> Upstream {
        let have_failed = |one: HostState, other: HostState| {
            matches!((one, other), (HostState::Failed { .. }, HostState::Failed { .. }))
        };
        if self == Upstream::UNTRIED || self.state != later.state && !have_failed(self.state, later.state) {
            return self.max(later);
        }
        Upstream { since: self.since.min(later.since), ..self.max(later) }
    }

    /// Whether other hosts come first.
    #[must_use]
    pub fn has_failed(self, now: Time) -> bool {
        self.is_silent() || matches!(self.state, HostState::Failed { until } if now < until)
    }

    /// Whether it does not answer probes.
    #[must_use]
    pub fn is_silent(self) -> bool {
        self.state == HostState::Silent
    }

    /// The role of the last server that logged in there.
    #[must_use]
    pub fn role(self) -> Option<HostRole> {
        match self.state {
            HostState::Alive { role } => role,
            HostState::Failed { .. } | HostState::Silent => None,
        }
    }
}

/// An observation of one host, as a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    pub host: Arc<Address>,
    pub upstream: Upstream,
}
