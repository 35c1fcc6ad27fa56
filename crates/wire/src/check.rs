//! What the unit tests of all messages share. Compiled for tests only.
//!
//! [`exact!`] holds a message against bytes written by hand, so that an encoder and a decoder that are wrong in the same way
//! do not pass. Then it cuts, lengthens and damages the body: nothing may panic, no part may pass for the whole, and what is
//! still read must be written again as it came.

use crate::{HEADER_LEN, Header};

/// Damaged bodies tried for each message.
const DAMAGES: u32 = 2_000;

/// Encodes `$message`, expects `$wire`, and reads it back; then mistreats it. What matches `lossy` need not be written again
/// as it came.
macro_rules! exact {
    ($type:ident, $tag:expr, $message:expr, $wire:expr $(, lossy: $lossy:pat)?) => {{
        let wire: &[u8] = $wire;
        let mut out = b"before".to_vec();
        $message.encode(&mut out);
        assert_eq!(out.escape_ascii().to_string(), [b"before", wire].concat().escape_ascii().to_string());
        let body = $crate::check::body(wire, $tag);
        assert_eq!($type::decode(body), Ok($message));
        $crate::check::refuses_parts(body, |part| $type::decode(part).is_err());
        $crate::check::damage(body, |body| {
            let Ok(read) = $type::decode(body) else { return };
            $(if matches!(read, $lossy) {
                return;
            })?
            let mut again = Vec::new();
            read.encode(&mut again);
            assert_eq!($crate::check::body(&again, $tag), body, "read as {read:?}");
        });
    }};
}
pub(crate) use exact;

/// The body of the one message that `wire` must be.
pub(crate) fn body(wire: &[u8], tag: u8) -> &[u8] {
    let header = Header::parse(wire).expect("the length is sound").expect("a header is there");
    assert_eq!(header.tag, tag);
    assert_eq!(header.total_len(), wire.len(), "the length covers the message");
    &wire[HEADER_LEN..]
}

/// Neither a shorter nor a longer body may pass for a whole one.
pub(crate) fn refuses_parts(body: &[u8], refused: impl Fn(&[u8]) -> bool) {
    for len in 0..body.len() {
        assert!(refused(&body[..len]), "the first {len} bytes passed for the whole of {}", body.escape_ascii());
    }
    for extra in [0, 1, b'x', 0xff] {
        let longer = [body, &[extra]].concat();
        assert!(refused(&longer), "one more byte passed: {}", longer.escape_ascii());
    }
}

/// Hands `look` the body with bytes changed, cut out, doubled, and then noise of all short lengths.
pub(crate) fn damage(body: &[u8], look: impl Fn(&[u8])) {
    let mut random = Random::new(body.len() as u64 + 1);
    for _ in 0..DAMAGES {
        let mut damaged = body.to_vec();
        for _ in 0..=random.below(2) {
            random.damage(&mut damaged);
        }
        look(&damaged);
    }
    for len in 0..100 {
        look(&random.noise(len));
    }
}

/// Marsaglia's xorshift with a seed: the same numbers in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Bytes, half of them from the few that mean something at a border.
    pub(crate) fn noise(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.byte()).collect()
    }

    fn byte(&mut self) -> u8 {
        const BORDERS: [u8; 8] = [0, 0, 0, 1, 4, 0x7f, 0x80, 0xff];
        let random = self.next();
        if random & 1 == 0 { BORDERS[(random >> 8) as usize % BORDERS.len()] } else { (random >> 16) as u8 }
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        match self.below(4) {
            0 => bytes.insert(at, self.byte()),
            1 => bytes.truncate(at),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ if at < bytes.len() => bytes[at] = self.byte(),
            _ => bytes.push(self.byte()),
        }
    }
}
