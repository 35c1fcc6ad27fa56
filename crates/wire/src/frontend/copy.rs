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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        exact!(CopyFail, tag::COPY_FAIL, CopyFail { message: b"disk is gone" }, b"f\0\0\0\x11disk is gone\0");
        exact!(CopyFail, tag::COPY_FAIL, CopyFail { message: b"" }, b"f\0\0\0\x05\0");
    }

    #[test]
    fn copy_data_holds_any_bytes() {
        let mut out = Vec::new();
        encode_copy_data(&mut out, b"1\t\0\xff\n");
        encode_copy_data(&mut out, b"");
        assert_eq!(out, b"d\0\0\0\x091\t\0\xff\nd\0\0\0\x04");
    }
}
