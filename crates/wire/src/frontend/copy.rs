//! CopyFail: the client ends a COPY with an error. CopyData passes by length and is only written here.

use super::tag;
use crate::{Error, message, put_cstr, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COPYFAIL
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CopyFail<'a> {
    /// Why, in the client's words.
    pub message: &'a [u8],
}

impl<'a> CopyFail<'a> {
    /// # Errors
    /// If the body is not exactly one string.
    pub fn decode(body: &'a [u8]) -> Result<CopyFail<'a>, Error> {
        let mut reader = Reader::new(body);
        let message = reader.cstr()?;
        reader.end()?;
        Ok(CopyFail { message })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::COPY_FAIL, |out| put_cstr(out, self.message));
    }
}

/// Appends a CopyData from a client; it need not hold whole rows.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COPYDATA
pub fn encode_copy_data(out: &mut Vec<u8>, bytes: &[u8]) {
    message(out, tag::COPY_DATA, |out| out.extend_from_slice(bytes));
}
