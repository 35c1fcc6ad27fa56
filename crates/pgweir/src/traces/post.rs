//! One POST by HTTP/1.1: a connection of its own, nothing else in it.
//!
//! Does not do: TLS, redirects, proxies. A collector runs beside its applications, and passes on by whatever is needed.
//!
//! RFC 9112, "2.1. Message Format", "9.6. Tear-down".

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use settings::{HttpHeaders, HttpUrl};

/// How long the collector may take to be reached, and for each piece of its answer.
const CONNECT: Duration = Duration::from_secs(5);
const PIECE: Duration = Duration::from_secs(5);

/// How long all of it may take.
const WHOLE: Duration = Duration::from_secs(10);

/// So much of an answer is read: the first line counts.
const ANSWER_LEN_MAX: usize = 16 << 10;

/// Why a batch did not arrive.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) words: String,
    /// It may arrive later.
    pub(super) is_passing: bool,
}

/// Sends a body.
///
/// # Errors
/// The collector is not there, is too slow, or does not take it.
pub(super) fn post(url: &HttpUrl, headers: &HttpHeaders, body: &str) -> Result<(), Failure> {
    let passing = |error: io::Error| Failure { words: format!("{}: {error}", url.authority()), is_passing: true };
    let answer = exchange(url, headers, body).map_err(passing)?;
    match status(&answer) {
        Some(200..300) => Ok(()),
        // OTLP 1.5, "OTLP/HTTP Response", "Retryable Response Codes".
        Some(code @ (429 | 502 | 503 | 504)) => Err(refused(url, code, true)),
        Some(code) => Err(refused(url, code, false)),
        None => Err(Failure { words: format!("{} does not speak HTTP", url.authority()), is_passing: false }),
    }
}

fn refused(url: &HttpUrl, code: u16, is_passing: bool) -> Failure {
    Failure { words: format!("{}{} answers with status {code}", url.authority(), url.path), is_passing }
}

fn exchange(url: &HttpUrl, headers: &HttpHeaders, body: &str) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    let mut connected = None;
    for address in (url.host.as_str(), url.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => {
                connected = Some(stream);
                break;
            }
            Err(error) => failed = error,
        }
    }
    let mut stream = connected.ok_or(failed)?;
    stream.set_read_timeout(Some(PIECE))?;
    stream.set_write_timeout(Some(PIECE))?;
    let mut head = format!("POST {} HTTP/1.1\r\nHost: {}\r\n", url.path, url.authority());
    for (name, value) in headers.pairs() {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!(
        "Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    ));
    write_within(&mut stream, head.as_bytes(), begun)?;
    write_within(&mut stream, body.as_bytes(), begun)?;
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    while answer.len() < ANSWER_LEN_MAX && status(&answer).is_none() {
        in_time(begun)?;
        match stream.read(&mut piece)? {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    Ok(answer)
}

/// A collector that takes a byte now and then must not keep the thread for ever.
fn write_within(stream: &mut TcpStream, mut bytes: &[u8], begun: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        in_time(begun)?;
        match stream.write(bytes)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => bytes = &bytes[count..],
        }
    }
    Ok(())
}

fn in_time(begun: Instant) -> io::Result<()> {
    if begun.elapsed() < WHOLE { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
}

/// The status of an answer whose first line is there.
fn status(answer: &[u8]) -> Option<u16> {
    let line = answer.split(|byte| *byte == b'\n').next().filter(|line| line.len() < answer.len())?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_the_status() {
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 503\nmore", Some(503)),
            ("HTTP/1.1 200 OK", None),
            ("ICY 200 OK\r\n", None),
            ("HTTP/1.1 abc\r\n", None),
            ("\r\n", None),
            ("", None),
        ] {
            assert_eq!(status(answer.as_bytes()), expected, "{answer:?}");
        }
    }
}
