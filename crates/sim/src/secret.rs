//! The secret half of a cancel key: 4 bytes in protocol 3.0, up to 32 in what model clients and servers have of 3.2.

/// A secret, as a value that is copied.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    len: u8,
    bytes: [u8; Secret::LEN_MAX],
}

impl Secret {
    pub(crate) const LEN_MAX: usize = 32;

    /// `None`: it is longer than any of this world's.
    pub(crate) fn read(bytes: &[u8]) -> Option<Secret> {
        let mut secret = Secret { len: u8::try_from(bytes.len()).ok()?, bytes: [0; Secret::LEN_MAX] };
        secret.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(secret)
    }

    /// So many bytes, made of four.
    pub(crate) fn stretched(seed: [u8; 4], len: usize) -> Secret {
        let bytes = std::array::from_fn(|at| seed[at % 4].wrapping_add(at as u8 / 4));
        Secret { len: len.clamp(4, Secret::LEN_MAX) as u8, bytes }
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.len)]
    }

    /// The same with one bit changed.
    pub(crate) fn with_bit(mut self, bit: u32) -> Secret {
        self.bytes[bit as usize / 8] ^= 1 << (bit % 8);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written() {
        for len in 0..40 {
            let bytes: Vec<u8> = (0..len).collect();
            let secret = Secret::read(&bytes);
            assert_eq!(secret.map(|secret| secret.as_slice().to_vec()), (len <= 32).then_some(bytes));
        }
        let long = Secret::stretched([1, 2, 3, 4], 9);
        assert_eq!(long.as_slice(), [1, 2, 3, 4, 2, 3, 4, 5, 3]);
        assert_eq!(long.with_bit(9).as_slice(), [1, 0, 3, 4, 2, 3, 4, 5, 3]);
    }
}
