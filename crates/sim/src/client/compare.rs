//! When what comes is what the twin has said, though it is not the same byte for byte.

use wire::backend::{Fields, Notification, tag};
use wire::{HEADER_LEN, Header};

/// Errors agree in severity and code where the words are the pooler's, or name a statement by its name on the server.
pub(super) fn is_same_error(message: u8, body: &[u8], expected: &[u8]) -> bool {
    let (found, wanted) = (Fields::decode(body), Fields::decode(expected));
    let words_differ = matches!(wanted.code(), Some(b"57014" | b"26000" | b"42P05" | b"0A000"));
    message == tag::ERROR && words_differ && found.code() == wanted.code() && found.severity() == wanted.severity()
}

/// PostgreSQL tells what was said on a channel before the parameters that have changed. What a session says itself, it hears by
/// its pool's listener: only ReadyForQuery waits for that, and what the server reports before it is passed on.
pub(super) fn report_first(expected: &mut [u8]) {
    let header = |rest: &[u8]| Header::parse(rest).ok().flatten();
    let mut at = 0;
    while let Some(header) = header(&expected[at..]).filter(|header| header.tag == tag::NOTIFICATION) {
        at += header.total_len();
    }
    if let Some(report) = header(&expected[at..]).filter(|header| header.tag == tag::PARAMETER_STATUS) {
        expected[..at + report.total_len()].rotate_left(at);
    }
}

/// What a session hears by its own server, since that may listen out of sight, and what it hears by its pool's listener come each in
/// its order, and not in one.
pub(super) fn channel_first(expected: &mut [u8], body: &[u8]) {
    let channel = |body: &[u8]| Notification::decode(body).ok().map(|said| said.channel.to_vec());
    let mut at = 0;
    while let Some(header) =
        Header::parse(&expected[at..]).ok().flatten().filter(|header| header.tag == tag::NOTIFICATION)
    {
        let end = at + header.total_len();
        let owed = &expected[at + HEADER_LEN..end];
        if channel(owed) == channel(body) {
            // The first of its channel; whether it is the right one is seen by whoever compares.
            expected[..end].rotate_left(at);
            return;
        }
        at = end;
    }
}

/// The process that a notification names is the server's, whatever the client was told at login.
pub(super) fn is_same_news(message: u8, body: &[u8], expected: &[u8]) -> bool {
    message == tag::NOTIFICATION && body.get(4..) == expected.get(4..)
}

pub(super) fn is_strangers(body: &[u8], own: u32) -> bool {
    let text = String::from_utf8_lossy(body);
    let mut names = text.split('c').filter_map(|part| part.split_once('.')?.0.parse::<u32>().ok());
    names.any(|number| number != own)
}

/// A message in few words.
pub(super) fn show(message: u8, body: &[u8]) -> String {
    let head = &body[..body.len().min(60)];
    format!("{} ({} bytes: {})", char::from(message), body.len(), head.escape_ascii())
}
