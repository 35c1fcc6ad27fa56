//! A worker's tables, read-only: for the console, and for deadlines.

use std::time::Duration;

use link::server::Server;
use link::session::Session;
use link::statistics::Statistics;
use machine::{Settings, Upstreams};
use units::Time;
use units::table::Table;

use crate::tables::owners::Pools;
use crate::tables::stopping::Stopping;

/// A worker's tables, read-only.
#[derive(Copy, Clone, Debug)]
pub struct View<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) sessions: &'a Table<Session>,
    pub(crate) servers: &'a Table<Server>,
    pub(crate) pools: &'a Pools,
    pub(crate) upstreams: &'a Upstreams,
    pub(crate) stopping: &'a Stopping,
    pub(crate) statistics: &'a Statistics,
    /// No timeout ends anything before this: RESUME has just ended SUSPEND.
    pub(crate) spared_until: Time,
}

impl View<'_> {
    /// The hosts of databases, as they are known here.
    #[must_use]
    pub fn upstreams(&self) -> &Upstreams {
        self.upstreams
    }

    /// How much longer than a waiter of this worker another worker's must have waited to be served first (I7).
    #[must_use]
    pub fn patience(&self, pool: units::id::PoolId) -> Option<Duration> {
        self.pools.get(pool).map(|pool| pool.servers().patience())
    }

    /// Whether a pool's first clients wait until the side effects in its database have been read.
    #[must_use]
    pub fn awaits_side_effects(&self, pool: units::id::PoolId) -> bool {
        self.pools.get(pool).is_some_and(|pool| pool.known().is_awaited())
    }
}
