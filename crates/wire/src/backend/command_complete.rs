//! CommandComplete: a statement ended well, and this is what it did.

use super::tag;
use crate::{Error, message, put_cstr, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-COMMANDCOMPLETE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct CommandComplete<'a> {
    /// Such as `SELECT 5`, `INSERT 0 1`, `BEGIN`.
    pub tag: &'a [u8],
}

impl<'a> CommandComplete<'a> {
    /// # Errors
    /// If the body is not exactly one string.
    pub fn decode(body: &'a [u8]) -> Result<CommandComplete<'a>, Error> {
        let mut reader = Reader::new(body);
        let tag = reader.cstr()?;
        reader.end()?;
        Ok(CommandComplete { tag })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::COMMAND_COMPLETE, |out| put_cstr(out, self.tag));
    }
}

/// Appends CommandComplete.
pub fn encode_command_complete(out: &mut Vec<u8>, tag: &str) {
    CommandComplete { tag: tag.as_bytes() }.encode(out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        let select = CommandComplete { tag: b"SELECT 5" };
        exact!(CommandComplete, tag::COMMAND_COMPLETE, select, b"C\0\0\0\x0dSELECT 5\0");
        let mut out = Vec::new();
        encode_command_complete(&mut out, "INSERT 0 1");
        assert_eq!(out, b"C\0\0\0\x0fINSERT 0 1\0");
    }
}
