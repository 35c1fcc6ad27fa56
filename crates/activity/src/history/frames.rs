//! Seconds in a file, one behind the other.
//!
//! ```text
//!   HEADER │ mark  length  checksum  at │ bytes of a second │ mark …
//!            4     4       4         8    length                      little-endian
//! ```
//!
//! Promises: what was torn or changed is passed over, up to the next mark whose checksum is right; bytes that nobody has written cost no more than
//! their number, since only so many wrong marks are looked at.

use super::At;

/// What a file begins with; a change of what is stored changes the number.
pub const HEADER: &[u8] = b"pgweir history 1\n";

/// A second has some ten thousand bytes.
pub const SECOND_LEN_MAX: usize = 4 << 20;

const MARK: [u8; 4] = [0xf5, b'p', b'w', 0x0a];
const FRAME_LEN: usize = 20;

/// What the next bytes of a file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'b> {
    /// A second, and how many bytes it has with its frame.
    Whole { at: At, bytes: &'b [u8], len: usize },
    /// It cannot be told without more bytes.
    Short,
    /// So many bytes are none.
    Damaged { len: usize },
}

/// A second with its frame.
#[must_use]
pub fn framed(at: At, bytes: &[u8]) -> Vec<u8> {
    let len = u32::try_from(bytes.len()).expect("a second has less than 4 GB");
    let mut out = Vec::with_capacity(FRAME_LEN + bytes.len());
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&checksum(&[&at.0.to_le_bytes(), bytes]).to_le_bytes());
    out.extend_from_slice(&at.0.to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

/// What these bytes begin with.
#[must_use]
pub fn frame(bytes: &[u8]) -> Frame<'_> {
    if !bytes.starts_with(&MARK[..bytes.len().min(MARK.len())]) {
        return Frame::Damaged { len: until_mark(bytes, 0) };
    }
    let Some((head, rest)) = bytes.split_at_checked(FRAME_LEN) else { return Frame::Short };
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (len, sum) = (number(4) as usize, number(8));
    if len > SECOND_LEN_MAX {
        return Frame::Damaged { len: until_mark(bytes, 1) };
    }
    let Some(bytes_of) = rest.get(..len) else { return Frame::Short };
    if checksum(&[&head[12..], bytes_of]) != sum {
        return Frame::Damaged { len: until_mark(bytes, 1) };
    }
    let at = At(u64::from(number(12)) | (u64::from(number(16)) << 32));
    Frame::Whole { at, bytes: bytes_of, len: FRAME_LEN + len }
}

/// Where to go on if there are no more bytes behind these, which are [`Frame::Short`].
#[must_use]
pub fn skipped(bytes: &[u8]) -> usize {
    until_mark(bytes, 1.min(bytes.len()))
}

/// How many bytes are before the next mark, or what may be the beginning of one.
fn until_mark(bytes: &[u8], from: usize) -> usize {
    let begins = |at: &usize| MARK.starts_with(&bytes[*at..bytes.len().min(*at + MARK.len())]);
    (from..bytes.len()).find(begins).unwrap_or(bytes.len())
}

/// CRC-32 as of IEEE 802.3.
fn checksum(parts: &[&[u8]]) -> u32 {
    let bytes = parts.iter().copied().flatten();
    !bytes.fold(!0, |sum, byte| (sum >> 8) ^ TABLE[usize::from(sum as u8 ^ byte)])
}

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let (mut sum, mut bit) = (index as u32, 0);
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0xedb8_8320 } else { sum >> 1 };
            bit += 1;
        }
        table[index] = sum;
        index += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All whole frames of a file, read in one piece.
    fn all(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let len = match frame(bytes) {
                Frame::Whole { at, bytes, len } => {
                    found.push((at.0, bytes.to_vec()));
                    len
                }
                Frame::Damaged { len } => len,
                Frame::Short => skipped(bytes),
            };
            assert!(len > 0, "it goes on");
            bytes = &bytes[len..];
        }
        found
    }

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        assert_eq!(checksum(&[b"1234", b"56789"]), 0xcbf4_3926);
    }

    #[test]
    fn what_was_written_is_read() {
        let file: Vec<u8> =
            (0..20_u64).flat_map(|at| framed(At(at * 1_000_000_007), &vec![7; at as usize * 31])).collect();
        let expected: Vec<_> = (0..20_u64).map(|at| (at * 1_000_000_007, vec![7; at as usize * 31])).collect();
        assert_eq!(all(&file), expected);
        // A part of it is either too short or whole.
        for end in 0..file.len() {
            assert!(expected.starts_with(&all(&file[..end])), "{end}");
        }
    }

    #[test]
    fn a_second_that_was_torn_or_changed_is_passed_over_and_the_next_is_found() {
        let seconds: Vec<Vec<u8>> = (0..3).map(|at| framed(At(at), b"the bytes of a second")).collect();
        let whole = seconds.concat();
        for at in 0..seconds[0].len() {
            let torn = [&seconds[0][..at], &seconds[1], &seconds[2]].concat();
            let found = all(&torn);
            assert!(
                found.ends_with(&[(1, b"the bytes of a second".to_vec()), (2, b"the bytes of a second".to_vec())]),
                "torn {at}"
            );
            let mut changed = whole.clone();
            changed[at] ^= 0x40;
            let found: Vec<u64> = all(&changed).iter().map(|(at, _)| *at).collect();
            assert_eq!(found, [1, 2], "{at}");
        }
    }

    #[test]
    fn bytes_of_nobody_are_no_second() {
        assert_eq!(frame(b""), Frame::Short);
        assert_eq!(frame(b"no second at all"), Frame::Damaged { len: 16 });
        assert_eq!(frame(&[MARK, [0xff; 4], [0; 4], [0; 4], [0; 4]].concat()), Frame::Damaged { len: 20 });
    }
}
