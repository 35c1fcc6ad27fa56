//! What the text of a statement means under the session's present settings: what it reads, sets and uses, and its side
//! effects. An EXECUTE has the effects of the statement that it runs; [`crate::remedies`] brings that statement to the
//! server.

use std::collections::BTreeSet;
use std::sync::Arc;

use session_state::parameters::{Parameters, Tracked};
use session_state::prepared::{Statement, StatementId};
use session_state::state::{Effect, Effects, Pins, Reading, Remedy};
use session_state::tracker::Marked;
use session_state::{own_settings, prepared};
use sql::{Rules, Text};
use units::{Time, limits};
use wire::backend::Status;
use wire::frontend::Parse;

use crate::caches::Caches;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::server::{Said, Server};
use crate::session::Session;

/// Adds the effects of executed statements to each EXECUTE among the effects of a text.
pub(crate) fn add_executed(server: &mut Server, session: &mut Session, caches: &mut Caches, effects: &mut Effects) {
    if !effects.iter().any(|effect| matches!(effect, Effect::Execute(_))) {
        return;
    }
    let rules = rules(server, session, caches).unwrap_or_default();
    let names = session.statements.names.as_deref();
    if let Some(tracker) = &session.facts.tracker {
        tracker.add_executed(effects, names, rules, &caches.tracked);
    }
}

/// The id of a Parse of EXECUTE: its columns are those of the statement that the session has under that name now.
#[cold]
pub(crate) fn identify_executing(requests: &mut Requests<'_>, parse: &Parse<'_>, statement: &Statement) -> StatementId {
    let effects = effects(requests.link.server, requests.link.session, requests.caches, parse.query);
    let (tracker, names) =
        (requests.link.session.facts.tracker.as_ref(), requests.link.session.statements.names.as_ref());
    let of = |name: &[u8]| {
        let prepared = tracker.and_then(|tracker| tracker.statements.text(name).cloned());
        let of_protocol = || names?.get(name).map(|statement| Arc::from(statement.query()));
        prepared.or_else(of_protocol)
    };
    let texts: Vec<Option<Arc<[u8]>>> = effects
        .iter()
        .filter_map(|effect| if let Effect::Execute(name) = effect { Some(of(name)) } else { None })
        .collect();
    let meaning = std::iter::once(Some(statement.id.bytes())).chain(texts.iter().map(Option::as_deref));
    prepared::identify(requests.caches.catalog.secret(), parse, meaning, requests.link.pool.names.generation)
}

/// The id of a Parse of a text with a constant that has the moment of the Parse: no other Parse means the same.
#[cold]
pub(crate) fn identify_dated(requests: &mut Requests<'_>, parse: &Parse<'_>, statement: &Statement) -> StatementId {
    let moment = requests.now.micros_since(Time::ZERO).to_be_bytes();
    let session = requests.link.session.identity.serial.0.to_be_bytes();
    let meaning = [statement.id.bytes(), &session, &moment].into_iter().map(Some);
    prepared::identify(requests.caches.catalog.secret(), parse, meaning, requests.link.pool.names.generation)
}

/// The parameters by which the server will read texts.
pub(crate) fn meant<'a>(server: &'a Server, session: &'a Session) -> &'a Arc<Parameters> {
    let meant = session.facts.tracker.as_ref().and_then(|tracker| tracker.meaning.parameters());
    meant.unwrap_or(&server.kept.parameters)
}

/// The parameters by which the session's server reads texts once it has them: the SETs may be under way.
pub(crate) fn parameters(session: &Session) -> &Arc<Parameters> {
    let meant = session.facts.tracker.as_ref().and_then(|tracker| tracker.meaning.parameters());
    meant.unwrap_or(&session.parameters)
}

pub(crate) fn read_text(requests: &mut Requests<'_>, text: Option<&[u8]>) -> Reading {
    if requests.link.server.facts.traces.last_text.is_some() {
        keep_for_chaos_check(requests.link.server, text.unwrap_or_default());
    }
    let meant = requests.link.session.facts.tracker.as_ref().and_then(|tracker| tracker.meaning.parameters());
    let parameters = meant.unwrap_or(&requests.link.server.kept.parameters);
    let known = &mut requests.link.pool.names.known;
    let reading = match text {
        Some(_) if let Some(read) = requests.first_reading.take() => {
            requests.caches.said = read.said;
            read.reading
        }
        Some(text) => requests.caches.read(text, parameters, known, requests.link.pool.id),
        None => {
            requests.caches.said = Said::default();
            Reading::UNKNOWN
        }
    };
    requests.link.server.facts.effects.defines = requests.link.server.facts.effects.defines.max(reading.defines());
    note_local_rights(requests.link.server, reading);
    reading
}

/// Keeps the beginning of a text, so that `chaos_check` can name it.
#[cold]
pub(crate) fn keep_for_chaos_check(server: &mut Server, text: &[u8]) {
    if let Some(heard) = &mut server.facts.traces.last_text {
        heard.clear();
        heard.extend_from_slice(&text[..text.len().min(limits::PIN_TEXT_LEN_MAX)]);
    }
}

