//! Where a pool is in its life on one worker, and what leads from one state to another: a function for each way.
//!
//! The ways are drawn in `docs/states.md`. In builds with assertions each function checks that it is drawn from where it
//! begins; a test compares the drawing with the table. What is done to the pool's sessions and servers is not known here.

use units::Time;

use super::Pool;

/// Where a pool is in its life. What is not valid in a state is not a field of it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// Its database is configured: sessions come, and servers are opened for them.
    Used,
    /// The same, and a client wants the database to be empty: until then servers leave it as soon as they are free. After that
    /// it is as [`Life::Used`].
    Vacating { until: Time },
    /// A reload has taken its database away. Servers are closed as soon as they are free, and sessions as soon as they have none.
    Removed,
    /// The coordinator has taken it off its list: no session comes any more, and it goes when nothing of it is left here.
    Retired,
}

impl Life {
    /// Without what belongs to it, as it is drawn.
    fn name(self) -> &'static str {
        match self {
            Life::Used => "Used",
            Life::Vacating { .. } => "Vacating",
            Life::Removed => "Removed",
            Life::Retired => "Retired",
        }
    }
}

/// From where, by which function, to where.
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

    /// A client wants its database to be empty, and PostgreSQL waits so long for that. Where the database is not configured
    /// any more its servers leave anyway.
    pub fn vacate(&mut self, until: Time) {
        if matches!(self.life, Life::Used | Life::Vacating { .. }) {
            self.go("vacate", Life::Vacating { until });
        }
    }

    /// A reload does not have its database, and may be the first that has not.
    pub fn remove(&mut self) {
        if matches!(self.life, Life::Used | Life::Vacating { .. }) {
            self.go("remove", Life::Removed);
        }
    }

    /// A reload has its database, and may be the first that has it again.
    pub fn restore(&mut self) {
        if self.life == Life::Removed {
            self.go("restore", Life::Used);
        }
    }

    /// The coordinator has taken it off its list.
    pub fn retire(&mut self) {
        self.go("retire", Life::Retired);
    }

    /// Servers that are free leave its database.
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
