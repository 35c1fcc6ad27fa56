//! The states of a pool on one worker, with one function for each transition.
//!
//! `docs/states.md` has a drawing of them, which a test compares with the table. In builds with assertions each
//! function checks that its transition is in the table. The callers do what a transition means for the pool's sessions
//! and servers.

use units::Time;

use super::Pool;

/// The state of a pool, with the fields that are valid in it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its database is configured: sessions come, and servers are opened for them.
    Used,
    /// The same, but a client needs the database to have no connections: until then, servers are closed as soon as they
    /// are free. After that it is like [`Life::Used`].
    Vacating { until: Time },
    /// A reload has removed its database. Servers are closed as soon as they are free, and sessions as soon as they
    /// have no server.
    Removed,
    /// The coordinator has taken it off its list: no session comes any more, and it is forgotten when nothing of it is
    /// left here.
    Retired,
}

units::transitions! {Life, drawn under "Pools":
    Used { vacate => Vacating, remove => Removed, retire => Retired }
    Vacating { vacate => Vacating, remove => Removed, retire => Retired }
    Removed { restore => Used, retire => Retired }
    Retired {}
}

impl Pool {
    /// A client needs its database to have no connections, and PostgreSQL waits until then for that. If the database
    /// was removed, its servers are closed anyway.
    pub fn vacate(&mut self, until: Time) {
        if matches!(self.life, Life::Used | Life::Vacating { .. }) {
            self.life.go("vacate", Life::Vacating { until });
        }
    }

    /// A reload does not have its database. Does nothing if an earlier one already did not.
    pub fn remove(&mut self) {
        if matches!(self.life, Life::Used | Life::Vacating { .. }) {
            self.life.go("remove", Life::Removed);
        }
    }

    /// A reload has its database. Does nothing unless it was removed.
    pub fn restore(&mut self) {
        if self.life == Life::Removed {
            self.life.go("restore", Life::Used);
        }
    }

    /// The coordinator has taken it off its list.
    pub fn retire(&mut self) {
        self.life.go("retire", Life::Retired);
    }

    /// Whether free servers are to be closed, so that its database has no connections.
    pub fn is_vacating(&self, now: Time) -> bool {
        matches!(self.life, Life::Vacating { until } if until > now)
    }

    #[inline]
    pub fn is_removed(&self) -> bool {
        self.life == Life::Removed
    }

    pub fn is_retired(&self) -> bool {
        self.life == Life::Retired
    }
}
