//! Eight bytes of a text at once, in one register: where a word ends, where a byte is.
//!
//! Byte 0 of the text is the lowest of the register. Places among the eight are marked by their top bits.

/// Bytes from a text, filled up with zeros where it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk(u64);

pub(crate) const CHUNK_LEN: usize = 8;

/// Some of a chunk's bytes, of which the first is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places(u64);

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

impl Chunk {
    #[inline(always)]
    pub(crate) fn load(text: &[u8], at: usize) -> Chunk {
        match text.get(at..).and_then(|rest| rest.first_chunk::<CHUNK_LEN>()) {
            Some(bytes) => Chunk(u64::from_le_bytes(*bytes)),
            None => last(text.get(at..).unwrap_or_default()),
        }
    }

    /// A single byte.
    pub(crate) const fn of(byte: u8) -> Chunk {
        Chunk(byte as u64)
    }

    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }

    /// Where letters, digits, underscores, dollars and bytes beyond ASCII are *not*; and the same bytes with small
    /// letters.
    #[inline(always)]
    pub(crate) fn word(self) -> (Places, Chunk) {
        let bytes = self.0;
        if bytes & HIGH != 0 {
            return self.word_beyond_ascii();
        }
        // The top bits are free, so no sum or difference carries into the next byte.
        let small = bytes | (0x20 * LOW);
        let letters = (small + 0x1f * LOW) & !(small + 0x05 * LOW) & HIGH;
        let digits = (bytes + 0x50 * LOW) & !(bytes + 0x46 * LOW);
        let underscores = HIGH - (bytes ^ (0x5f * LOW));
        let stops = !(letters | digits | underscores) & HIGH;
        (Places(stops), Chunk(bytes | (letters >> 2)))
    }

    #[cold]
    #[inline(never)]
    fn word_beyond_ascii(self) -> (Places, Chunk) {
        let bytes = self.0.to_le_bytes();
        let stops =
            bytes.map(|byte| if byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80 { 0 } else { 0x80 });
        let folded = bytes.map(|byte| byte.to_ascii_lowercase());
        (Places(u64::from_le_bytes(stops)), Chunk(u64::from_le_bytes(folded)))
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

    /// The first `len` bytes, fewer than eight, and zeros.
    #[inline(always)]
    pub(crate) fn first(self, len: usize) -> Chunk {
        Chunk(self.0 & !(u64::MAX << (8 * (len % CHUNK_LEN))))
    }

    /// The bytes before the first of the places, and zeros; and how many they are. `None` if there is no place.
    #[inline(always)]
    pub(crate) fn before(self, places: Places) -> Option<(Chunk, usize)> {
        let below = ((places.0 & places.0.wrapping_neg()) >> 7).wrapping_sub(1);
        places.first().map(|len| (Chunk(self.0 & below), len))
    }
}

impl Places {
    /// The first of them.
    #[inline(always)]
    pub(crate) fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| (self.0.trailing_zeros() / 8) as usize)
    }

    /// Those behind the first. Right only where every place is.
    #[inline(always)]
    pub(crate) fn rest(self) -> Places {
        Places(self.0 & self.0.wrapping_sub(1))
    }
}

/// Fewer than eight bytes. Reads that overlap agree where they do.
#[inline(always)]
fn last(rest: &[u8]) -> Chunk {
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
    fn every_byte_in_every_place_is_answered() {
        for text in [*b"aZ_0z5Aq", *b"........", *b"\x80\xffabcdex", *b"a9QzZ_0 "] {
            for (byte, place) in (0..=255_u8).flat_map(|byte| (0..CHUNK_LEN).map(move |place| (byte, place))) {
                let mut bytes = text;
                bytes[place] = byte;
                let chunk = Chunk(u64::from_le_bytes(bytes));
                let (stops, folded) = chunk.word();
                let continues = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 0x80..);
                assert_eq!(folded.0.to_le_bytes(), bytes.map(|byte| byte.to_ascii_lowercase()));
                assert_eq!(stops.first(), bytes.iter().position(|byte| !continues(byte)), "{bytes:?}");
                let is_either = |it: &u8| *it == byte || *it == b'z';
                assert_eq!(chunk.either(byte, b'z').first(), bytes.iter().position(is_either), "{bytes:?}");
            }
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
    fn the_bytes_before_a_place_are_kept() {
        for len in 0..CHUNK_LEN {
            let mut bytes = *b"abcdefgh";
            bytes[len] = b' ';
            let (stops, folded) = Chunk(u64::from_le_bytes(bytes)).word();
            let mut kept = [0; CHUNK_LEN];
            kept[..len].copy_from_slice(&bytes[..len]);
            assert_eq!(folded.before(stops), Some((Chunk(u64::from_le_bytes(kept)), len)));
        }
        let (stops, folded) = Chunk(u64::from_le_bytes(*b"abcdefgh")).word();
        assert_eq!(folded.before(stops), None);
    }
}
