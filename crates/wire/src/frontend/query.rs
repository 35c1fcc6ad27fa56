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

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::QUERY, |out| put_cstr(out, self.text));
    }
}
