//! ParameterStatus: the server says what a setting is now. It does not know which settings matter.

use super::tag;
use crate::{Error, message, put_cstr, reader::Reader};

//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-PARAMETERSTATUS
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ParameterStatus<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

impl<'a> ParameterStatus<'a> {
    /// # Errors
    /// If the body is not exactly two strings.
    pub fn decode(body: &'a [u8]) -> Result<ParameterStatus<'a>, Error> {
        let mut reader = Reader::new(body);
        let name = reader.cstr()?;
        let value = reader.cstr()?;
        reader.end()?;
        Ok(ParameterStatus { name, value })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::PARAMETER_STATUS, |out| {
            put_cstr(out, self.name);
            put_cstr(out, self.value);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        let zone = ParameterStatus { name: b"TimeZone", value: b"Europe/Berlin" };
        exact!(ParameterStatus, tag::PARAMETER_STATUS, zone, b"S\0\0\0\x1bTimeZone\0Europe/Berlin\0");
        let empty = ParameterStatus { name: b"application_name", value: b"" };
        exact!(ParameterStatus, tag::PARAMETER_STATUS, empty, b"S\0\0\0\x16application_name\0\0");
    }
}
