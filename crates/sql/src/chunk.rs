//! Eight bytes of a text at once, in one register, and where certain bytes are among them.
//!
//! Byte 0 of the text is the lowest of the register. Places among the eight are marked by their top bits.

/// Bytes from a text, filled up with zeros where it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk(u64);

pub(crate) const CHUNK_LEN: usize = 8;

/// Some of a chunk's bytes, of which the first is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(u64);

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

impl Chunk {
    #[inline(always)]
    pub(crate) fn load(text: &[u8], at: usize) -> Chunk {
        match text.get(at..).and_then(|rest| rest.first_chunk::<CHUNK_LEN>()) {
            Some(bytes) => Chunk::of(bytes),
            None => last(text, at),
        }
    }

    #[inline(always)]
    pub(crate) fn of(bytes: &[u8; CHUNK_LEN]) -> Chunk {
        Chunk(u64::from_le_bytes(*bytes))
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Where one of these two bytes is; only the first place is exact.
    #[inline(always)]
    pub(crate) fn either(self, one: u8, other: u8) -> Places {
        // A byte that is zero borrows from above itself: what lies below the first is right.
        let zeros = |bytes: u64| bytes.wrapping_sub(LOW) & !bytes;
        let differs = |byte: u8| self.0 ^ (u64::from(byte) * LOW);
        Places((zeros(differs(one)) | zeros(differs(other))) & HIGH)
    }

    /// Where digits, quotes, dollars, `-` and `/` are, and a few others: `# % & .`
    #[inline(always)]
    pub(crate) fn openers(self) -> Places {
        let bytes = self.0 & !HIGH;
        let quotes = (bytes + (0x80 - 0x22) * LOW) & !(bytes + (0x80 - 0x28) * LOW);
        let digits = (bytes + (0x80 - 0x2d) * LOW) & !(bytes + (0x80 - 0x3a) * LOW);
        Places((quotes | digits) & !self.0 & HIGH)
    }

    /// Where this byte is, which has no top bit; every place is exact.
    #[inline(always)]
    pub(crate) fn places_of(self, byte: u8) -> Places {
        let differs = self.0 ^ (u64::from(byte) * LOW);
        Places(!(((differs & !HIGH) + !HIGH) | differs) & HIGH)
    }

    /// The first `len` bytes, which are fewer than eight, a one behind them, and zeros: even if they are zeros themselves,
    /// it is told how many they are.
    #[inline(always)]
    pub(crate) fn first(self, len: usize) -> Chunk {
        debug_assert!(len < CHUNK_LEN);
        let end = 1 << (8 * (len % CHUNK_LEN));
        Chunk(self.0 & (end - 1) | end)
    }
}

impl Places {
    /// The first of them.
    #[inline(always)]
    pub(crate) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| (self.0.trailing_zeros() / 8) as usize)
    }

    /// Those from this byte on.
    #[inline(always)]
    pub(crate) fn from(self, byte: usize) -> Places {
        Places(if byte < CHUNK_LEN { self.0 & (u64::MAX << (8 * byte)) } else { 0 })
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn without(self, others: Places) -> Places {
        Places(self.0 & !others.0)
    }

    /// Those in one of both, but not in both.
    #[inline(always)]
    pub(crate) fn differing(self, others: Places) -> Places {
        Places(self.0 ^ others.0)
    }

    /// Whether their number is odd.
    #[inline(always)]
    pub(crate) fn are_odd(self) -> bool {
        !self.is_empty() && self.0.count_ones() % 2 == 1
    }

    /// Those behind the first. Right only where every place is.
    #[inline(always)]
    pub(crate) fn rest(self) -> Places {
        Places(self.0 & self.0.wrapping_sub(1))
    }
}

