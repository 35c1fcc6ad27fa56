//! Describe: asks what a prepared statement or a portal takes and returns.

use super::{Target, tag, target};
use crate::{Error, message};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-DESCRIBE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Describe<'a> {
    pub target: Target,
    /// Empty for the unnamed one.
    pub name: &'a [u8],
}

impl<'a> Describe<'a> {
    /// # Errors
    /// If the body is not exactly a kind and a name.
    pub fn decode(body: &'a [u8]) -> Result<Describe<'a>, Error> {
        let (target, name) = target::decode(body)?;
        Ok(Describe { target, name })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::DESCRIBE, |out| {
            target::encode(out, self.target, self.name)
        });
    }
}
