//! How many sessions of a pool may keep their servers between transactions (`max_pinned`), and who waits to.
//!
//! ```text
//!   text that pins, no server yet ──► as many pinned as may be ──► waits, in a line of its own ──► somebody is unpinned
//!                                 └─► room ──► counted from now on ──► waits for a server, as everybody does
//! ```
//!
//! Whoever has a server already (it is in a transaction, or in the midst of a pipeline) is never held back: others may wait for
//! what it has. What pins out of sight is found when it has happened. Both stay pinned and are counted.

use link::pinned::take_pin_permit;
use link::session::{Session, WaitFor};
use machine::Step;
use session_state::state::Reader;
use sql::Marks;
use units::ConnId;
use wire::frontend::{BindNames, Parse, Query, tag};
use wire::{HEADER_LEN, Header};

use crate::tables::{Tables, timers};

/// What a text says about itself: whoever runs it keeps its server.
const PINNING: [Marks; 9] = [
    Marks::TEMPORARY,
    Marks::HOLD,
    Marks::ADVISORY,
    Marks::LOAD,
    Marks::SEED,
    Marks::BACKUP,
    Marks::SLOT,
    Marks::ORIGIN,
    Marks::DBLINK,
];

/// Whether a session without a server has to wait until fewer sessions of its pool are pinned; then it does.
pub(crate) fn must_wait_to_pin(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, messages: &[u8]) -> bool {
    let session = &mut tables.sessions[conn];
    let pool = &mut tables.pools[session.pool];
    if !pool.rules.follows() || !pins(session, messages, &mut tables.caches.reader) {
        return false;
    }
    let tracker = session.tracker.get_or_insert_default();
    if tracker.has_pin_permit {
        return false;
    }
    let full = pool.pinned_max().is_some_and(|max| pool.pins.count >= max);
    if !full && pool.pins.queue.is_empty() {
        take_pin_permit(tracker, pool);
        return false;
    }
    let ticket = pool.pins.queue.push(conn, step.now);
    session.wait(step.now, WaitFor::Pin, ticket, false);
    timers::arm_session(tables, conn);
    true
}

/// A session that has no server does not keep one.
pub(crate) fn return_pin_permit(tables: &mut Tables, conn: ConnId) {
    let session = &mut tables.sessions[conn];
    let seated = session.tracker.as_mut().is_some_and(|tracker| std::mem::take(&mut tracker.has_pin_permit));
    if seated {
        tables.pools[session.pool].pins.count -= 1;
        tables.agenda.admit_to_pin(session.pool);
    }
}

/// Whether one of the messages at hand, up to the end of the first batch, pins by what its text says.
#[cold]
fn pins(session: &Session, mut messages: &[u8], reader: &mut Reader) -> bool {
    while let Ok(Some(header)) = Header::parse(messages) {
        let body = &messages[HEADER_LEN..messages.len().min(header.total_len())];
        let marks = match header.tag {
            tag::QUERY => text_of_query(body).map(|text| reader.marks(text, &session.parameters)),
            tag::PARSE => Parse::decode(body).ok().map(|parse| reader.marks(parse.query, &session.parameters)),
            tag::BIND => marks_of_bound(session, body),
            _ => None,
        };
        if marks.is_some_and(|marks| PINNING.iter().any(|pinning| marks.any(*pinning))) {
            return true;
        }
        let ends = matches!(header.tag, tag::QUERY | tag::SYNC | tag::FUNCTION_CALL);
        if ends || messages.len() <= header.total_len() {
            return false;
        }
        messages = &messages[header.total_len()..];
    }
    false
}

/// A text that is not at hand as a whole is not known.
fn text_of_query(body: &[u8]) -> Option<&[u8]> {
    Query::decode(body).ok().map(|query| query.text)
}

/// Of a statement that was prepared before.
fn marks_of_bound(session: &Session, body: &[u8]) -> Option<Marks> {
    let name = BindNames::decode(body)?.statement;
    let named = session.statements.names.as_ref().and_then(|names| names.get(name)).map(|statement| statement.marks());
    let unnamed =
        session.tracker.as_ref().filter(|_| name.is_empty()).and_then(|tracker| tracker.portals.unnamed_statement());
    named.or_else(|| unnamed.map(|marked| marked.reading.marks))
}
