//! The header that a proxy sends before what its client sends: for whom it speaks, by the PROXY protocol, version 1 (a line of
//! text) or 2 (binary).
//!
//! ```text
//!   PROXY TCP4 203.0.113.7 10.0.0.5 51234 6432␍␊                          version 1: at most 107 bytes
//!
//!   ␍␊␍␊␀␍␊QUIT␊ │ version, command │ family │ length │ addresses │ more      version 2
//!        12      │        1         │   1    │   2    │    length bytes
//! ```
//!
//! Promises that a wrong byte is found as soon as it is there, so that whoever is no proxy is not waited for; that no more than
//! [`LEN_MAX`] bytes are ever asked for; and that a Unix socket's address is never taken from a header, since it stands for a user of
//! this machine. What follows the addresses in version 2 (TLVs) is not looked at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The longest header that is read. A proxy's TLVs take some hundred bytes, with a client's certificate in them some thousand.
pub const LEN_MAX: usize = 4096;

/// The longest line of version 1, with its end.
const LINE_MAX: usize = 107;

const LINE: &[u8] = b"PROXY ";
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED_LEN: usize = SIGNATURE.len() + 4;

/// For whom the proxy speaks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Client {
    /// For a client that came from there, and wanted to go to that address.
    Tcp { from: SocketAddr, to: SocketAddr },
    /// For itself, as a health check does, or for somebody without such an address.
    Untold,
}

/// Why bytes are no header.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Whether these bytes may be the beginning of a header.
#[must_use]
pub fn begins(bytes: &[u8]) -> bool {
    is_front(bytes, LINE) || is_front(bytes, SIGNATURE)
}

/// As far as both go, they are the same.
fn is_front(bytes: &[u8], expected: &[u8]) -> bool {
    let len = bytes.len().min(expected.len());
    bytes[..len] == expected[..len]
}

/// Reads the header; `Ok(None)` while it is not whole. With it comes the number of bytes it took.
///
/// # Errors
/// These bytes do not begin a header, or it is longer than [`LEN_MAX`], or says what it must not.
pub fn parse(bytes: &[u8]) -> Result<Option<(Client, usize)>, Malformed> {
    if is_front(bytes, LINE) {
        return line(bytes);
    }
    if is_front(bytes, SIGNATURE) {
        return binary(bytes);
    }
    Err(Malformed("it is missing"))
}

fn line(bytes: &[u8]) -> Result<Option<(Client, usize)>, Malformed> {
    let front = &bytes[..bytes.len().min(LINE_MAX)];
    let end = front.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let words = front.get(LINE.len()..end.unwrap_or(front.len())).unwrap_or_default();
    let families: [&[u8]; 3] = [b"TCP4 ", b"TCP6 ", b"UNKNOWN"];
    if !families.iter().any(|family| is_front(words, family)) {
        return Err(Malformed("its protocol is none of TCP4, TCP6 and UNKNOWN"));
    }
    let Some(end) = end else {
        return if bytes.len() >= LINE_MAX { Err(Malformed("its line is too long")) } else { Ok(None) };
    };
    match front.get(end..end + 2) {
        Some(b"\r\n") => {}
        None if bytes[end] == b'\r' && bytes.len() < LINE_MAX => return Ok(None),
        _ => return Err(Malformed("its line does not end in CR LF")),
    }
    // What follows UNKNOWN is to be ignored.
    let client = match words.strip_prefix(b"UNKNOWN") {
        Some([] | [b' ', ..]) => Client::Untold,
        Some(_) => return Err(Malformed("its protocol is none of TCP4, TCP6 and UNKNOWN")),
        None => addresses(words)?,
    };
    Ok(Some((client, end + 2)))
}

/// `TCP4 203.0.113.7 10.0.0.5 51234 6432`
fn addresses(words: &[u8]) -> Result<Client, Malformed> {
    const WRONG: Malformed = Malformed("its addresses are malformed");
    let text = std::str::from_utf8(words).map_err(|_| WRONG)?;
    let (family, rest) = text.split_once(' ').ok_or(WRONG)?;
    let ip = |word: &str| -> Option<IpAddr> {
        if family == "TCP4" {
            Some(word.parse::<Ipv4Addr>().ok()?.into())
        } else {
            Some(word.parse::<Ipv6Addr>().ok()?.into())
        }
    };
    let words: Vec<&str> = rest.split(' ').collect();
    let [from, to, from_port, to_port] = words[..] else { return Err(WRONG) };
    let end = |word, number| Some(SocketAddr::new(ip(word)?.to_canonical(), port(number)?));
    match (end(from, from_port), end(to, to_port)) {
        (Some(from), Some(to)) => Ok(Client::Tcp { from, to }),
        _ => Err(WRONG),
    }
}

