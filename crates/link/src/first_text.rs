//! The text that a transaction begins with. It decides the class and the limits of the whole transaction, by its
//! statement and its comments.
//!
//! After a bare BEGIN the next text counts, if it is at hand.

use sql::begins_transaction;
use wire::frontend::{BindNames, Parse, tag};
use wire::{HEADER_LEN, Header};

use crate::session::Session;

/// So many messages are searched for a text after a bare BEGIN: Bind, Describe, Execute and Sync may come between.
const MESSAGES_MAX: usize = 8;

/// The text, as far as it is at hand: of a Query, of a Parse, or of the statement that a Bind names.
#[inline]
pub fn first_text<'a>(session: &'a Session, messages: &'a [u8]) -> Option<&'a [u8]> {
    match query(messages) {
        // The usual case.
        Some(text) if !begins_transaction(text) => Some(text),
        _ => first_of_any(session, messages),
    }
}

#[inline(never)]
fn first_of_any<'a>(session: &'a Session, messages: &'a [u8]) -> Option<&'a [u8]> {
    let (text, rest) = first_said(session, messages)?;
    if begins_transaction(text) { text_after(session, rest).or(Some(text)) } else { Some(text) }
}

/// The text of a complete Query, if that comes first.
#[inline]
fn query(messages: &[u8]) -> Option<&[u8]> {
    let (&[tag::QUERY, a, b, c, d], body) = messages.split_first_chunk::<HEADER_LEN>()? else { return None };
    let len = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(HEADER_LEN)?;
    body.get(..=len)?.strip_suffix(b"\0")
}

/// The first text, and the bytes after its message. A batch may begin with messages that run nothing: drivers describe
/// a statement again, or close portals that they have dropped, before they bind.
fn first_said<'a>(session: &'a Session, mut messages: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
    loop {
        let runs_nothing = matches!(messages.first(), Some(&(tag::DESCRIBE | tag::CLOSE | tag::FLUSH)));
        let (text, rest) = text_of(session, messages)?;
        match text {
            Some(text) => return Some((text, rest)),
            None if runs_nothing => messages = rest,
            None => return None,
        }
    }
}

/// The text after a bare BEGIN.
fn text_after<'a>(session: &'a Session, mut messages: &'a [u8]) -> Option<&'a [u8]> {
    for _ in 1..MESSAGES_MAX {
        // Other messages may come between a Parse of BEGIN and the next text.
        let (text, rest) = text_of(session, messages)?;
        if let Some(text) = text.filter(|text| !begins_transaction(text)) {
            return Some(text);
        }
        messages = rest;
    }
    None
}

/// The text of the first message, if it has one, and the bytes after that message; `None` if there is no message.
fn text_of<'a>(session: &'a Session, messages: &'a [u8]) -> Option<(Option<&'a [u8]>, &'a [u8])> {
    let header = Header::parse(messages).ok()??;
    let (message, rest) = messages.split_at(messages.len().min(header.total_len()));
    let body = &message[HEADER_LEN..];
    let text = match header.tag {
        tag::QUERY => Some(body.strip_suffix(b"\0").unwrap_or(body)),
        tag::PARSE => Parse::decode(body).ok().map(|parse| parse.query).or_else(|| beginning(body)),
        tag::BIND => bound_text(session, body),
        _ => None,
    };
    Some((text, rest))
}

/// The beginning of the text of an incomplete Parse: it comes after the name.
fn beginning(body: &[u8]) -> Option<&[u8]> {
    let name = body.iter().position(|&byte| byte == 0)?;
    body[name + 1..].split(|&byte| byte == 0).next()
}

fn bound_text<'a>(session: &'a Session, body: &[u8]) -> Option<&'a [u8]> {
    let names = BindNames::decode(body)?;
    if names.statement.is_empty() {
        // It may have been parsed in an earlier batch.
        return session.statements.unnamed.as_deref()?.parse().map(|parse| parse.query);
    }
    session.statements.names.as_deref()?.get(names.statement).map(|statement| statement.query())
}
