//! Password: the answer to a cleartext or md5 request. What the string means, the request says.

use super::tag;
use crate::{Error, message, put_cstr, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-PASSWORDMESSAGE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Password<'a> {
    /// The password itself, or `md5` and 32 hexadecimal digits.
    pub password: &'a [u8],
}

impl<'a> Password<'a> {
    /// # Errors
    /// If the body is not exactly one string.
    pub fn decode(body: &'a [u8]) -> Result<Password<'a>, Error> {
        let mut reader = Reader::new(body);
        let password = reader.cstr()?;
        reader.end()?;
        Ok(Password { password })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::PASSWORD, |out| put_cstr(out, self.password));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        exact!(Password, tag::PASSWORD, Password { password: b"geheim" }, b"p\0\0\0\x0bgeheim\0");
        exact!(Password, tag::PASSWORD, Password { password: b"" }, b"p\0\0\0\x05\0");
    }
}