/// Digits, without zeros before them.
fn port(word: &str) -> Option<u16> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit()) && (word.len() == 1 || !word.starts_with('0'));
    word.parse().ok().filter(|_| is_plain)
}

fn binary(bytes: &[u8]) -> Result<Option<(Client, usize)>, Malformed> {
    let kind = bytes.get(SIGNATURE.len()..).unwrap_or_default();
    let speaks_for_itself = match kind.first() {
        None => return Ok(None),
        Some(0x20) => true,
        Some(0x21) => false,
        Some(_) => return Err(Malformed("its version or command is unknown")),
    };
    let addresses_len = match kind.get(1) {
        None => return Ok(None),
        // A proxy that speaks for itself may say anything here.
        Some(_) if speaks_for_itself => 0,
        // Not told.
        Some(0x00) => 0,
        // TCP over IPv4, over IPv6, a Unix socket.
        Some(0x11) => 12,
        Some(0x21) => 36,
        Some(0x31) => 216,
        Some(_) => return Err(Malformed("its family is none of TCP and Unix sockets")),
    };
    let Some(&[high, low]) = kind.get(2..4) else { return Ok(None) };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len < addresses_len {
        return Err(Malformed("it is too short for its addresses"));
    }
    if FIXED_LEN + len > LEN_MAX {
        return Err(Malformed("it is too long"));
    }
    let Some(body) = bytes.get(FIXED_LEN..FIXED_LEN + len) else { return Ok(None) };
    let ends: Option<(IpAddr, IpAddr)> = match addresses_len {
        12 => pair::<4>(body).map(|(from, to)| (Ipv4Addr::from(from).into(), Ipv4Addr::from(to).into())),
        36 => pair::<16>(body).map(|(from, to)| (Ipv6Addr::from(from).into(), Ipv6Addr::from(to).into())),
        _ => None,
    };
    let client = ends.map_or(Client::Untold, |(from, to)| {
        let port = |at: usize| u16::from_be_bytes([body[at], body[at + 1]]);
        let ports = addresses_len - 4;
        let end = |ip: IpAddr, at| SocketAddr::new(ip.to_canonical(), port(at));
        Client::Tcp { from: end(from, ports), to: end(to, ports + 2) }
    });
    Ok(Some((client, FIXED_LEN + len)))
}

