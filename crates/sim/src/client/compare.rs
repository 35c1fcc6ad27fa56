//! When a message equals the twin's, though not byte for byte.

use wire::backend::{Fields, Notification, tag};
use wire::{HEADER_LEN, Header};

/// Errors need to agree only in severity and code if the text is the pooler's, or contains a statement's name on the
/// server.
pub(super) fn is_same_error(message: u8, body: &[u8], expected: &[u8]) -> bool {
    let (found, wanted) = (Fields::decode(body), Fields::decode(expected));
    let words_differ = matches!(wanted.code(), Some(b"57014" | b"26000" | b"42P05" | b"0A000"));
    message == tag::ERROR && words_differ && found.code() == wanted.code() && found.severity() == wanted.severity()
}

/// A block that has failed refuses a text that PostgreSQL finds to be none: without a server nobody parses it.
pub(super) fn is_unread(body: &[u8], expected: &[u8]) -> bool {
    let (found, wanted) = (Fields::decode(body), Fields::decode(expected));
    found.code() == Some(b"25P02") && wanted.code() == Some(b"42601") && found.severity() == wanted.severity()
}

/// PostgreSQL sends notifications before changed parameters. Through the pooler, a session's own notifications come
/// from its pool's listener: only ReadyForQuery waits for them, and the server's parameter reports come first.
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

/// Notifications come from the session's own server, which may listen by a side effect, and from the pool's listener.
/// Each source keeps its order, but there is no order between them.
pub(super) fn channel_first(expected: &mut [u8], body: &[u8]) {
    let channel = |body: &[u8]| Notification::decode(body).ok().map(|said| said.channel.to_vec());
    let mut at = 0;
    while let Some(header) =
        Header::parse(&expected[at..]).ok().flatten().filter(|header| header.tag == tag::NOTIFICATION)
    {
        let end = at + header.total_len();
        let owed = &expected[at + HEADER_LEN..end];
        if channel(owed) == channel(body) {
            // The first of its channel; the comparison shows whether it is the right one.
            expected[..end].rotate_left(at);
            return;
        }
        at = end;
    }
}

/// The process id in a notification is the server's, not the one that the client got at login.
pub(super) fn is_same_news(message: u8, body: &[u8], expected: &[u8]) -> bool {
    message == tag::NOTIFICATION && body.get(4..) == expected.get(4..)
}

pub(super) fn is_of_another_client(body: &[u8], own: u32) -> bool {
    let text = String::from_utf8_lossy(body);
    let mut names = text.split('c').filter_map(|part| part.split_once('.')?.0.parse::<u32>().ok());
    names.any(|number| number != own)
}

/// A short text for a message.
pub(super) fn show(message: u8, body: &[u8]) -> String {
    let head = &body[..body.len().min(60)];
    format!("{} ({} bytes: {})", char::from(message), body.len(), head.escape_ascii())
}
