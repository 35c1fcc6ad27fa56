//! PostgreSQL's protocol: the same bytes whole and in pieces.
//!
//! Asserts that the borders of messages do not depend on how their bytes arrive; that what is told of a message's front
//! is not taken back when the rest comes; that decoding allocates nothing; that whatever is decoded is written again as
//! it came.
//!
//! ```text
//!   kind, number of cuts, lengths of pieces, stream …
//! ```

mod backend;
mod frontend;

use wire::frontend::{Startup, parse_startup};
use wire::{Error, HEADER_LEN, Header};

use crate::tape::Tape;

/// Lengths of pieces, used again and again until the stream ends.
const PIECES_MAX: usize = 8;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let kind = tape.byte();
    let count = usize::from(tape.byte()) % PIECES_MAX;
    let pieces = tape.take(count);
    let stream = tape.rest();
    match kind % 3 {
        0 => walk(stream, pieces, frontend::check),
        1 => walk(stream, pieces, backend::check),
        _ => start(stream, pieces),
    }
}

/// The prefixes of a stream at which it has arrived so far, the whole one last.
fn arrivals<'a>(stream: &'a [u8], pieces: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut lengths = pieces.iter().map(|len| usize::from(*len).max(1)).cycle();
    let mut end = 0;
    let steps = std::iter::from_fn(move || {
        end = lengths.next()?.saturating_add(end);
        (end < stream.len()).then(|| &stream[..end])
    });
    steps.chain(std::iter::once(stream))
}

/// A message or the reason why there is none, and where it begins.
type Border = (usize, Result<Header, Error>);

/// Finds the borders of all whole messages from `at`, and of the header that makes no sense. Returns where to go on.
fn borders(stream: &[u8], mut at: usize, found: &mut Vec<Border>) -> usize {
    loop {
        match Header::parse(&stream[at..]) {
            Ok(None) => return at,
            Ok(Some(header)) if stream.len() - at < header.total_len() => return at,
            Ok(Some(header)) => {
                found.push((at, Ok(header)));
                at += header.total_len();
            }
            Err(error) => {
                if found.last() != Some(&(at, Err(error))) {
                    found.push((at, Err(error)));
                }
                return at;
            }
        }
    }
}

fn walk(stream: &[u8], pieces: &[u8], check: fn(u8, &[u8])) {
    let mut whole = Vec::new();
    borders(stream, 0, &mut whole);
    let (mut split, mut at) = (Vec::new(), 0);
    for arrived in arrivals(stream, pieces) {
        at = borders(arrived, at, &mut split);
    }
    assert_eq!(whole, split, "borders depend on how the bytes arrive");
    for (at, header) in whole {
        match header {
            Ok(header) => {
                let message = &stream[at..at + header.total_len()];
                assert_eq!(HEADER_LEN + header.body_len(), message.len());
                check(header.tag, &message[HEADER_LEN..]);
            }
            Err(error) => check_error(error),
        }
    }
}

/// The first packet: told whole, it is told the same when it comes in pieces.
fn start(stream: &[u8], pieces: &[u8]) {
    let whole = silent(|| parse_startup(stream));
    for arrived in arrivals(stream, pieces) {
        match parse_startup(arrived) {
            Ok(None) => {}
            other => assert_eq!(other, whole, "an answer that changes when more bytes come"),
        }
    }
    let (packet, used) = match whole {
        Ok(Some(read)) => read,
        Ok(None) => return,
        Err(error) => return check_error(error),
    };
    let mut again = Vec::new();
    match packet {
        Startup::Ssl => wire::frontend::encode_ssl_request(&mut again),
        Startup::GssEnc => wire::frontend::encode_gss_request(&mut again),
        Startup::Cancel(request) => request.encode(&mut again),
        Startup::Start(message) => {
            for (name, _) in message.parameters() {
                assert!(message.parameter(name).is_some(), "a parameter that is listed is found");
            }
            wire::frontend::encode_startup_version(&mut again, message.minor, message.parameters());
        }
    }
    assert_eq!(again, stream[..used], "a packet is written as it was read");
}

/// Reading must not take memory.
fn silent<T>(read: impl FnOnce() -> T) -> T {
    let mut answer = None;
    let counted = allocation_counter::measure(|| answer = Some(read()));
    assert_eq!(counted.count_total, 0, "decoding allocates");
    answer.expect("it was measured")
}

/// Every error has words of one line and a code.
fn check_error(error: Error) {
    assert!(!error.to_string().contains('\n'));
    assert!(matches!(error.sqlstate().as_str(), "08P01" | "0A000"));
}

/// What could be read is written again as it came, and what could not has words.
fn exact<'a, T>(
    tag: u8,
    body: &'a [u8],
    decode: impl FnOnce(&'a [u8]) -> Result<T, Error>,
    encode: impl FnOnce(&T, &mut Vec<u8>),
) -> Option<T> {
    match silent(|| decode(body)) {
        Ok(read) => {
            let mut again = Vec::new();
            encode(&read, &mut again);
            same(tag, body, &again);
            Some(read)
        }
        Err(error) => {
            check_error(error);
            None
        }
    }
}

fn same(tag: u8, body: &[u8], message: &[u8]) {
    let mut expected = Vec::new();
    wire::message(&mut expected, tag, |out| out.extend_from_slice(body));
    assert_eq!(expected.escape_ascii().to_string(), message.escape_ascii().to_string(), "not written as it was read");
}
