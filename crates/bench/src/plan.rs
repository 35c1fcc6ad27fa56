//! What is to be run, how often and how long.

use std::time::Duration;

use crate::rounds::Pace;

/// Paired rounds of each scenario, and the length of a timed slice in ms, unless something else is asked for.
pub const ROUNDS: u64 = 41;
pub const SLICE_MS: u64 = 250;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub pace: Pace,
    pub quick: bool,
    pub seed: u64,
    /// Load and contestant on a core each, instead of both on one.
    pub split: bool,
    /// Names of scenarios; empty means all.
    pub wanted: Vec<String>,
    /// CPU time of the given contestants and nothing else: no direct connection, no counting of system calls.
    pub bare: bool,
}

impl Plan {
    /// Whether a scenario of this name is asked for.
    pub fn wants(&self, name: &str) -> bool {
        self.wanted.is_empty() || self.wanted.iter().any(|wanted| wanted == name)
    }

    /// How long the system calls of one contestant are counted.
    pub fn counting(&self) -> Duration {
        Duration::from_millis(if self.quick { 200 } else { 1000 })
    }

    /// Rounds of the scenario with idle clients: a fresh process in each.
    pub fn idle_rounds(&self) -> usize {
        if self.quick { 1 } else { 5 }
    }

    /// Rounds of pgbench, and the seconds of each run: fewer and longer than elsewhere, for pgbench starts its clients
    /// and a real PostgreSQL its backends every time.
    pub fn pgbench(&self) -> (usize, u64) {
        if self.quick { (1, 1) } else { (21, 2) }
    }

    /// The same where few clients are at work.
    pub fn few(&self) -> (usize, u64) {
        if self.quick { (1, 1) } else { (11, 2) }
    }
}
