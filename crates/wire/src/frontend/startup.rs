//! The first packets of a connection, which carry no tag: SSLRequest, GSSENCRequest, CancelRequest, StartupMessage.
//!
//! It promises that a [`StartupMessage`] it returns is whole and well laid out, so that reading its parameters cannot fail.
//! It does not look at what the parameters say. What follows the packet is not its concern either; but a caller that answers
//! SSLRequest must refuse bytes that came with it, since they were sent in the clear.
//!
//= pg18 protocol-flow#PROTOCOL-FLOW-START-UP

use super::CancelRequest;
use crate::{Error, cstr, frame::counted, put_cstr};

/// Longest length that a first packet may declare, in bytes. PostgreSQL allows 10,000 after the length word; this counts
/// the word too, as the length itself does.
pub const STARTUP_LEN_MAX: usize = 10_004;

/// The shortest: the length word and a code.
const STARTUP_LEN_MIN: usize = 8;

/// In place of a version these numbers say what the packet is; no protocol will have 1234 as its major version.
pub(super) const CODE_CANCEL: u32 = 1234 << 16 | 5678;
const CODE_SSL: u32 = 1234 << 16 | 5679;
const CODE_GSS: u32 = 1234 << 16 | 5680;

const VERSION_MAJOR: u16 = 3;

/// What a client may begin with.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Startup<'a> {
    /// May we speak TLS? Answered by one byte.
    Ssl,
    /// May we speak GSSAPI? Answered by one byte.
    GssEnc,
    Cancel(CancelRequest<'a>),
    Start(StartupMessage<'a>),
}

/// Who the client is and what it wants, in protocol 3.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-STARTUPMESSAGE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StartupMessage<'a> {
    /// Minor version asked for; the major one is 3. It may be newer than anything we know.
    pub minor: u16,
    /// Names and values, each ended by a NUL; checked. Without the NUL that ends the list.
    pairs: &'a [u8],
}

impl<'a> StartupMessage<'a> {
    /// Names and values in the order they came. A name may come twice; names are never empty, values may be.
    pub fn parameters(&self) -> Parameters<'a> {
        Parameters { rest: self.pairs }
    }

    /// The value of a parameter. If the client sent it more than once the last one counts, as in PostgreSQL.
    pub fn parameter(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.parameters()
            .filter(|(n, _)| *n == name)
            .map(|(_, value)| value)
            .last()
    }
}

/// Iterator over the names and values of a [`StartupMessage`].
#[derive(Clone, Debug)]
pub struct Parameters<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Parameters<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = cstr(self.rest)?;
        let (value, rest) = cstr(rest)?;
        self.rest = rest;
        Some((name, value))
    }
}

/// Reads the first packet; `Ok(None)` while it is not whole. With it comes the number of bytes it took.
///
/// # Errors
/// [`Error::BadLength`] as soon as the length is at hand, if it is below 8, above [`STARTUP_LEN_MAX`], or not that of the
/// request; [`Error::UnsupportedVersion`] if the major version is not 3; others if the packet is badly laid out. These come
/// once the packet is whole, so that the client has been read when it is told.
pub fn parse_startup(bytes: &[u8]) -> Result<Option<(Startup<'_>, usize)>, Error> {
    let Some(&word) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = declared_len(i32::from_be_bytes(word))?;
    let Some(packet) = bytes.get(..len) else {
        return Ok(None);
    };
    let (code, body) = packet[4..]
        .split_first_chunk::<4>()
        .expect("the length is at least 8");
    let startup = match u32::from_be_bytes(*code) {
        CODE_SSL => empty(body, len, Startup::Ssl)?,
        CODE_GSS => empty(body, len, Startup::GssEnc)?,
        CODE_CANCEL => Startup::Cancel(CancelRequest::decode(body)?),
        version => Startup::Start(start(version, body)?),
    };
    Ok(Some((startup, len)))
}

fn declared_len(len: i32) -> Result<usize, Error> {
    usize::try_from(len)
        .ok()
        .filter(|len| (STARTUP_LEN_MIN..=STARTUP_LEN_MAX).contains(len))
        .ok_or(Error::BadLength { len })
}

fn empty<'a>(body: &[u8], len: usize, startup: Startup<'a>) -> Result<Startup<'a>, Error> {
    if body.is_empty() {
        return Ok(startup);
    }
    // At most STARTUP_LEN_MAX, so the cast keeps its value.
    Err(Error::BadLength { len: len as i32 })
}

fn start(version: u32, body: &[u8]) -> Result<StartupMessage<'_>, Error> {
    let (major, minor) = ((version >> 16) as u16, version as u16);
    if major != VERSION_MAJOR {
        return Err(Error::UnsupportedVersion { major, minor });
    }
    let (&last, pairs) = body.split_last().ok_or(Error::MissingTerminator)?;
    if last != 0 {
        return Err(Error::MissingTerminator);
    }
    check_pairs(pairs)?;
    Ok(StartupMessage { minor, pairs })
}

fn check_pairs(mut rest: &[u8]) -> Result<(), Error> {
    while !rest.is_empty() {
        let (name, after) = cstr(rest).ok_or(Error::MissingTerminator)?;
        if name.is_empty() {
            return Err(Error::BadValue("a startup parameter without a name"));
        }
        (_, rest) = cstr(after).ok_or(Error::BadValue("a startup parameter without a value"))?;
    }
    Ok(())
}

/// Appends a StartupMessage of protocol 3.0.
pub fn encode_startup<'p>(
    out: &mut Vec<u8>,
    parameters: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
) {
    encode_startup_version(out, 0, parameters);
}

/// Appends a StartupMessage of protocol 3 and the minor version given.
pub fn encode_startup_version<'p>(
    out: &mut Vec<u8>,
    minor: u16,
    parameters: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
) {
    counted(out, |out| {
        out.extend_from_slice(&VERSION_MAJOR.to_be_bytes());
        out.extend_from_slice(&minor.to_be_bytes());
        for (name, value) in parameters {
            debug_assert!(!name.is_empty(), "an empty name would end the list");
            put_cstr(out, name);
            put_cstr(out, value);
        }
        out.push(0);
    });
}

/// Appends an SSLRequest.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-SSLREQUEST
pub fn encode_ssl_request(out: &mut Vec<u8>) {
    counted(out, |out| out.extend_from_slice(&CODE_SSL.to_be_bytes()));
}

/// Appends a GSSENCRequest.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-GSSENCREQUEST
pub fn encode_gss_request(out: &mut Vec<u8>) {
    counted(out, |out| out.extend_from_slice(&CODE_GSS.to_be_bytes()));
}