pub(crate) fn suspect(session: &mut Session, pool: &mut Pool, reading: Reading, text: &[u8]) {
    session.facts.tracker.get_or_insert_default().suspect(reading, text, &pool.names.known);
}

/// Statements that raise the errors of a text that sets the pooler's own settings wrongly, to be run before it.
pub(crate) fn raised(
    server: &mut Server,
    session: &mut Session,
    caches: &mut Caches,
    reading: Reading,
    text: &[u8],
) -> Remedy {
    if !reading.is_noted(false) || !own_settings::is_named_in(text) {
        return Remedy::new();
    }
    rules(server, session, caches).map_or_else(Remedy::new, |rules| own_settings::raised(&Text::new(text, rules)))
}

/// Notes that the session uses sequences here. Returns whether DISCARD SEQUENCES must be run first, so that `currval`
/// shows nothing of other sessions.
#[inline]
pub(crate) fn sequences(requests: &mut Requests<'_>, reading: Reading, text: &[u8]) -> bool {
    reading.uses_sequences() && sequences_used(requests, reading, text)
}

#[inline(never)]
fn sequences_used(requests: &mut Requests<'_>, reading: Reading, text: &[u8]) -> bool {
    let (advances, asks) = (reading.advances_sequences(), reading.calls_currval());
    let (currval_callers, application) = (
        &mut requests.link.pool.names.known.currval_callers,
        requests.link.session.parameters.get(Tracked::APPLICATION_NAME),
    );
    if asks {
        currval_callers.add(application);
    }
    let matters = currval_callers.any();
    let keeps = advances && (currval_callers.has(application) || reading.draws() && matters);
    let misled = requests.link.server.kept.sequences.mislead(
        requests.link.conn,
        asks,
        !advances && is_first(requests.link.server, requests.link.session),
        matters,
    );
    let discards = misled && requests.link.server.transaction.status != Status::Failed;
    if discards {
        requests.link.server.kept.sequences.discarded();
    }
    if advances {
        requests.link.server.kept.sequences.drawn(requests.link.conn);
    }
    if keeps {
        requests.link.session.facts.tracker.get_or_insert_default().pinning.pin(Pins::SEQUENCE, text);
    }
    discards
}

/// The session has run nothing on its server since it was linked.
fn is_first(server: &Server, session: &Session) -> bool {
    let is_pinned = session.facts.tracker.as_ref().is_some_and(|tracker| tracker.pinning.is_pinned());
    server.transaction.status == Status::Idle && !server.ledger.owed().awaits_ready() && !is_pinned
}

pub(crate) fn marked(
    server: &mut Server,
    session: &mut Session,
    caches: &mut Caches,
    text: &[u8],
    reading: Reading,
) -> Arc<Marked> {
    Arc::new(Marked { text: text.into(), reading, effects: effects(server, session, caches, text).of_first() })
}

pub(crate) fn effects(server: &mut Server, session: &mut Session, caches: &mut Caches, text: &[u8]) -> Effects {
    match rules(server, session, caches) {
        Some(rules) => Effects::read(&Text::new(text, rules), &caches.tracked),
        None => Effects::default(),
    }
}

/// The statements that a text runs by EXECUTE: for each its reading and its text, or `None` if no text of it is kept.
pub(crate) fn executed(requests: &mut Requests<'_>, effects: &Effects) -> Vec<Option<(Reading, Arc<[u8]>)>> {
    let parameters = Arc::clone(meant(requests.link.server, requests.link.session));
    let (reader, known) = (&mut requests.caches.reader, &mut requests.link.pool.names.known);
    let name = |effect: &Effect| if let Effect::Execute(name) = effect { Some(name.clone()) } else { None };
    let names: BTreeSet<_> = effects.iter().filter_map(name).collect();
    let mut statement = |name: &[u8]| {
        let by_sql = requests.link.session.facts.tracker.as_ref().and_then(|tracker| tracker.statements.text(name));
        let by_protocol = requests.link.session.statements.names.as_ref().and_then(|names| names.get(name));
        match (by_sql, by_protocol) {
            (Some(text), _) => Some((reader.read(text, &parameters, known), Arc::clone(text))),
            (None, Some(statement)) => Some((statement.reading(known), statement.query().into())),
            (None, None) => None,
        }
    };
    names.iter().map(|name| statement(name)).collect()
}

/// Notes whether statements may run under another role until the transaction ends.
#[inline]
pub(crate) fn note_local_rights(server: &mut Server, reading: Reading) {
    if server.facts.effects.local_rights && server.is_clean() {
        server.facts.effects.local_rights = false;
    }
    if reading.may_have_local_rights() {
        server.facts.effects.local_rights = true;
    }
}

pub(crate) fn rules(server: &mut Server, session: &mut Session, caches: &mut Caches) -> Option<Rules> {
    let parameters = Arc::clone(meant(server, session));
    caches.reader.rules(&parameters)
}
