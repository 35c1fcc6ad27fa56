//! Parse: makes a prepared statement from one statement's text. It does not read SQL.

use super::tag;
use crate::{Error, message, put_cstr, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-PARSE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Parse<'a> {
    /// Empty for the unnamed statement.
    pub name: &'a [u8],
    pub query: &'a [u8],
    /// The parameter types as they stand in the message: a count of two bytes and as many four-byte type ids. Raw,
    /// because they are compared, hashed and sent again, but never looked at.
    pub types: &'a [u8],
}

impl<'a> Parse<'a> {
    /// What `types` is when the client leaves all types to the server.
    pub const NO_TYPES: &'static [u8] = &[0, 0];

    /// # Errors
    /// If the body is not exactly a name, a text, and as many types as it says.
    pub fn decode(body: &'a [u8]) -> Result<Parse<'a>, Error> {
        let mut reader = Reader::new(body);
        let name = reader.cstr()?;
        let query = reader.cstr()?;
        let types = reader.peek();
        let count = reader.count()?;
        reader.take(usize::from(count) * 4)?;
        reader.end()?;
        Ok(Parse { name, query, types })
    }

    /// Appends the whole message. Empty `types` are written as [`Parse::NO_TYPES`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::PARSE, |out| {
            put_cstr(out, self.name);
            put_cstr(out, self.query);
            out.extend_from_slice(if self.types.is_empty() { Parse::NO_TYPES } else { self.types });
        });
    }

    /// The type ids one by one; 0 leaves the type to the server.
    pub fn type_oids(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (oids, _) = self.types.get(2..).unwrap_or_default().as_chunks::<4>();
        oids.iter().map(|oid| u32::from_be_bytes(*oid))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        let bare = Parse { name: b"", query: b"select $1", types: Parse::NO_TYPES };
        exact!(Parse, tag::PARSE, bare, b"P\0\0\0\x11\0select $1\0\0\0");
        let typed = Parse { name: b"s", query: b"q", types: &[0, 2, 0, 0, 0, 23, 0xff, 0xff, 0xff, 0xff] };
        exact!(Parse, tag::PARSE, typed, b"P\0\0\0\x12s\0q\0\0\x02\0\0\0\x17\xff\xff\xff\xff");
        assert_eq!(typed.type_oids().collect::<Vec<_>>(), [23, u32::MAX]);
        assert_eq!(bare.type_oids().count(), 0);
    }

    #[test]
    fn no_types_may_be_left_out_when_writing() {
        let (mut short, mut long) = (Vec::new(), Vec::new());
        Parse { name: b"s", query: b"q", types: &[] }.encode(&mut short);
        Parse { name: b"s", query: b"q", types: Parse::NO_TYPES }.encode(&mut long);
        assert_eq!(short, long);
        assert_eq!(Parse { name: b"", query: b"", types: &[] }.type_oids().count(), 0);
    }

    #[test]
    fn as_many_types_as_it_says() {
        for (count, oids, sound) in [(0, 0, true), (0, 1, false), (1, 0, false), (2, 2, true), (0xffff, 3, false)] {
            let mut body = b"\0\0".to_vec();
            body.extend_from_slice(&u16::to_be_bytes(count));
            body.resize(body.len() + oids * 4, 7);
            assert_eq!(Parse::decode(&body).is_ok(), sound, "{count} said, {oids} there");
        }
        let mut body = b"\0\0\xff\xff".to_vec();
        body.resize(body.len() + 0xffff * 4, 1);
        let parse = Parse::decode(&body).unwrap();
        assert_eq!(parse.type_oids().count(), 65_535, "the count has no sign");
    }
}