/// Fewer than eight bytes, from `at` to the end. Reads that overlap agree where they do.
#[inline(always)]
fn last(text: &[u8], at: usize) -> Chunk {
    if let Some(bytes) = text.last_chunk::<CHUNK_LEN>() {
        let before = at - (text.len() - CHUNK_LEN);
        return Chunk(if before < CHUNK_LEN { u64::from_le_bytes(*bytes) >> (8 * before) } else { 0 });
    }
    let rest = text.get(at..).unwrap_or_default();
    if let (Some(first), Some(end)) = (rest.first_chunk::<4>(), rest.last_chunk::<4>()) {
        let end = u64::from(u32::from_le_bytes(*end)) << (8 * (rest.len() - 4));
        return Chunk(u64::from(u32::from_le_bytes(*first)) | end);
    }
    Chunk(rest.iter().rev().fold(0, |bytes, byte| bytes << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_bytes_is_found() {
        for (byte, place) in (0..=255_u8).flat_map(|byte| (0..CHUNK_LEN).map(move |place| (byte, place))) {
            let mut bytes = *b"az.\x7f\x80\xffz0";
            bytes[place] = byte;
            let is_either = |it: &u8| *it == byte || *it == b'z';
            let found = Chunk::of(&bytes).either(byte, b'z').first();
            assert_eq!(found, bytes.iter().position(is_either), "{bytes:?}");
        }
    }

    #[test]
    fn openers_are_all_found() {
        for (byte, place) in (0..=255_u8).flat_map(|byte| (0..CHUNK_LEN).map(move |place| (byte, place))) {
            let mut bytes = *b"1a\xb1'(-\xff9";
            bytes[place] = byte;
            let mut places = Chunk(u64::from_le_bytes(bytes)).openers();
            let is_opener = |byte: u8| matches!(byte, b'"'..=b'\'' | b'-'..=b'9');
            for at in (0..CHUNK_LEN).filter(|at| is_opener(bytes[*at])) {
                assert_eq!(places.first(), Some(at), "{bytes:?}");
                places = places.rest();
            }
            assert_eq!(places.first(), None, "{bytes:?}");
        }
    }

    #[test]
    fn every_place_of_a_byte_is_found() {
        for (byte, place) in (0..=255_u8).flat_map(|byte| (0..CHUNK_LEN).map(move |place| (byte, place))) {
            let mut bytes = *b"0.\xae\"\"\xa2#9";
            bytes[place] = byte;
            let chunk = Chunk(u64::from_le_bytes(bytes));
            let among =
                |is: &dyn Fn(u8) -> bool| -> Vec<usize> { (0..CHUNK_LEN).filter(|at| is(bytes[*at])).collect() };
            let list = |mut places: Places| {
                let next = move || places.first().inspect(|_| places = places.rest());
                std::iter::from_fn(next).collect::<Vec<usize>>()
            };
            assert_eq!(list(chunk.places_of(b'"')), among(&|byte| byte == b'"'), "{bytes:?}");
            assert_eq!(list(chunk.places_of(b'.')), among(&|byte| byte == b'.'), "{bytes:?}");
        }
    }

    #[test]
    fn a_text_may_end_anywhere() {
        let text = *b"0123456789abcdefghijk";
        for len in 0..text.len() {
            for at in 0..=len {
                let mut bytes = [0; CHUNK_LEN];
                for (to, from) in bytes.iter_mut().zip(&text[at..len]) {
                    *to = *from;
                }
                assert_eq!(Chunk::load(&text[..len], at).0, u64::from_le_bytes(bytes), "{at} of {len}");
            }
        }
        assert_eq!(Chunk::load(b"a", 7).0, 0);
    }

    #[test]
    fn the_first_bytes_are_kept_and_counted() {
        let bytes = *b"abcdefgh";
        for len in 0..CHUNK_LEN {
            let mut kept = [0; CHUNK_LEN];
            kept[..len].copy_from_slice(&bytes[..len]);
            kept[len] = 1;
            assert_eq!(Chunk::of(&bytes).first(len), Chunk::of(&kept));
        }
    }

    #[test]
    fn places_are_left_out_from_below() {
        let places = Chunk::of(b"1a1aaa1a").openers();
        let firsts: Vec<Option<usize>> = (0..=CHUNK_LEN + 1).map(|byte| places.from(byte).first()).collect();
        let expected = [Some(0), Some(2), Some(2), Some(6), Some(6), Some(6), Some(6), None, None, None];
        assert_eq!(firsts, expected);
    }
}
