//! SASLInitialResponse and SASLResponse: the client's half of SCRAM. Both carry the tag of Password; which one it is
//! follows from what the server asked. The mechanism's own text is not read here.

use super::tag;
use crate::{
    Error, message, put_cstr,
    reader::{Reader, put_value},
};

/// The client chooses a mechanism and says its first line.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-SASLINITIALRESPONSE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SaslInitial<'a> {
    pub mechanism: &'a [u8],
    /// `None` if the client lets the server speak first, which is not the same as an empty line.
    pub response: Option<&'a [u8]>,
}

impl<'a> SaslInitial<'a> {
    /// # Errors
    /// If the body is not exactly a name and a value, or the value's length is below -1.
    pub fn decode(body: &'a [u8]) -> Result<SaslInitial<'a>, Error> {
        let mut reader = Reader::new(body);
        let mechanism = reader.cstr()?;
        let response = reader.value()?;
        reader.end()?;
        Ok(SaslInitial {
            mechanism,
            response,
        })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::PASSWORD, |out| {
            put_cstr(out, self.mechanism);
            put_value(out, self.response);
        });
    }
}

/// The client's next line.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-SASLRESPONSE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SaslResponse<'a> {
    pub response: &'a [u8],
}

impl<'a> SaslResponse<'a> {
    /// # Errors
    /// None today: the whole body is the line.
    pub fn decode(body: &'a [u8]) -> Result<SaslResponse<'a>, Error> {
        Ok(SaslResponse { response: body })
    }

    /// Appends the whole message.
    pub fn encode(&self, out: &mut Vec<u8>) {
        message(out, tag::PASSWORD, |out| {
            out.extend_from_slice(self.response)
        });
    }
}
