//! NegotiateProtocolVersion: the client asked for a newer minor version or for options that the server does not know.
//!
//! The manual calls the number the newest minor version; PostgreSQL sends, and libpq from 18 on demands, the whole version
//! with the major one in its upper half. It is written so, and read either way.
//!
//! It does not say when to send it. libpq ends the connection if nothing changes by it: it must not answer a client that asked
//! for 3.0 and no `_pq_.` parameters.
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
            return Err(Error::BadValue("the server negotiates a version other than 3"));
        }
        let count = reader.i32()?;
        let count = usize::try_from(count).map_err(|_| Error::BadValue("a negative number of names"))?;
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
        debug_assert_eq!(self.minor, self.minor & MINOR_MASK, "a minor version has 16 bits");
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check;

    const WIRE: &[u8] = b"v\0\0\0\x1e\0\x03\0\0\0\0\0\x02_pq_.one\0_pq_.two\0";

    #[test]
    fn the_whole_version_is_written() {
        let mut out = Vec::new();
        NegotiateVersion { minor: 0, unknown: &[b"_pq_.one", b"_pq_.two"] }.encode(&mut out);
        assert_eq!(out.escape_ascii().to_string(), WIRE.escape_ascii().to_string());
        out.clear();
        NegotiateVersion { minor: 2, unknown: &[] }.encode(&mut out);
        assert_eq!(out, b"v\0\0\0\x0c\0\x03\0\x02\0\0\0\0");
    }

    #[test]
    fn either_form_of_the_version_is_read() {
        for version in [2, 3 << 16 | 2] {
            let body = [&i32::to_be_bytes(version)[..], &[0; 4]].concat();
            let read = NegotiateVersion::decode(&body).unwrap();
            assert_eq!((read.minor, read.count()), (2, 0));
        }
        for version in [-1, 2 << 16, 4 << 16, i32::MIN] {
            let body = [&i32::to_be_bytes(version)[..], &[0; 4]].concat();
            let told = NegotiateVersion::decode(&body);
            assert_eq!(told, Err(Error::BadValue("the server negotiates a version other than 3")));
        }
    }

    #[test]
    fn names_are_as_many_as_it_says() {
        let body = check::body(WIRE, tag::NEGOTIATE_VERSION);
        let read = NegotiateVersion::decode(body).unwrap();
        assert_eq!(read.collect::<Vec<_>>(), [b"_pq_.one", b"_pq_.two"]);
        check::refuses_parts(body, |part| NegotiateVersion::decode(part).is_err());
        for (count, error) in [
            (1, Error::BadValue("bytes follow the last field")),
            (3, Error::MissingTerminator),
            (i32::MAX, Error::MissingTerminator),
            (-1, Error::BadValue("a negative number of names")),
            (i32::MIN, Error::BadValue("a negative number of names")),
        ] {
            let liar = [&body[..4], &count.to_be_bytes(), &body[8..]].concat();
            assert_eq!(NegotiateVersion::decode(&liar), Err(error), "{count} names");
        }
    }

    #[test]
    fn damage() {
        check::damage(check::body(WIRE, tag::NEGOTIATE_VERSION), |body| {
            let Ok(read) = NegotiateVersion::decode(body) else { return };
            let names: usize = read.map(|name| name.len() + 1).sum();
            assert_eq!(names + 8, body.len());
        });
    }
}
