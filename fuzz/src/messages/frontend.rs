//! What a client sends, message by message.

use wire::Error;
use wire::frontend::{self, BindNames, tag};

use super::{exact, same, silent};

pub(super) fn check(message: u8, body: &[u8]) {
    match message {
        tag::QUERY => {
            exact(message, body, frontend::Query::decode, |read, out| read.encode(out));
        }
        tag::PARSE => {
            if let Some(parse) = exact(message, body, frontend::Parse::decode, |read, out| read.encode(out)) {
                assert_eq!(2 + 4 * parse.type_oids().count(), parse.types.len());
            }
        }
        tag::DESCRIBE => {
            exact(message, body, frontend::Describe::decode, |read, out| read.encode(out));
        }
        tag::CLOSE => {
            exact(message, body, frontend::Close::decode, |read, out| read.encode(out));
        }
        tag::EXECUTE => {
            exact(message, body, frontend::Execute::decode, |read, out| read.encode(out));
        }
        tag::COPY_FAIL => {
            exact(message, body, frontend::CopyFail::decode, |read, out| read.encode(out));
        }
        tag::BIND => bind(body),
        tag::PASSWORD => {
            exact(message, body, frontend::Password::decode, |read, out| read.encode(out));
            exact(message, body, frontend::SaslInitial::decode, |read, out| read.encode(out));
            exact(message, body, frontend::SaslResponse::decode, |read, out| read.encode(out));
        }
        tag::COPY_DATA => exact_data(body),
        tag::SYNC | tag::FLUSH | tag::TERMINATE | tag::COPY_DONE => {
            exact(message, body, frontend::decode_bare, |(), out| out.extend_from_slice(&[message, 0, 0, 0, 4]));
        }
        _ => {}
    }
    let known = frontend::len_max(message).is_some();
    assert_eq!(known, b"BCdcfDEHFPpQSX".contains(&message), "a limit for every tag that a client may send, no other");
}

fn exact_data(body: &[u8]) {
    let mut again = Vec::new();
    frontend::encode_copy_data(&mut again, body);
    same(tag::COPY_DATA, body, &again);
}

/// The names are at the front: once they can be read, what follows them changes nothing.
fn bind(body: &[u8]) {
    let whole = silent(|| BindNames::decode(body));
    for len in 0..body.len() {
        match BindNames::decode(&body[..len]) {
            None => assert!(whole.is_none_or(|names| len < names.len), "the names are there and are not seen"),
            early => assert_eq!(early, whole),
        }
    }
    let Some(names) = whole else { return };
    let (rest, mut again) = (&body[names.len..], Vec::new());
    let written = frontend::encode_bind_prefix(&mut again, names.portal, names.statement, rest.len());
    assert_eq!(written, Ok::<(), Error>(()));
    again.extend_from_slice(rest);
    same(tag::BIND, body, &again);
}
