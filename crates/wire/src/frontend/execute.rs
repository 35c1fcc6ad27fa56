//! Execute: runs a portal, up to a number of rows.

use super::tag;
use crate::{Error, message, put_cstr, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-EXECUTE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    /// Empty for the unnamed portal.
    pub portal: &'a [u8],
    /// Rows to return before PortalSuspended; 0 for all. PostgreSQL takes a negative number as all too.
    pub rows_max: i32,
}

impl<'a> Execute<'a> {
    /// # Errors
    /// If the body is not exactly a name and a number.
    pub fn decode(body: &'a [u8]) -> Result<Execute<'a>, Error> {
        let mut reader = Reader::new(body);
        let portal = reader.cstr()?;
        let rows_max = reader.i32()?;
        reader.end()?;
        Ok(Execute { portal, rows_max })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::EXECUTE, |out| {
            put_cstr(out, self.portal);
            out.extend_from_slice(&self.rows_max.to_be_bytes());
        });
    }
}
