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
        match u32::try_from(len)
            .ok()
            .and_then(|len| len.checked_sub(LEN_MIN))
        {
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
    let len = i32::try_from(out.len() - start)
        .expect("a message that we write ourselves is far below 2 GB");
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
