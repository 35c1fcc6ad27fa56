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
        Ok(SaslInitial { mechanism, response })
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
        message(out, tag::PASSWORD, |out| out.extend_from_slice(self.response));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::exact;

    #[test]
    fn as_the_manual_has_it() {
        let first = SaslInitial { mechanism: b"SCRAM-SHA-256", response: Some(b"n,,n=,r=x") };
        exact!(SaslInitial, tag::PASSWORD, first, b"p\0\0\0\x1fSCRAM-SHA-256\0\0\0\0\x09n,,n=,r=x");
        let silent = SaslInitial { mechanism: b"M", response: None };
        exact!(SaslInitial, tag::PASSWORD, silent, b"p\0\0\0\x0aM\0\xff\xff\xff\xff");
        let empty = SaslInitial { mechanism: b"M", response: Some(b"") };
        exact!(SaslInitial, tag::PASSWORD, empty, b"p\0\0\0\x0aM\0\0\0\0\0");
    }

    #[test]
    fn hostile_inner_lengths() {
        let body = |len: i32| [b"M\0", &len.to_be_bytes()[..], b"abc"].concat();
        assert_eq!(SaslInitial::decode(&body(3)).unwrap().response, Some(&b"abc"[..]));
        for len in [4, 0x7fff_fffb, i32::MAX] {
            assert_eq!(SaslInitial::decode(&body(len)), Err(Error::Truncated), "{len}");
        }
        for len in [-2, i32::MIN] {
            assert_eq!(SaslInitial::decode(&body(len)), Err(Error::BadValue("a value's length is below -1")));
        }
        for len in [-1, 0, 2] {
            assert_eq!(SaslInitial::decode(&body(len)), Err(Error::BadValue("bytes follow the last field")));
        }
    }

    #[test]
    fn a_response_is_the_whole_body() {
        for line in [&b"c=biws,r=x,p=y"[..], b"", b"\0\xff"] {
            let mut out = Vec::new();
            SaslResponse { response: line }.encode(&mut out);
            let body = crate::check::body(&out, tag::PASSWORD);
            assert_eq!(SaslResponse::decode(body), Ok(SaslResponse { response: line }));
        }
    }
}
