//! Close: forgets a prepared statement or a portal. Closing what is not there is no error.

use super::{Target, tag, target};
use crate::{Error, message};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-CLOSE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Close<'a> {
    pub target: Target,
    /// Empty for the unnamed one.
    pub name: &'a [u8],
}

impl<'a> Close<'a> {
    /// # Errors
    /// If the body is not exactly a kind and a name.
    pub fn decode(body: &'a [u8]) -> Result<Close<'a>, Error> {
        let (target, name) = target::decode(body)?;
        Ok(Close { target, name })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::CLOSE, |out| {
            target::encode(out, self.target, self.name)
        });
    }
}
