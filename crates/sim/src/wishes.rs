//! What the command line, or a test, says about a world.

use settings::{Fidelity, PoolSize};

use crate::overrides::Overrides;

/// What the command line, or a test, says about a run.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    pub seed: u64,
    pub steps: Option<u64>,
    pub workers: Option<u16>,
    /// A small calm world.
    pub calm: bool,
    /// A world in which pools share a cap.
    pub shares: bool,
    /// A world in which classes share a pool.
    pub classes: bool,
    /// A world with one pool of this size, and a PostgreSQL that has a best one.
    pub sizes: Option<PoolSize>,
    /// Worlds in which settings promise more than in others come four times as often.
    pub promises: bool,
    /// Workers panic.
    pub panics: bool,
    /// What becomes of session state; otherwise the seed decides.
    pub fidelity: Option<Fidelity>,
    /// Settings that hold whatever the seed decides.
    pub set: Overrides,
    #[cfg(feature = "sabotage")]
    pub sabotage: Option<machine::sabotage::Sabotage>,
}
