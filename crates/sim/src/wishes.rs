//! Requests of the command line or a test about worlds.

use settings::{Fidelity, PoolSize};

use crate::overrides::Overrides;

/// The requests about one run.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    pub seed: u64,
    pub steps: Option<u64>,
    pub workers: Option<u16>,
    /// A small world in fair weather.
    pub calm: bool,
    /// A world in which pools share a cap.
    pub shares: bool,
    /// A world in which classes share a pool.
    pub classes: bool,
    /// A world with one pool of this size, and a PostgreSQL with a best size.
    pub sizes: Option<PoolSize>,
    /// Worlds that test the features in `promises` come four times as often.
    pub promises: bool,
    /// Databases have two hosts, which change their roles, freeze and fail.
    pub hosts: bool,
    /// Workers panic.
    pub panics: bool,
    /// The fidelity of pools; `None`: the seed decides.
    pub fidelity: Option<Fidelity>,
    /// Settings that override the seed's.
    pub set: Overrides,
    #[cfg(debug_assertions)]
    pub sabotage: Option<machine::sabotage::Sabotage>,
}
