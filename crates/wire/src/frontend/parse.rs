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
            out.extend_from_slice(if self.types.is_empty() {
                Parse::NO_TYPES
            } else {
                self.types
            });
        });
    }

    /// The type ids one by one; 0 leaves the type to the server.
    pub fn type_oids(&self) -> impl Iterator<Item = u32> + use<'a> {
        let (oids, _) = self.types.get(2..).unwrap_or_default().as_chunks::<4>();
        oids.iter().map(|oid| u32::from_be_bytes(*oid))
    }
}
