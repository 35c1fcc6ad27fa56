//! Which statement each of a client's messages is about, and what it may do to its transaction: noted in the ledger when the message is
//! sent.
//!
//! Simple queries by their text; Parse by its text; Bind by the statement that it names; Execute by the portal that it names. Does not
//! look at calls of functions by their oid: they are not counted.

use std::sync::Arc;

use wire::HEADER_LEN;
use wire::frontend::{BindNames, tag};

use crate::requests::Requests;
use crate::server::Said;
use crate::texts;

/// A message that only names its statement, or has none.
#[inline]
pub(crate) fn note(requests: &mut Requests<'_>, message: u8, at_hand: &[u8]) {
    let statement = match message {
        tag::EXECUTE => requests.link.server.lease.spoken.executed(&at_hand[HEADER_LEN..]),
        tag::FUNCTION_CALL => Said::FUNCTION,
        _ => return,
    };
    requests.link.server.ledger.speaks_of(statement);
}

/// A text is sent that is not followed; `None`: not all of it is at hand.
#[inline]
pub(crate) fn unfollowed(requests: &mut Requests<'_>, text: Option<&[u8]>) {
    let caches = &mut *requests.caches;
    match text {
        Some(text) => caches.identify(text, &requests.link.server.kept.parameters, requests.link.pool.id),
        None => caches.said = Said::default(),
    }
    requests.link.server.ledger.speaks_of(requests.caches.said);
}

/// The text that was read last is parsed under this name.
#[inline]
pub(crate) fn parsed(requests: &mut Requests<'_>, name: &[u8]) {
    let statement = requests.caches.said;
    requests.link.server.lease.spoken.parse(name, statement);
    requests.link.server.ledger.speaks_of(statement);
}

/// A Bind of a statement whose name is not mapped.
pub(crate) fn bound_by_name(requests: &mut Requests<'_>, names: &BindNames<'_>) {
    let mut statement = requests.link.server.lease.spoken.statement(names.statement);
    if statement == Said::default() && names.statement.is_empty() {
        statement = parsed_before(requests);
    }
    bound(requests, names.portal, statement);
}

/// A Bind.
#[inline]
pub(crate) fn bound(requests: &mut Requests<'_>, portal: &[u8], statement: Said) {
    requests.link.server.lease.spoken.bind(portal, statement);
    requests.link.server.ledger.speaks_of(statement);
}

/// The unnamed statement, which the client has parsed on another server.
#[cold]
fn parsed_before(requests: &mut Requests<'_>) -> Said {
    let parameters = Arc::clone(texts::meant(requests.link.server, requests.link.session));
    let unnamed = requests.link.session.statements.unnamed.as_deref();
    let Some(parse) = unnamed.and_then(|unnamed| unnamed.parse()) else { return Said::default() };
    requests.caches.identify(parse.query, &parameters, requests.link.pool.id);
    requests.link.server.lease.spoken.parsed = requests.caches.said;
    requests.caches.said
}
