//! Tag and length: where a message begins and ends.
//!
//! [`Header::parse`] needs five bytes and looks at no others, so a message of any size can be passed on while it arrives.
//! It promises that a header it returns has a sound length. It sets no limit of its own on that length: who stores bodies
//! must have one.

use std::ffi::CStr;

use crate::Error;

/// Bytes of a message before its body: the tag and the length word.
pub const HEADER_LEN: usize = 5;

/// The smallest length a message declares: the length word counts itself.
const LEN_MIN: u32 = 4;

/// The first five bytes of a message, checked.
///
/// PostgreSQL itself refuses lengths near 1 GB; here every length up to 2³¹ - 1 is accepted as declared.
//= pg18 protocol-overview#PROTOCOL-MESSAGE-CONCEPTS
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub tag: u8,
    body_len: u32,
}

impl Header {
    /// Reads the header at the front of `bytes`; `Ok(None)` while fewer than five bytes are at hand.
    ///
    /// # Errors
    /// [`Error::BadLength`] if the length word is below 4 or negative.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Option<Header>, Error> {
        let Some(&[tag, a, b, c, d]) = bytes.first_chunk::<HEADER_LEN>() else {
            return Ok(None);
        };
        let len = i32::from_be_bytes([a, b, c, d]);
        match u32::try_from(len).ok().and_then(|len| len.checked_sub(LEN_MIN)) {
            Some(body_len) => Ok(Some(Header { tag, body_len })),
            None => Err(Error::BadLength { len }),
        }
    }

    /// Bytes after the header.
    #[inline]
    pub fn body_len(self) -> usize {
        self.body_len as usize
    }

    /// Bytes of the whole message: header and body. At most 2³¹, which fits a `usize` of 32 bits too.
    #[inline]
    pub fn total_len(self) -> usize {
        HEADER_LEN + self.body_len as usize
    }
}

/// Appends a message: `tag`, the length, and what `body` writes. The length is filled in once the body is there.
///
/// # Panics
/// If the body is longer than a length word can say (2 GB). What we write ourselves is far below; what a client or a
/// server wrote passes by length and is not written again here.
pub fn message(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    counted(out, body);
}

/// The same without a tag, as the startup packets are.
pub(crate) fn counted(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let len = i32::try_from(out.len() - start).expect("a message that we write ourselves is far below 2 GB");
    out[start..start + 4].copy_from_slice(&len.to_be_bytes());
}

/// Splits at the first NUL: the string before it, the rest after it. `None` if there is no NUL.
#[inline]
pub fn cstr(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // The standard library looks at a word at a time here, which a plain `position` does not: statements can be long.
    let string = CStr::from_bytes_until_nul(bytes).ok()?.to_bytes();
    Some((string, &bytes[string.len() + 1..]))
}

/// Appends `s` and a NUL. Nothing is cut; a NUL inside would end the string early, so it must not be there.
#[inline]
pub fn put_cstr(out: &mut Vec<u8>, s: &[u8]) {
    debug_assert!(!s.contains(&0), "a NUL inside would end the string early");
    out.extend_from_slice(s);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Random;

    fn parse(len: i32) -> Result<Option<Header>, Error> {
        let [a, b, c, d] = len.to_be_bytes();
        Header::parse(&[b'Q', a, b, c, d])
    }

    #[test]
    fn a_header_needs_five_bytes() {
        let bytes = [b'Z', 0, 0, 0, 5, b'I'];
        for len in 0..HEADER_LEN {
            assert_eq!(Header::parse(&bytes[..len]), Ok(None), "{len} bytes");
        }
        let header = Header::parse(&bytes[..HEADER_LEN]).unwrap().unwrap();
        assert_eq!((header.tag, header.body_len(), header.total_len()), (b'Z', 1, 6));
        assert_eq!(Header::parse(&bytes), Ok(Some(header)), "what follows the header is not looked at");
    }

    #[test]
    fn lengths_at_the_borders() {
        for len in [0, 1, 2, 3, -1, -4, i32::MIN, i32::MIN + 4] {
            assert_eq!(parse(len), Err(Error::BadLength { len }));
        }
        for (len, body_len) in [(4, 0), (5, 1), (i32::MAX, 0x7fff_fffb)] {
            let header = parse(len).unwrap().unwrap();
            assert_eq!((header.body_len(), header.total_len()), (body_len, body_len + 5));
        }
    }

    #[test]
    fn any_length_is_refused_or_kept() {
        let mut random = Random::new(1);
        for _ in 0..100_000 {
            let len = random.next() as i32;
            match parse(len) {
                Ok(header) => assert_eq!(header.unwrap().total_len(), len as usize + 1),
                Err(error) => assert!(len < 4 && error == Error::BadLength { len }, "{len}: {error}"),
            }
        }
    }

    #[test]
    fn a_message_is_appended_with_its_length() {
        let mut out = b"x".to_vec();
        message(&mut out, b'D', |out| out.extend_from_slice(b"abc"));
        message(&mut out, b'S', |_| ());
        assert_eq!(out, b"xD\0\0\0\x07abcS\0\0\0\x04");
    }

    #[test]
    fn messages_nest_in_their_vec_only_by_length() {
        let mut out = Vec::new();
        message(&mut out, b'd', |out| out.resize(out.len() + 70_000, 7));
        assert_eq!(out[..5], [b'd', 0, 1, 0x11, 0x74]);
        assert_eq!(out.len(), 70_005);
    }

    #[test]
    fn strings_end_at_the_first_nul() {
        assert_eq!(cstr(b""), None);
        assert_eq!(cstr(b"abc"), None);
        assert_eq!(cstr(b"\0"), Some((&b""[..], &b""[..])));
        assert_eq!(cstr(b"ab\0cd\0"), Some((&b"ab"[..], &b"cd\0"[..])));
        assert_eq!(cstr(b"\xff\xfe\0"), Some((&b"\xff\xfe"[..], &b""[..])));
    }

    #[test]
    fn cstr_agrees_with_a_plain_search() {
        let mut random = Random::new(2);
        for turn in 0..2_000 {
            let mut bytes = random.noise(turn % 90);
            if turn % 3 == 0 {
                bytes.iter_mut().for_each(|b| *b |= 1); // no NUL but perhaps one, far in
                bytes.extend_from_slice(&[0][..turn % 2]);
            }
            let plain = bytes.iter().position(|b| *b == 0).map(|at| (&bytes[..at], &bytes[at + 1..]));
            assert_eq!(cstr(&bytes), plain);
        }
    }

    #[test]
    fn put_cstr_is_read_by_cstr() {
        let mut out = b"x".to_vec();
        put_cstr(&mut out, b"");
        put_cstr(&mut out, b"name");
        assert_eq!(out, b"x\0name\0");
    }

    #[test]
    #[should_panic(expected = "a NUL inside")]
    #[cfg(debug_assertions)]
    fn put_cstr_refuses_a_nul_in_tests() {
        put_cstr(&mut Vec::new(), b"a\0b");
    }
}
