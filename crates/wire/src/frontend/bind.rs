//! Bind: makes a portal from a prepared statement and parameters. The two names at its front are read, since they may
//! have to be replaced; formats and parameters pass by length, however long they are, but for one that is asked for.
//!
//! ```text
//!  B │ length │ portal \0 │ statement \0 │ formats, parameters, result formats
//!             └───── BindNames.len ──────┘└──────── rest_len, untouched ──────┘
//! ```
//!
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-BIND

use super::tag;
use crate::reader::{Reader, put_value};
use crate::{Error, HEADER_LEN, cstr, message, put_cstr};

/// Bind as we send it ourselves: text parameters, text results.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Bind;

impl Bind {
    /// Appends a whole Bind whose parameters and results are all text; `None` is NULL.
    ///
    /// # Panics
    /// If there are more than 65,535 parameters, or more than 2 GB of them.
    pub fn encode<'v>(
        out: &mut Vec<u8>,
        portal: &[u8],
        statement: &[u8],
        parameters: impl IntoIterator<Item = Option<&'v [u8]>>,
    ) {
        message(out, tag::BIND, |out| {
            put_cstr(out, portal);
            put_cstr(out, statement);
            out.extend_from_slice(&[0, 0]); // no parameter formats: all are text
            let at = out.len();
            out.extend_from_slice(&[0, 0]);
            let mut count: u16 = 0;
            for parameter in parameters {
                count = count.checked_add(1).expect("a statement of ours has few parameters");
                put_value(out, parameter);
            }
            out[at..at + 2].copy_from_slice(&count.to_be_bytes());
            out.extend_from_slice(&[0, 0]); // no result formats: all are text
        });
    }
}

/// The two names at the front of a Bind.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BindNames<'a> {
    pub portal: &'a [u8],
    pub statement: &'a [u8],
    /// Bytes of the body that the names take, their NULs counted.
    pub len: usize,
}

impl<'a> BindNames<'a> {
    /// Reads the names from the first bytes of a body; `None` while the second NUL is not at hand.
    ///
    /// If all of the body is at hand and the answer is `None`, the message is malformed.
    pub fn decode(prefix: &'a [u8]) -> Option<BindNames<'a>> {
        let (portal, rest) = cstr(prefix)?;
        let (statement, rest) = cstr(rest)?;
        Some(BindNames { portal, statement, len: prefix.len() - rest.len() })
    }
}

/// The value of parameter `number`, 1 for `$1`, as it was sent: text, or binary. `behind_names`: the rest of a body
/// that begins after [`BindNames::len`]. `None` for NULL, if there is no such parameter, and if not all of it is at
/// hand.
pub fn bind_parameter(behind_names: &[u8], number: u16) -> Option<&[u8]> {
    let mut reader = Reader::new(behind_names);
    let formats = reader.count().ok()?;
    reader.take(2 * usize::from(formats)).ok()?;
    let count = reader.count().ok()?;
    if !(1..=count).contains(&number) {
        return None;
    }
    for _ in 1..number {
        reader.value().ok()?;
    }
    reader.value().ok()?
}

/// What a Bind of the console's has behind its names: how many parameters, and the formats that its results are to have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BindResults<'a> {
    pub parameters: u16,
    /// Raw: two bytes each.
    formats: &'a [u8],
}

impl<'a> BindResults<'a> {
    /// `behind_names`: the rest of a body that begins after [`BindNames::len`].
    ///
    /// # Errors
    /// If it is not exactly as many formats, values and formats as it says.
    pub fn decode(behind_names: &'a [u8]) -> Result<BindResults<'a>, Error> {
        let mut reader = Reader::new(behind_names);
        let formats = reader.count()?;
        reader.take(2 * usize::from(formats))?;
        let parameters = reader.count()?;
        for _ in 0..parameters {
            reader.value()?;
        }
        let count = reader.count()?;
        let formats = reader.take(2 * usize::from(count))?;
        reader.end()?;
        Ok(BindResults { parameters, formats })
    }

    /// The formats: none (all text), one for all, or one for each column.
    pub fn formats(&self) -> impl ExactSizeIterator<Item = u16> + use<'a> {
        let (formats, _) = self.formats.as_chunks::<2>();
        formats.iter().map(|format| u16::from_be_bytes(*format))
    }
}

