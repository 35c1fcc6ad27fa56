//! What all sessions of a worker share, so that it is there once: parameters and prepared statements that are alike, and what
//! texts mean that were read before.

use machine::Settings;
use session_state::parameters::{Interned, Tracked};
use session_state::prepared::Catalog;
use session_state::state::Reader;
use units::random::Random;

#[derive(Debug)]
pub struct Caches {
    /// Which parameters are followed.
    pub tracked: Tracked,
    /// Their values, each combination once.
    pub interned: Interned,
    /// Prepared statements, by what they say.
    pub catalog: Catalog,
    /// What texts mean.
    pub reader: Reader,
}

impl Caches {
    /// Empty ones. `seed`: the worker's, unpredictable.
    pub fn new(settings: &Settings, seed: [u8; 32]) -> Caches {
        Caches {
            tracked: Tracked::new(&settings.global.startup.track_extra_parameters),
            interned: Interned::default(),
            catalog: Catalog::default(),
            reader: Reader::new(memo_secret(seed), settings.global.pools.statement_memo_size as usize),
        }
    }
}

/// Whoever does not know it cannot find texts that the memo mistakes for each other.
pub fn memo_secret(mut seed: [u8; 32]) -> u64 {
    // Another stream than that of the secrets that clients are told.
    seed[0] ^= 0xff;
    u64::from_ne_bytes(Random::new(seed).bytes())
}
