//! Randomness as an input: a cryptographic generator from a seed that the caller draws.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Nonces, salts and cancel secrets come from here.
#[derive(Debug)]
pub struct Random(ChaCha20Rng);

impl Random {
    pub fn new(seed: [u8; 32]) -> Random {
        Random(ChaCha20Rng::from_seed(seed))
    }

    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }

    pub fn secret(&mut self) -> i32 {
        i32::from_ne_bytes(self.bytes())
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(u64::from_ne_bytes(self.bytes())) * u128::from(limit)) >> 64) as u64
    }

    pub fn seeded(seed: u64) -> Random {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        Random::new(bytes)
    }
}
