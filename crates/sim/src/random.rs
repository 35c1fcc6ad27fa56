//! Random numbers from a seed: the same seed gives the same world. xoshiro256** (Blackman and Vigna), seeded by
//! SplitMix64.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    #[must_use]
    pub fn new(seed: u64) -> Random {
        let mut mixed = seed;
        let state = std::array::from_fn(|_| {
            mixed = mixed.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut word = mixed;
            word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            word ^ (word >> 31)
        });
        Random { state }
    }

    pub fn next(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = b.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number below `limit`; 0 if that is 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        // The bias is below 2⁻³² for the limits used here.
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// A size from `low` to `high`, small ones as likely as large ones on a logarithmic scale.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let span = (high.saturating_sub(low) + 1).ilog2();
        let bits = self.range(0, u64::from(span));
        low + self.below(1 << bits).min(high - low)
    }

    /// True with a probability of `per_mille` in a thousand.
    pub fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1000) < u64::from(per_mille)
    }

    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let index = self.below(choices.len() as u64) as usize;
        &choices[index]
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        let words: [u64; 4] = std::array::from_fn(|_| self.next());
        let mut bytes = [0; 32];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b, mut c) = (Random::new(1), Random::new(1), Random::new(2));
        let first: Vec<u64> = (0..100).map(|_| a.next()).collect();
        assert!((0..100).map(|_| b.next()).eq(first.iter().copied()));
        assert!(!(0..100).map(|_| c.next()).eq(first.iter().copied()));
    }

    #[test]
    fn numbers_stay_in_their_range() {
        let mut random = Random::new(7);
        for _ in 0..10_000 {
            assert!((3..=9).contains(&random.range(3, 9)));
            assert!((1..=70_000).contains(&random.skewed(1, 70_000)));
            assert!(random.below(5) < 5);
        }
        assert_eq!(random.below(0), 0);
    }
}
