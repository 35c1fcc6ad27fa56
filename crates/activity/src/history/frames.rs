//! The frames of a file.
//!
//! ```text
//!   HEADER │ mark  length  checksum  after  at │ bytes of a second │ mark …
//!            4     4       4         4      8    length                      little-endian
//! ```
//!
//! `after` is the checksum of the frame that has to be read before this one: the bytes are packed with the seconds before them ([`super::packed`]).
//! It is 0 in the first frame of a block.
//!
//! Promises: A reader skips torn and changed bytes up to the next mark with a right checksum. Bytes that are no frames cost time in proportion to
//! their number, since a reader stops after a bounded number of wrong marks.

use super::At;

/// The first bytes of a file. A change of the stored format changes the number.
pub const HEADER: &[u8] = b"pgweir history 2\n";

/// The longest frame. A usual second has some ten thousand bytes.
pub const SECOND_LEN_MAX: usize = 4 << 20;

const MARK: [u8; 4] = [0xf5, b'p', b'w', 0x0a];
const FRAME_LEN: usize = 24;

/// The checksum of a frame, which names it. Never 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sum(u32);

/// The kind of the next bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'b> {
    /// A whole frame. `len` includes its head.
    Whole { packed: Packed<'b>, len: usize },
    /// The frame is not complete: more bytes are needed.
    Short,
    /// This number of bytes is no frame.
    Damaged { len: usize },
}

/// The content of a frame.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Packed<'b> {
    pub at: At,
    /// The frame to be read before it; `None`: it begins a block.
    pub after: Option<Sum>,
    pub sum: Sum,
    pub bytes: &'b [u8],
}

/// Returns a frame and its name.
///
/// # Panics
/// If there are 4 GB of bytes.
#[must_use]
pub fn framed(at: At, after: Option<Sum>, bytes: &[u8]) -> (Vec<u8>, Sum) {
    let len = u32::try_from(bytes.len()).expect("a second has less than 4 GB");
    let after = after.map_or(0, |sum| sum.0);
    let sum = checksum(&[&after.to_le_bytes(), &at.0.to_le_bytes(), bytes]);
    let mut out = Vec::with_capacity(FRAME_LEN + bytes.len());
    out.extend_from_slice(&MARK);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&sum.0.to_le_bytes());
    out.extend_from_slice(&after.to_le_bytes());
    out.extend_from_slice(&at.0.to_le_bytes());
    out.extend_from_slice(bytes);
    (out, sum)
}

/// Reads the frame at the beginning of these bytes.
#[must_use]
pub fn frame(bytes: &[u8]) -> Frame<'_> {
    if !bytes.starts_with(&MARK[..bytes.len().min(MARK.len())]) {
        return Frame::Damaged { len: until_mark(bytes, 0) };
    }
    let Some((head, rest)) = bytes.split_at_checked(FRAME_LEN) else { return Frame::Short };
    let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let (len, sum, after) = (number(4) as usize, Sum(number(8)), number(12));
    if len > SECOND_LEN_MAX {
        return Frame::Damaged { len: until_mark(bytes, 1) };
    }
    let Some(bytes_of) = rest.get(..len) else { return Frame::Short };
    if checksum(&[&head[12..], bytes_of]) != sum {
        return Frame::Damaged { len: until_mark(bytes, 1) };
    }
    let at = At(u64::from(number(16)) | (u64::from(number(20)) << 32));
    let after = (after != 0).then_some(Sum(after));
    Frame::Whole { packed: Packed { at, after, sum, bytes: bytes_of }, len: FRAME_LEN + len }
}

/// Returns the time and the length of the frame at the beginning, if another one begins behind it. A reader that skips the frame needs no more: the
/// checksum is not verified.
#[must_use]
pub fn passable(bytes: &[u8]) -> Option<(At, usize)> {
    let at = begun_at(bytes)?;
    let len = FRAME_LEN + u32::from_le_bytes(bytes[4..8].try_into().ok()?) as usize;
    (len <= FRAME_LEN + SECOND_LEN_MAX && bytes.get(len..)?.starts_with(&MARK)).then_some((at, len))
}