/// Two addresses of so many bytes.
fn pair<const LEN: usize>(body: &[u8]) -> Option<([u8; LEN], [u8; LEN])> {
    let (from, rest) = body.split_first_chunk::<LEN>()?;
    Some((*from, *rest.first_chunk::<LEN>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(from: &str, to: &str) -> Client {
        Client::Tcp { from: from.parse().expect("an address"), to: to.parse().expect("an address") }
    }

    fn v2(kind: &[u8], body: &[u8]) -> Vec<u8> {
        let len = u16::try_from(body.len()).expect("short");
        [SIGNATURE, kind, &len.to_be_bytes(), body].concat()
    }

    /// Headers, and what they say.
    fn sound() -> Vec<(Vec<u8>, Client)> {
        let four = [203, 0, 113, 7, 10, 0, 0, 5, 0xc8, 0x22, 0x19, 0x20];
        let six: Vec<u8> = [
            Ipv6Addr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 7]).octets(),
            Ipv6Addr::from([0, 0, 0, 0, 0, 0xffff, 0x0a00, 5]).octets(),
        ]
        .concat();
        let six = [&six[..], &[0xc8, 0x22, 0x19, 0x20]].concat();
        let with_tlv = [&four[..], &[0x04, 0, 2, 1, 2]].concat();
        let client = tcp("203.0.113.7:51234", "10.0.0.5:6432");
        vec![
            (b"PROXY TCP4 203.0.113.7 10.0.0.5 51234 6432\r\n".to_vec(), client),
            (b"PROXY TCP6 2001:db8::7 ::1 51234 0\r\n".to_vec(), tcp("[2001:db8::7]:51234", "[::1]:0")),
            (b"PROXY TCP6 ::ffff:203.0.113.7 ::ffff:10.0.0.5 51234 6432\r\n".to_vec(), client),
            (b"PROXY UNKNOWN\r\n".to_vec(), Client::Untold),
            (b"PROXY UNKNOWN ffff::1 whatever it says\r\n".to_vec(), Client::Untold),
            (v2(&[0x21, 0x11], &four), client),
            (v2(&[0x21, 0x11], &with_tlv), client),
            (v2(&[0x21, 0x21], &six), tcp("[2001:db8::7]:51234", "10.0.0.5:6432")),
            (v2(&[0x21, 0x31], &[b'/'; 216]), Client::Untold),
            (v2(&[0x21, 0x00], &[1, 2, 3]), Client::Untold),
            (v2(&[0x20, 0x00], &[]), Client::Untold),
            (v2(&[0x20, 0x11], &four), Client::Untold),
            (v2(&[0x20, 0xff], &[9; 40]), Client::Untold),
            (v2(&[0x21, 0x00], &[0; LEN_MAX - FIXED_LEN]), Client::Untold),
        ]
    }

    #[test]
    fn headers_say_who_the_client_is_and_no_byte_after_them_is_taken() {
        for (header, client) in sound() {
            let with_more = [&header[..], b"\0\0\0\x08\x04\xd2\x16\x2f"].concat();
            assert_eq!(parse(&with_more), Ok(Some((client, header.len()))), "{}", header.escape_ascii());
            for len in 0..header.len() {
                assert_eq!(parse(&header[..len]), Ok(None), "{}", header[..len].escape_ascii());
                assert!(begins(&header[..len]));
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_found_when_it_is_there() {
        let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat();
        let cases: Vec<(Vec<u8>, usize)> = vec![
            // Each with the number of bytes by which it is known to be wrong.
            (b"\0\0\0\x08\x04\xd2\x16\x2f".to_vec(), 1),
            (b"\x16\x03\x01".to_vec(), 1),
            (b"PROXZ".to_vec(), 5),
            (b"PROXY UDP4 ".to_vec(), 8),
            (b"PROXY TCP5".to_vec(), 10),
            (b"PROXY TCP4\r\n".to_vec(), 12),
            (b"PROXY \r\n".to_vec(), 8),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n".to_vec(), 31),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2\rX".to_vec(), 32),
            (b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(), 24),
            (b"PROXY TCP6 1.2.3.4 1.2.3.4 1 2\r\n".to_vec(), 32),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n".to_vec(), 30),
            (b"PROXY TCP4 1.2.3.4  1.2.3.4 1 2\r\n".to_vec(), 33),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n".to_vec(), 33),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n".to_vec(), 33),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n".to_vec(), 36),
            (b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n".to_vec(), 33),
            (b"PROXY TCP4 1.2.3.\xff 1.2.3.4 1 2\r\n".to_vec(), 32),
            (b"PROXY UNKNOWNS\r\n".to_vec(), 16),
            (long, LINE_MAX),
            ([SIGNATURE, &[0x11]].concat(), 13),
            ([SIGNATURE, &[0x22]].concat(), 13),
            ([SIGNATURE, &[0x21, 0x12]].concat(), 14),
            ([SIGNATURE, &[0x21, 0x11, 0, 11]].concat(), 16),
            ([SIGNATURE, &[0x21, 0x21, 0, 35]].concat(), 16),
            ([SIGNATURE, &[0x21, 0x31, 0, 215]].concat(), 16),
            ([SIGNATURE, &[0x20, 0x00, 0x0f, 0xf1]].concat(), 16),
            ([SIGNATURE, &[0x21, 0x11, 0xff, 0xff]].concat(), 16),
        ];
        for (bytes, known_at) in cases {
            let shown = bytes.escape_ascii();
            // A family is known to be wrong by its line's end, at the latest.
            let first = (0..=bytes.len()).find(|&len| parse(&bytes[..len]).is_err());
            assert!(first.is_some_and(|first| first <= known_at), "{shown}: {first:?}");
            assert!(parse(&bytes).is_err(), "{shown}");
        }
    }
}
