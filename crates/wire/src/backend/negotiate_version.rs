//! NegotiateProtocolVersion: the client asked for a newer minor version or for options that the server does not know.
//!
//! The manual calls the number the newest minor version; PostgreSQL sends, and libpq from 18 on demands, the whole version
//! with the major one in its upper half. It is written so, and read either way.
//!
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-NEGOTIATEPROTOCOLVERSION

use super::tag;
use crate::{Error, cstr, message, put_cstr, reader::Reader};

const MAJOR: i32 = 3 << 16;
const MINOR_MASK: i32 = 0xffff;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct NegotiateVersion<'a> {
    /// Newest minor version that the server speaks.
    pub minor: i32,
    /// The client's `_pq_.` parameters that the server does not know.
    pub unknown: &'a [&'a [u8]],
}

impl NegotiateVersion<'_> {
    /// Reads what [`NegotiateVersion::encode`] writes. It comes out in a form of its own, since a list of names cannot be
    /// borrowed from bytes.
    ///
    /// # Errors
    /// If the version is not 3.x, or the names are not as many as the message says.
    pub fn decode(body: &[u8]) -> Result<Negotiated<'_>, Error> {
        let mut reader = Reader::new(body);
        let version = reader.i32()?;
        let minor = version & MINOR_MASK;
        if version != minor && version != MAJOR | minor {
            return Err(Error::BadValue(
                "the server negotiates a version other than 3",
            ));
        }
        let count = reader.i32()?;
        let count =
            usize::try_from(count).map_err(|_| Error::BadValue("a negative number of names"))?;
        let names = reader.peek();
        for _ in 0..count {
            // Each turn takes at least one byte or fails, so the count of a liar costs nothing.
            reader.cstr()?;
        }
        reader.end()?;
        Ok(Negotiated { minor, names })
    }

    /// Appends the whole message.
    ///
    /// # Panics
    /// If there are more names than a startup packet can hold.
    pub fn encode(&self, out: &mut Vec<u8>) {
        debug_assert_eq!(
            self.minor,
            self.minor & MINOR_MASK,
            "a minor version has 16 bits"
        );
        let count = i32::try_from(self.unknown.len()).expect("a startup packet holds few names");
        message(out, tag::NEGOTIATE_VERSION, |out| {
            out.extend_from_slice(&(MAJOR | self.minor).to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
            self.unknown.iter().for_each(|name| put_cstr(out, name));
        });
    }
}

/// A NegotiateProtocolVersion that was read; iterates over the unknown names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Negotiated<'a> {
    pub minor: i32,
    names: &'a [u8],
}

impl<'a> Iterator for Negotiated<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (name, rest) = cstr(self.names)?;
        self.names = rest;
        Some(name)
    }
}
