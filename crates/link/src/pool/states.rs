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

impl Life {
    /// The name in the drawing.
    fn name(self) -> &'static str {
        match self {
            Life::Used => "Used",
            Life::Vacating { .. } => "Vacating",
            Life::Removed => "Removed",
            Life::Retired => "Retired",
        }
    }
}

/// The transitions: from, by which function, to.
const WAYS: [(&str, &str, &str); 8] = [
    ("Used", "vacate", "Vacating"),
    ("Used", "remove", "Removed"),
    ("Used", "retire", "Retired"),
    ("Vacating", "vacate", "Vacating"),
    ("Vacating", "remove", "Removed"),
    ("Vacating", "retire", "Retired"),
    ("Removed", "restore", "Used"),
    ("Removed", "retire", "Retired"),
];

impl Pool {
    fn go(&mut self, way: &str, to: Life) {
        debug_assert!(
            WAYS.contains(&(self.life.name(), way, to.name())),
            "a pool does not {way} from {:?} to {to:?}",
            self.life
        );
        self.life = to;
    }

    /// A client needs its database to have no connections, and PostgreSQL waits until then for that. If the database
    /// was removed, its servers are closed anyway.
    pub fn vacate(&mut self, until: Time) {
        if matches!(self.life, Life::Used | Life::Vacating { .. }) {
            self.go("vacate", Life::Vacating { until });
        }
    }

    /// A reload does not have its database. Does nothing if an earlier one already did not.
    pub fn remove(&mut self) {
        if matches!(self.life, Life::Used | Life::Vacating { .. }) {
            self.go("remove", Life::Removed);
        }
    }

    /// A reload has its database. Does nothing unless it was removed.
    pub fn restore(&mut self) {
        if self.life == Life::Removed {
            self.go("restore", Life::Used);
        }
    }

    /// The coordinator has taken it off its list.
    pub fn retire(&mut self) {
        self.go("retire", Life::Retired);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_shows_the_ways() {
        let page = include_str!("../../../../docs/states.md");
        let (_, section) = page.split_once("## Pools").expect("a section of its own");
        let (section, _) = section.split_once("\n## ").unwrap_or((section, ""));
        let drawn: Vec<&str> =
            section.lines().map(str::trim).filter(|line| line.contains(" --> ") && line.contains(": ")).collect();
        let known: Vec<String> = WAYS.iter().map(|(from, way, to)| format!("{from} --> {to}: {way}")).collect();
        assert_eq!(drawn, known);
    }
}