/// Appends the header and the names of a Bind whose remaining body, `rest_len` bytes, follows untouched.
///
/// # Errors
/// [`Error::TooLarge`] if the whole is longer than a length word can say; nothing is appended then.
pub fn encode_bind_prefix(out: &mut Vec<u8>, portal: &[u8], statement: &[u8], rest_len: usize) -> Result<(), Error> {
    const MAX: usize = i32::MAX as usize;
    // Two slices in memory cannot make a usize overflow, but `rest_len` is a number of the caller's.
    let names_len = portal.len() + statement.len() + 2;
    let len = rest_len.saturating_add(names_len).saturating_add(4);
    let word = i32::try_from(len).map_err(|_| Error::TooLarge { len, max: MAX })?;
    out.reserve(HEADER_LEN + names_len);
    out.push(tag::BIND);
    out.extend_from_slice(&word.to_be_bytes());
    put_cstr(out, portal);
    put_cstr(out, statement);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{self, Random};

    #[test]
    fn as_the_manual_has_it() {
        let mut out = Vec::new();
        Bind::encode(&mut out, b"p", b"s1", [Some(&b"42"[..]), None, Some(b"")]);
        let wire = b"B\0\0\0\x1dp\0s1\0\0\0\0\x03\0\0\0\x0242\xff\xff\xff\xff\0\0\0\0\0\0";
        assert_eq!(out.escape_ascii().to_string(), wire.escape_ascii().to_string());
        let names = BindNames::decode(check::body(&out, tag::BIND)).unwrap();
        assert_eq!(names, BindNames { portal: b"p", statement: b"s1", len: 5 });
    }

    #[test]
    fn names_need_their_second_nul() {
        let body = b"portal\0statement\0\0\0rest";
        for len in 0..body.len() {
            let names = BindNames::decode(&body[..len]);
            assert_eq!(names.is_some(), len >= 17, "{len} bytes");
            if let Some(names) = names {
                assert_eq!(names, BindNames { portal: b"portal", statement: b"statement", len: 17 });
            }
        }
        let unnamed = BindNames::decode(b"\0\0").unwrap();
        assert_eq!(unnamed, BindNames { portal: b"", statement: b"", len: 2 });
    }

    #[test]
    fn a_parameter_is_found_by_its_number() {
        let mut out = Vec::new();
        Bind::encode(&mut out, b"p", b"s1", [Some(&b"42"[..]), None, Some(b""), Some(b"last")]);
        let plain = &check::body(&out, tag::BIND)[5..];
        // The same with a format for each parameter.
        let formatted = [b"\0\x04\0\0\0\x01\0\0\0\x01", &plain[2..]].concat();
        for behind in [plain, &formatted] {
            let found: Vec<_> = (0..6).map(|number| bind_parameter(behind, number)).collect();
            assert_eq!(found, [None, Some(&b"42"[..]), None, Some(b""), Some(b"last"), None]);
            // Its result formats are not needed.
            for len in 0..behind.len() {
                let expected = (len >= behind.len() - 2).then_some(&b"last"[..]);
                assert_eq!(bind_parameter(&behind[..len], 4), expected, "{len} bytes");
            }
        }
    }

    #[test]
    fn formats_of_results_stand_behind_the_values() {
        let mut out = Vec::new();
        Bind::encode(&mut out, b"p", b"s1", [Some(&b"42"[..]), None]);
        let plain = &check::body(&out, tag::BIND)[5..];
        let read = BindResults::decode(plain).unwrap();
        assert_eq!((read.parameters, read.formats().len()), (2, 0));
        let formatted = b"\0\x01\0\x01\0\0\0\x03\0\0\0\x01\xff\xff";
        let read = BindResults::decode(formatted).unwrap();
        assert_eq!((read.parameters, read.formats().collect::<Vec<_>>()), (0, vec![0, 1, 65_535]));
        for len in 0..formatted.len() {
            assert!(BindResults::decode(&formatted[..len]).is_err(), "{len} bytes");
        }
        assert!(BindResults::decode(&[&formatted[..], b"\0"].concat()).is_err(), "one byte more");
    }

    #[test]
    fn a_name_is_replaced_and_the_rest_stays() {
        let mut random = Random::new(3);
        for len in 0..200 {
            let rest = random.noise(len);
            let body = [b"p\0old\0", &rest[..]].concat();
            let names = BindNames::decode(&body).unwrap();
            let mut out = Vec::new();
            encode_bind_prefix(&mut out, names.portal, b"a_new_name", body.len() - names.len).unwrap();
            out.extend_from_slice(&body[names.len..]);
            assert_eq!(check::body(&out, tag::BIND), [b"p\0a_new_name\0", &rest[..]].concat());
        }
    }

    #[test]
    fn a_length_beyond_an_int32_is_an_error() {
        const MAX: usize = i32::MAX as usize;
        let room = MAX - 4 - 2 - 3; // the length word, two NULs, three letters
        let mut out = Vec::new();
        assert_eq!(encode_bind_prefix(&mut out, b"p", b"st", room), Ok(()));
        assert_eq!(out, b"B\x7f\xff\xff\xffp\0st\0");
        for (rest_len, len) in [(room + 1, MAX + 1), (usize::MAX - 1, usize::MAX), (usize::MAX, usize::MAX)] {
            let mut out = Vec::new();
            let told = encode_bind_prefix(&mut out, b"p", b"st", rest_len);
            assert_eq!(told, Err(Error::TooLarge { len, max: MAX }));
            assert!(out.is_empty());
        }
    }
}
