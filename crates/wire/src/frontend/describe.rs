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
        message(out, tag::DESCRIBE, |out| target::encode(out, self.target, self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        let statement = Describe { target: Target::Statement, name: b"s1" };
        exact!(Describe, tag::DESCRIBE, statement, b"D\0\0\0\x08Ss1\0");
        let portal = Describe { target: Target::Portal, name: b"" };
        exact!(Describe, tag::DESCRIBE, portal, b"D\0\0\0\x06P\0");
    }

    #[test]
    fn only_two_kinds_there_are() {
        for byte in (0..=255).filter(|byte| !b"SP".contains(byte)) {
            let body = [byte, b'a', 0];
            assert_eq!(Describe::decode(&body), Err(Error::BadValue("neither a statement nor a portal")));
        }
        assert_eq!(Describe::decode(b""), Err(Error::Truncated));
        assert_eq!(Describe::decode(b"S"), Err(Error::MissingTerminator));
    }
}
