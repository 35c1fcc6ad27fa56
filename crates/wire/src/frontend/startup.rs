//! The first packets of a connection, which carry no tag: SSLRequest, GSSENCRequest, CancelRequest, StartupMessage.
//!
//! It promises that a [`StartupMessage`] it returns is whole and well laid out, so that reading its parameters cannot fail.
//! It does not look at what the parameters say. What follows the packet is not its concern either; but a caller that answers
//! SSLRequest must refuse bytes that came with it, since they were sent in the clear.
//!
//= pg18 protocol-flow#PROTOCOL-FLOW-START-UP

use super::CancelRequest;
use crate::{Error, frame::counted, put_cstr};

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

/// The startup packet of protocol 3: the user, the database and the parameters.
//= pg18 protocol-message-formats#PROTOCOL-MESSAGE-FORMATS-STARTUPMESSAGE
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct StartupMessage<'a> {
    /// Minor version asked for; the major one is 3. It may be newer than anything we know.
    pub minor: u16,
    /// Names and values, each ended by a NUL; checked. Without the NUL that ends the list.
    pairs: &'a [u8],
    asks_extensions: bool,
}

/// What the names of protocol extensions begin with.
const EXTENSION: &[u8] = b"_pq_.";

impl<'a> StartupMessage<'a> {
    /// Names and values in the order they came. A name may come twice; names are never empty, values may be.
    pub fn parameters(&self) -> Parameters<'a> {
        Parameters { rest: self.pairs }
    }

    /// The names of the protocol extensions that it asks for.
    pub fn extensions(&self) -> impl Iterator<Item = &'a [u8]> {
        let names = self.asks_extensions.then(|| self.parameters().map(|(name, _)| name));
        names.into_iter().flatten().filter(|name| name.starts_with(EXTENSION))
    }

    /// The value of a parameter. If the client sent it more than once the last one counts, as in PostgreSQL.
    pub fn parameter(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.parameters().filter(|(n, _)| *n == name).map(|(_, value)| value).last()
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
        let (name, rest) = short(self.rest)?;
        let (value, rest) = short(rest)?;
        self.rest = rest;
        Some((name, value))
    }
}

/// As [`crate::cstr`], for texts of a few bytes: a plain search has found their end before a clever one has begun.
#[inline]
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// Reads the first packet; `Ok(None)` while it is not whole. With it comes the number of bytes it took.
///
/// # Errors
/// [`Error::BadLength`] as soon as the length is at hand, if it is below 8, above [`STARTUP_LEN_MAX`], or not that of
/// the request; [`Error::UnsupportedVersion`] if the major version is not 3; others if the packet is badly laid out.
/// These come once the packet is whole, so that the whole packet was read before the error is sent.
pub fn parse_startup(bytes: &[u8]) -> Result<Option<(Startup<'_>, usize)>, Error> {
    let Some(&word) = bytes.first_chunk::<4>() else {
        return Ok(None);
    };
    let len = declared_len(i32::from_be_bytes(word))?;
    let Some(packet) = bytes.get(..len) else {
        return Ok(None);
    };
    let (code, body) = packet[4..].split_first_chunk::<4>().expect("the length is at least 8");
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
    let asks_extensions = check_pairs(pairs)?;
    Ok(StartupMessage { minor, pairs, asks_extensions })
}

/// Returns whether a name is that of an extension.
fn check_pairs(mut rest: &[u8]) -> Result<bool, Error> {
    let mut asks_extensions = false;
    while !rest.is_empty() {
        let (name, after) = short(rest).ok_or(Error::MissingTerminator)?;
        if name.is_empty() {
            return Err(Error::BadValue("a startup parameter without a name"));
        }
        asks_extensions |= name.starts_with(EXTENSION);
        (_, rest) = short(after).ok_or(Error::BadValue("a startup parameter without a value"))?;
    }
    Ok(asks_extensions)
}

