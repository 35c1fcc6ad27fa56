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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        let all = Execute { portal: b"", rows_max: 0 };
        exact!(Execute, tag::EXECUTE, all, b"E\0\0\0\x09\0\0\0\0\0");
        let some = Execute { portal: b"p", rows_max: 0x0102_0304 };
        exact!(Execute, tag::EXECUTE, some, b"E\0\0\0\x0ap\0\x01\x02\x03\x04");
        let odd = Execute { portal: b"p", rows_max: -1 };
        exact!(Execute, tag::EXECUTE, odd, b"E\0\0\0\x0ap\0\xff\xff\xff\xff");
    }
}
