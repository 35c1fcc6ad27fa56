//! Query: one string with any number of statements, answered by one ReadyForQuery. It does not read SQL.

use super::tag;
use crate::{Error, message, put_cstr, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-QUERY
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// In the client's character set; the NUL at its end is not part of it.
    pub text: &'a [u8],
}

impl<'a> Query<'a> {
    /// # Errors
    /// If the body is not exactly one string.
    pub fn decode(body: &'a [u8]) -> Result<Query<'a>, Error> {
        let mut reader = Reader::new(body);
        let text = reader.cstr()?;
        reader.end()?;
        Ok(Query { text })
    }

    /// As [`Query::decode`], without a look for zero bytes before the last: a server refuses the message then, so for who
    /// passes it on this text is as good as none.
    #[inline]
    pub fn unchecked(body: &'a [u8]) -> Option<Query<'a>> {
        let (&0, text) = body.split_last()? else { return None };
        Some(Query { text })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::QUERY, |out| put_cstr(out, self.text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        exact!(Query, tag::QUERY, Query { text: b"select 1" }, b"Q\0\0\0\x0dselect 1\0");
        exact!(Query, tag::QUERY, Query { text: b"" }, b"Q\0\0\0\x05\0");
        exact!(Query, tag::QUERY, Query { text: b"\xe9;\n" }, b"Q\0\0\0\x08\xe9;\n\0");
    }

    #[test]
    fn two_strings_are_not_one() {
        assert_eq!(Query::decode(b"select 1\0drop\0"), Err(Error::BadValue("bytes follow the last field")));
        assert_eq!(Query::decode(b"select 1"), Err(Error::MissingTerminator));
        assert_eq!(Query::decode(b""), Err(Error::MissingTerminator));
    }

    #[test]
    fn without_a_check_the_last_byte_ends_it() {
        assert_eq!(Query::unchecked(b"select 1\0"), Query::decode(b"select 1\0").ok());
        assert_eq!(Query::unchecked(b"\0"), Some(Query { text: b"" }));
        assert_eq!(Query::unchecked(b"a\0b\0"), Some(Query { text: b"a\0b" }));
        assert_eq!(Query::unchecked(b"select 1"), None);
        assert_eq!(Query::unchecked(b""), None);
    }
}
