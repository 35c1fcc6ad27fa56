//! All that rules look at: what was read of the pooler, of PostgreSQL and of the machine, and what the user said.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::pooler::Pooler;
use crate::postgres::Postgres;

/// All of it. What is `None` was not looked at, and no rule finds anything there.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    pub asked: Asked,
    pub pooler: Option<Pooler>,
    pub postgres: Option<Postgres>,
    /// PostgreSQL's machine, if it is this one.
    pub machine: Option<Machine>,
    pub unseen: Vec<Unseen>,
}

/// What the user says.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Processes of the pooler with these settings, before the same PostgreSQL.
    pub replicas: u32,
    /// Of PostgreSQL's machine, where it is another one.
    pub cores: Option<u32>,
    /// For how long the application's clients wait for an answer.
    pub client_timeout: Option<Duration>,
    /// Transactions that have lasted longer count as long.
    pub long: Duration,
}

impl Default for Asked {
    fn default() -> Self {
        Self { replicas: 1, cores: None, client_timeout: None, long: Duration::from_secs(300) }
    }
}

/// The machine that PostgreSQL and this program share.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    pub cores: u32,
    /// In bytes; what a control group leaves of it.
    pub memory: u64,
    /// Of backends, by pid, as far as the kernel tells.
    pub backends: BTreeMap<i32, Memory>,
}

/// Of one process, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What no other process shares: free again once it ends.
    pub private: u64,
}

/// What could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unseen {
    pub what: String,
    pub why: String,
    /// A command that would show it.
    pub mend: Option<String>,
}

impl Facts {
    /// Cores of PostgreSQL's machine.
    #[must_use]
    pub fn cores(&self) -> Option<u32> {
        self.asked.cores.or(self.machine.as_ref().map(|machine| machine.cores)).filter(|cores| *cores > 0)
    }
}
