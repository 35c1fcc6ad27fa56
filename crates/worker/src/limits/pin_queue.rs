//! How many sessions of a pool may keep their servers between transactions (`max_pinned`), and which wait for it.
//!
//! ```text
//! text that pins, no server yet ──► at the maximum ──► waits in a queue of its own ──► another session is unpinned
//! └─► below it ──► counted from now on ──► waits for a server, like every session
//! ```
//!
//! A session that has a server already (it is in a transaction or a pipeline) never waits here: others may wait for its
//! locks. State that a text does not show (it is set inside a function) is found only afterwards. In both cases the
//! session is pinned and counted.

use link::pinned::take_pin_permit;
use link::session::{Session, WaitFor};
use session_state::state::{Pins, Reader};
use sql::Marks;
use units::ConnId;
use units::deadline::Owner;
use wire::frontend::{BindNames, Parse, Query, tag};
use wire::{HEADER_LEN, Header};

use crate::tables::owners::{Pools, Sessions};
use crate::tables::step::Step;

/// Makes a session without a server wait until fewer sessions of its pool are pinned, if need be. True: it waits.
pub(crate) fn must_wait_to_pin(
    sessions: &mut Sessions,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    messages: &[u8],
) -> bool {
    let session = &mut sessions[conn];
    let pool = &mut pools[session.pool()];
    if !pool.rules().follows() || !pins(session, messages, &mut step.caches.reader) {
        return false;
    }
    let tracker = session.ensure_tracker();
    if tracker.has_pin_permit {
        return false;
    }
    if pool.may_pin() && pool.pins().queue().is_empty() {
        take_pin_permit(tracker, pool);
        return false;
    }
    debug_assert!(session.server().is_none(), "others may wait for the locks of a session with a server");
    let ticket = pool.pins_mut().wait(conn, step.now);
    session.wait(step.now, WaitFor::Pin, ticket, false);
    step.agenda.arm(Owner::Conn(conn));
    true
}

/// A session that has lost its server gives its pin permit back.
pub(crate) fn return_pin_permit(sessions: &mut Sessions, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut sessions[conn];
    let had_permit = session.tracker_mut().is_some_and(|tracker| std::mem::take(&mut tracker.has_pin_permit));
    if had_permit {
        pools[session.pool()].pins_mut().permit_returned();
        step.agenda.admit_to_pin(session.pool());
    }
}

/// Whether the text of one of the messages at hand, up to the end of the first batch, pins the session.
#[cold]
fn pins(session: &Session, mut messages: &[u8], reader: &mut Reader) -> bool {
    while let Ok(Some(header)) = Header::parse(messages) {
        let body = &messages[HEADER_LEN..messages.len().min(header.total_len())];
        let marks = match header.tag {
            tag::QUERY => text_of_query(body).map(|text| reader.marks(text, session.parameters())),
            tag::PARSE => Parse::decode(body).ok().map(|parse| reader.marks(parse.query, session.parameters())),
            tag::BIND => marks_of_bound(session, body),
            _ => None,
        };
        if marks.is_some_and(|marks| marks.any(Pins::SAID)) {
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

/// `None` if the text is not complete yet.
fn text_of_query(body: &[u8]) -> Option<&[u8]> {
    Query::decode(body).ok().map(|query| query.text)
}

/// The marks of a statement that was prepared before.
fn marks_of_bound(session: &Session, body: &[u8]) -> Option<Marks> {
    let name = BindNames::decode(body)?.statement;
    let named = session.statements().names().and_then(|names| names.get(name)).map(|statement| statement.marks());
    let unnamed = session.tracker().filter(|_| name.is_empty()).and_then(|tracker| tracker.portals.unnamed_statement());
    named.or_else(|| unnamed.map(|marked| marked.reading.marks))
}