/// Appends a StartupMessage of protocol 3.0.
pub fn encode_startup<'p>(out: &mut Vec<u8>, parameters: impl IntoIterator<Item = (&'p [u8], &'p [u8])>) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{self, Random};

    const PSQL: &[u8] = b"\0\0\0\x29\0\x03\0\0user\0ann\0database\0shop\0options\0\0\0";

    fn packet(code: u32, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        counted(&mut out, |out| {
            out.extend_from_slice(&code.to_be_bytes());
            out.extend_from_slice(body);
        });
        out
    }

    fn start_of(bytes: &[u8]) -> StartupMessage<'_> {
        match parse_startup(bytes) {
            Ok(Some((Startup::Start(message), used))) if used == bytes.len() => message,
            other => panic!("no whole startup message: {other:?}"),
        }
    }

    #[test]
    fn as_the_manual_has_it() {
        let pairs = [(&b"user"[..], &b"ann"[..]), (b"database", b"shop"), (b"options", b"")];
        let mut out = Vec::new();
        encode_startup(&mut out, pairs);
        assert_eq!(out.escape_ascii().to_string(), PSQL.escape_ascii().to_string());
        let message = start_of(PSQL);
        assert_eq!(message.minor, 0);
        assert_eq!(message.parameters().collect::<Vec<_>>(), pairs);
        assert_eq!(message.parameter(b"database"), Some(&b"shop"[..]));
        assert_eq!(message.parameter(b"options"), Some(&b""[..]));
        assert_eq!(message.parameter(b"data"), None);
    }

    #[test]
    fn the_last_of_a_name_counts() {
        let mut out = Vec::new();
        encode_startup_version(&mut out, 2, [(&b"user"[..], &b"a"[..]), (b"user", b"b")]);
        assert_eq!(start_of(&out).parameter(b"user"), Some(&b"b"[..]));
        assert_eq!(start_of(&out).minor, 2);
        assert_eq!(start_of(&out).parameters().count(), 2);
    }

    #[test]
    fn requests_for_encryption() {
        let (mut ssl, mut gss) = (Vec::new(), Vec::new());
        encode_ssl_request(&mut ssl);
        encode_gss_request(&mut gss);
        assert_eq!(ssl, [0, 0, 0, 8, 4, 210, 22, 47]);
        assert_eq!(gss, [0, 0, 0, 8, 4, 210, 22, 48]);
        assert_eq!(parse_startup(&ssl), Ok(Some((Startup::Ssl, 8))));
        assert_eq!(parse_startup(&gss), Ok(Some((Startup::GssEnc, 8))));
        for code in [CODE_SSL, CODE_GSS] {
            assert_eq!(parse_startup(&packet(code, b"x")), Err(Error::BadLength { len: 9 }));
        }
    }

    #[test]
    fn what_follows_is_left_alone() {
        let mut bytes = Vec::new();
        encode_ssl_request(&mut bytes);
        bytes.extend_from_slice(PSQL);
        bytes.extend_from_slice(b"Q\0");
        let (first, used) = parse_startup(&bytes).unwrap().unwrap();
        assert_eq!((first, used), (Startup::Ssl, 8));
        let (second, used) = parse_startup(&bytes[used..]).unwrap().unwrap();
        assert!(matches!(second, Startup::Start(_)));
        assert_eq!(used, PSQL.len());
    }

    #[test]
    fn every_part_asks_for_more() {
        for len in 0..PSQL.len() {
            assert_eq!(parse_startup(&PSQL[..len]), Ok(None), "{len} bytes");
        }
    }

    #[test]
    fn lengths_at_the_borders() {
        assert_eq!(STARTUP_LEN_MAX - 4, 10_000, "PostgreSQL counts what follows the length word");
        let max = STARTUP_LEN_MAX as i32;
        for len in [0, -1, 4, 7, max + 1, i32::MAX, i32::MIN, i32::from_be_bytes(*b"GET ")] {
            // At once, with four bytes: a liar is not waited for.
            assert_eq!(parse_startup(&len.to_be_bytes()), Err(Error::BadLength { len }));
        }
        for len in [8, 9, max] {
            assert_eq!(parse_startup(&len.to_be_bytes()), Ok(None));
        }
        let value = vec![b'v'; STARTUP_LEN_MAX - 8 - 3];
        let body = [b"n\0", &value[..], b"\0\0"].concat();
        let longest = packet(3 << 16, &body);
        assert_eq!(longest.len(), STARTUP_LEN_MAX + 1);
        assert!(parse_startup(&longest).is_err());
        let body = [b"n\0", &value[1..], b"\0\0"].concat();
        assert_eq!(start_of(&packet(3 << 16, &body)).parameter(b"n"), Some(&value[1..]));
    }

    #[test]
    fn versions() {
        for minor in [0, 1, 2, 0xffff] {
            assert_eq!(start_of(&packet(3 << 16 | minor, b"\0")).minor, minor as u16);
        }
        for (major, minor) in [(0, 0), (2, 0), (4, 0), (1234, 5677), (1234, 5681), (0xffff, 0xffff)] {
            let told = parse_startup(&packet(u32::from(major) << 16 | u32::from(minor), b"\0")).unwrap_err();
            assert_eq!(told, Error::UnsupportedVersion { major, minor });
        }
    }

    #[test]
    fn bad_layouts() {
        let bad: [(&[u8], Error); 9] = [
            (b"", Error::MissingTerminator),
            (b"user", Error::MissingTerminator),
            (b"user\0", Error::MissingTerminator),
            (b"user\0\0", Error::BadValue("a startup parameter without a value")),
            (b"user\0ann", Error::MissingTerminator),
            (b"user\0ann\0", Error::BadValue("a startup parameter without a value")),
            (b"\0\0", Error::BadValue("a startup parameter without a name")),
            (b"\0x\0\0", Error::BadValue("a startup parameter without a name")),
            (b"user\0ann\0\0\0", Error::BadValue("a startup parameter without a name")),
        ];
        for (body, expected) in bad {
            assert_eq!(parse_startup(&packet(3 << 16, body)), Err(expected), "{}", body.escape_ascii());
        }
        assert_eq!(start_of(&packet(3 << 16, b"\0")).parameters().count(), 0);
    }

    #[test]
    fn damaged_packets_are_refused_or_read_whole() {
        check::damage(&PSQL[8..], |body| {
            let bytes = packet(3 << 16, body);
            let Ok(read) = parse_startup(&bytes) else { return };
            let (Startup::Start(message), used) = read.unwrap() else { panic!("it starts with a version") };
            let mut again = Vec::new();
            encode_startup(&mut again, message.parameters());
            assert_eq!(again, bytes[..used]);
        });
    }

    #[test]
    fn noise_is_refused_or_read_within_its_length() {
        let mut random = Random::new(4);
        for turn in 0..20_000 {
            let mut bytes = random.noise(turn % 64);
            if bytes.len() >= 8 && turn % 2 == 0 {
                let len = 8 + random.below(56) as u32;
                bytes[..4].copy_from_slice(&len.to_be_bytes());
                bytes[4..8].copy_from_slice(&[3 << 16, CODE_CANCEL, CODE_SSL][turn % 3].to_be_bytes());
            }
            if let Ok(Some((_, used))) = parse_startup(&bytes) {
                assert!((8..=bytes.len()).contains(&used));
            }
        }
    }
}