/// Returns the time of a file's first frame. The bytes are those behind the file's header, cut anywhere behind the frame's head.
#[must_use]
pub fn begun_at(bytes: &[u8]) -> Option<At> {
    let head = bytes.get(..FRAME_LEN).filter(|head| head.starts_with(&MARK))?;
    Some(At(u64::from_le_bytes(head[16..].try_into().ok()?)))
}

/// The number of bytes to skip if the file ends behind these bytes, which are [`Frame::Short`].
#[must_use]
pub fn skipped(bytes: &[u8]) -> usize {
    until_mark(bytes, 1.min(bytes.len()))
}

/// The number of bytes before the next mark, or before bytes at the end that may begin one.
fn until_mark(bytes: &[u8], from: usize) -> usize {
    let begins = |at: &usize| MARK.starts_with(&bytes[*at..bytes.len().min(*at + MARK.len())]);
    (from..bytes.len()).find(begins).unwrap_or(bytes.len())
}

/// Never 0, which stands for no frame.
fn checksum(parts: &[&[u8]]) -> Sum {
    Sum(crc(parts).max(1))
}

/// The CRC-32 of IEEE 802.3.
fn crc(parts: &[&[u8]]) -> u32 {
    !parts
        .iter()
        .fold(!0, |sum, part| part.iter().fold(sum, |sum, byte| (sum >> 8) ^ TABLE[usize::from(sum as u8 ^ byte)]))
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

    fn one(at: u64, bytes: &[u8]) -> Vec<u8> {
        framed(At(at), None, bytes).0
    }

    /// All whole frames of a file, read in one piece.
    fn all(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let len = match frame(bytes) {
                Frame::Whole { packed, len } => {
                    found.push((packed.at.0, packed.bytes.to_vec()));
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
        assert_eq!(crc(&[b"1234", b"56789"]), 0xcbf4_3926);
    }

    #[test]
    fn what_was_written_is_read() {
        let file: Vec<u8> = (0..20_u64).flat_map(|at| one(at * 1_000_000_007, &vec![7; at as usize * 31])).collect();
        let expected: Vec<_> = (0..20_u64).map(|at| (at * 1_000_000_007, vec![7; at as usize * 31])).collect();
        assert_eq!(all(&file), expected);
        // A part of it is either too short or whole.
        for end in 0..file.len() {
            assert!(expected.starts_with(&all(&file[..end])), "{end}");
        }
        assert_eq!(begun_at(&file), Some(At(0)));
        assert_eq!(begun_at(&one(77_000, b"a second")), Some(At(77_000)));
        assert_eq!((begun_at(b""), begun_at(&[0; 100])), (None, None));
        let two = [one(5_000, b"a second"), one(6_000, b"another")];
        assert_eq!(passable(&two.concat()), Some((At(5_000), two[0].len())));
        assert_eq!((passable(&two[0]), passable(b"no frame")), (None, None), "what is behind it has to be seen");
    }

    #[test]
    fn a_frame_names_the_one_before_it() {
        let (first, sum) = framed(At(1), None, b"one");
        let (second, _) = framed(At(2), Some(sum), b"two");
        let named = |bytes: &[u8]| match frame(bytes) {
            Frame::Whole { packed, .. } => (packed.after, packed.sum),
            other => panic!("{other:?}"),
        };
        assert_eq!(named(&first), (None, sum));
        assert_eq!(named(&second).0, Some(sum));
    }

    #[test]
    fn a_second_that_was_torn_or_changed_is_passed_over_and_the_next_is_found() {
        let seconds: Vec<Vec<u8>> = (0..3).map(|at| one(at, b"the bytes of a second")).collect();
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
    fn other_bytes_are_no_second() {
        assert_eq!(frame(b""), Frame::Short);
        assert_eq!(frame(b"no second at all"), Frame::Damaged { len: 16 });
        assert_eq!(frame(&[MARK, [0xff; 4], [0; 4], [0; 4], [0; 4], [0; 4]].concat()), Frame::Damaged { len: 24 });
    }
}
