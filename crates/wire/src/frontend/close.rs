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
        message(out, tag::CLOSE, |out| target::encode(out, self.target, self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        let statement = Close { target: Target::Statement, name: b"s1" };
        exact!(Close, tag::CLOSE, statement, b"C\0\0\0\x08Ss1\0");
        let portal = Close { target: Target::Portal, name: b"" };
        exact!(Close, tag::CLOSE, portal, b"C\0\0\0\x06P\0");
    }

    #[test]
    fn only_two_kinds_there_are() {
        for byte in (0..=255).filter(|byte| !b"SP".contains(byte)) {
            let body = [byte, b'a', 0];
            assert_eq!(Close::decode(&body), Err(Error::BadValue("neither a statement nor a portal")));
        }
        assert_eq!(Close::decode(b""), Err(Error::Truncated));
        assert_eq!(Close::decode(b"S"), Err(Error::MissingTerminator));
    }
}
