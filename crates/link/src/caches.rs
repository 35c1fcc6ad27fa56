//! What all sessions of a worker share, so that it is there once: parameters and prepared statements that are alike, and what
//! texts mean that were read before.

use machine::Settings;
use session_state::parameters::{Interned, Tracked};
use session_state::prepared::Catalog;
use session_state::state::Reader;
use sql::Key;
use units::random::Random;

use crate::buffers::Buffers;
use crate::standings::Standings;

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
    /// What rules of classes say of sessions.
    pub standings: Standings,
    /// For messages that are kept.
    pub buffers: Buffers,
    /// What texts are told apart by in what pools know of them; secret, so that nobody makes another's look long.
    pub key_of_origins: Key,
}

impl Caches {
    /// Empty ones. `seed`: the worker's, unpredictable.
    pub fn new(settings: &Settings, seed: [u8; 32]) -> Caches {
        Caches {
            tracked: Tracked::new(&settings.global.startup.track_extra_parameters),
            interned: Interned::default(),
            catalog: Catalog::default(),
            standings: Standings::default(),
            buffers: Buffers::default(),
            key_of_origins: Key::from_seed(memo_secret(seed).rotate_left(32)),
            reader: Reader::new(memo_secret(seed), settings.global.pools.statement_memo_size as usize),
        }
    }
}

/// Whoever does not know it cannot find texts that the memo mistakes for each other.
fn memo_secret(mut seed: [u8; 32]) -> u64 {
    // Another stream than that of the secrets that clients are told.
    seed[0] ^= 0xff;
    u64::from_ne_bytes(Random::new(seed).bytes())
}
