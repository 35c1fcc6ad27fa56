//! Notes what a client's statements do to its session when they are sent, and sends what its server needs first.
//!
//! Messages do not wait for this, except where a statement of SQL's PREPARE has to be prepared first. That is sent
//! before the client's message in the same batch. If it fails, the server skips the client's message, and the client
//! gets the error.

use std::sync::Arc;

use session_state::parameters::Tracked;
use session_state::prepared::Statement;
use session_state::state::{Effect, Effects, Reading};
use session_state::tracker::Tracker;
use sql::Pieces;
use units::limits;
use wire::HEADER_LEN;
use wire::frontend::{BindNames, Execute, Parse, Target, tag};

use crate::requests::{DISCARD_SEQUENCES, Renamed, Requests};
use crate::server::{Expect, Server};
use crate::session::Session;
use crate::{announcing, attribution, listening, remedies, texts, vacating};

/// Whether a message must wait for answers under way, because they decide how a text is read, or which statements have
/// which names.
pub(crate) fn waits_for_answers(requests: &Requests<'_>, message: u8, at_hand: &[u8]) -> bool {
    // Without a tracker nothing is in doubt.
    let Some(tracker) = &requests.link.session.facts.tracker else { return false };
    let is_text = matches!(message, tag::QUERY | tag::PARSE);
    let names = match message {
        tag::DESCRIBE | tag::CLOSE => at_hand.get(HEADER_LEN) == Some(&Target::Statement.byte()),
        _ => is_text || message == tag::BIND,
    };
    // What the pooler prepares within a batch is skipped if something before it in the batch fails.
    let is_brought =
        requests.link.server.kept.on_server.is_changing() && requests.link.server.ledger.owed().awaits_own_ready();
    let runs = names || message == tag::FUNCTION_CALL;
    let in_doubt = names && (is_brought || tracker.under_way.is_naming())
        || runs && must_restore(requests.link.server, requests.link.session, tracker)
        || is_text && tracker.is_deciding(&requests.caches.tracked, message == tag::PARSE)
        || is_text && tracker.meaning.is_vague() && requests.link.server.ledger.owed().awaits_own_ready();
    in_doubt && requests.link.server.ledger.depth() > 0 && requests.follows()
}

/// Parameters with which nearly every session begins, and which code hardly ever resets.
const SAID_BY_DRIVERS: [usize; 2] = [Tracked::CLIENT_ENCODING, Tracked::APPLICATION_NAME];

/// Whether answers under way reset settings to the values that the session began with, or may tell that code has done so. Then the server
/// must get those values first, between two ReadyForQuery.
fn must_restore(server: &Server, session: &Session, tracker: &Tracker) -> bool {
    let base = &server.kept.base;
    let begins_otherwise = session.reset_to.is_some() || !base.is_login();
    let reverts =
        begins_otherwise && (tracker.is_reverting(base) || tracker.is_reverted() || tracker.unseen.has_lost_base());
    (reverts || may_lose_own(server, session)) && server.ledger.owed().awaits_ready()
}

/// Whether code may have reset a setting or parameter with which the session or the server began. Then the session's next statement waits until the
/// server has listed its settings.
#[must_use]
pub fn may_lose_own(server: &Server, session: &Session) -> bool {
    let Some(tracker) =
        session.facts.tracker.as_ref().filter(|tracker| tracker.inspection.awaits_listing(tracker.pinning.suspects()))
    else {
        return false;
    };
    let at_login = session.own.at_login.without(SAID_BY_DRIVERS.into_iter().collect());
    let kept = &server.kept;
    tracker.journal.has_first() || !at_login.is_empty() || kept.base.has_any() || !kept.owners.of_base().is_empty()
}

/// A Parse is sent without renaming: of the unnamed statement, or where no names are kept. False: it waits for answers
/// under way.
pub(crate) fn parse_followed(requests: &mut Requests<'_>, parse: Option<&Parse<'_>>, is_mapped: bool) -> bool {
    let (name, text) = parse.map_or((&b""[..], None), |parse| (parse.name, Some(parse.query)));
    if !requests.follows() {
        attribution::unfollowed(requests, text);
        attribution::parsed(requests, name);
        return true;
    }
    let reading = texts::read_text(requests, text);
    attribution::parsed(requests, name);
    listening::note_notify(requests, reading, text);
    let is_followed = requests.link.session.facts.tracker.is_some() || reading.is_active();
    remedies::run_without_strangers(requests, reading, text.unwrap_or_default());
    let kept = is_followed && is_mapped && !reading.is_plain();
    let marked = kept.then(|| {
        texts::marked(requests.link.server, requests.link.session, requests.caches, text.unwrap_or_default(), reading)
    });
    if is_followed && !is_mapped && !announcing::may_define(requests, text, reading) {
        return false;
    }
    if !remedies::remedy_before(requests, marked.as_deref().filter(|marked| marked.reading.executes())) {
        return false;
    }
    if texts::sequences(requests, reading, text.unwrap_or_default()) {
        requests.run_prelude(&vec![DISCARD_SEQUENCES.to_vec()]);
    }
    if !is_followed {
        return true;
    }
    announcing::defined(requests.link.session);
    listening::bring_channels(requests, reading);
    let tracker = requests.link.session.facts.tracker.get_or_insert_default();
    if !is_mapped && !reading.is_plain() {
        // It is not known when it will be executed.
        tracker.suspect(reading.unseen(), text.unwrap_or_default(), &requests.link.pool.names.known);
    } else {
        tracker.portals.parse_unnamed(marked);
    }
    true
}

/// A text is too long to be at hand at once: its meaning is known when its end has passed. `text`: its beginning.
#[cold]
pub(crate) fn begin_pieces(requests: &mut Requests<'_>, text: &[u8]) {
    if !requests.follows() {
        return;
    }
    let rules = texts::rules(requests.link.server, requests.link.session, requests.caches);
    let tracker = requests.link.session.facts.tracker.get_or_insert_default();
    // Texts in its encoding are not read.
    let Some(rules) = rules else { return tracker.suspect(Reading::UNKNOWN, text, &requests.link.pool.names.known) };
    let mut pieces = Box::new(Pieces::new(rules, limits::SHAPE_LEN_MAX));
    pieces.add(text);
    tracker.long_text.begin(pieces, text);
}

/// More of a long text passes, up to its end if `is_last`.
pub(crate) fn add_piece(requests: &mut Requests<'_>, count: usize, is_last: bool) {
    let Some(tracker) = requests.link.session.tracker_mut() else { return };
    // A zero byte ends the text; the parameter types of a Parse follow it.
    let piece = &requests.stream.rest()[..count];
    let end = piece.iter().position(|&byte| byte == 0);
    let piece = &piece[..end.unwrap_or(count)];
    // Its end is still to come.
    let Some(gathered) = tracker.long_text.add(piece, is_last || end.is_some()) else { return };
    let shape = gathered.finish();
    let reading = texts::read_text(requests, shape.as_deref());
    let tracker = requests.link.session.facts.tracker.as_mut().expect("it has gathered the text");
    if reading.is_noted(true) {
        // It is too late to note what it sets: its answers may have come already.
        tracker.suspect_unread();
    } else {
        tracker.suspect_again(reading, &requests.link.pool.names.known);
    }
    if reading.redefines() || shape.is_none() {
        announcing::define_unread(requests);
    }
}

/// Whether a Bind's parameters must be read because they may name settings.
pub(crate) fn reads_parameters(requests: &Requests<'_>, statement: &[u8]) -> bool {
    if !requests.follows() {
        return false;
    }
    if statement.is_empty() {
        let unnamed =
            requests.link.session.facts.tracker.as_ref().and_then(|tracker| tracker.portals.unnamed_statement());
        return unnamed.is_some_and(|marked| marked.is_unbound());
    }
    let named = requests.link.session.statements.names.as_ref().and_then(|names| names.get(statement));
    named.is_some_and(|statement| statement.reading(&requests.link.pool.names.known).sets_by_function())
}

/// A Bind is about to be sent. `statement`: the named one and its effects, if known; `after_names`: the bytes after its
/// names. False: it waits for answers under way.
pub(crate) fn bind_followed(
    requests: &mut Requests<'_>,
    names: &BindNames<'_>,
    statement: Option<(&Statement, Reading)>,
    after_names: &[u8],
) -> bool {
    let (name, reading) = (names.statement, statement.map_or(Reading::default(), |(_, reading)| reading));
    let statement = statement.map(|(statement, _)| statement);
    if let Some(statement) = statement.filter(|_| requests.link.server.facts.traces.last_text.is_some()) {
        texts::keep_for_chaos_check(requests.link.server, statement.query());
    }
    if !requests.follows() {
        return true;
    }
    let is_active = match statement {
        Some(_) => reading.is_active(),
        None => requests.link.server.kept.on_server.has(name),
    };
    if reading.defines() > requests.link.server.facts.effects.defines {
        requests.link.server.facts.effects.defines = reading.defines();
    }
    texts::note_local_rights(requests.link.server, reading);
    listening::note_notify(requests, reading, statement.map(Statement::query));
    let mut followed = None;
    if requests.link.session.facts.tracker.is_some() || is_active {
        if statement.is_some() {
            listening::bring_channels(requests, reading);
        }
        let marked = match statement {
            Some(statement) if !reading.is_plain() => Some(texts::marked(
                requests.link.server,
                requests.link.session,
                requests.caches,
                statement.query(),
                reading,
            )),
            Some(_) => None,
            None if name.is_empty() => requests
                .link
                .session
                .facts
                .tracker
                .as_ref()
                .and_then(|tracker| tracker.portals.unnamed_statement())
                .map(Arc::clone),
            None => return remedies::bring(requests, name),
        };
        if !remedies::remedy_before(requests, marked.as_deref()) {
            return false;
        }
        if let Some(marked) = &marked {
            let raised = texts::raised(
                requests.link.server,
                requests.link.session,
                requests.caches,
                marked.reading,
                &marked.text,
            );
            requests.run_prelude(&raised);
        }
        followed = Some(marked);
    }
    if texts::sequences(requests, reading, statement.map_or(b"", |statement| statement.query())) {
        requests.run_prelude(&vec![DISCARD_SEQUENCES.to_vec()]);
    }
    if let Some(marked) = followed {
        let marked = match marked {
            Some(marked) if marked.is_unbound() => Some(Arc::new(marked.bound(after_names))),
            marked => marked,
        };
        let (awaited, _) = requests.link.server.ledger.owing();
        let tracker = requests.link.session.facts.tracker.get_or_insert_default();
        if let Some(marked) = marked.as_ref().filter(|marked| marked.reading.sets_by_function()) {
            tracker.unseen.note_values(&marked.text, after_names);
        }
        tracker.bind(names.portal, marked, awaited);
    }
    true
}

/// A Describe of the unnamed statement is about to be sent: a statement that it EXECUTEs must be prepared on the
/// server. False: it waits for answers under way.
pub(crate) fn describe_followed(requests: &mut Requests<'_>) -> bool {
    let marked = requests
        .link
        .session
        .facts
        .tracker
        .as_ref()
        .and_then(|tracker| tracker.portals.unnamed_statement())
        .map(Arc::clone);
    remedies::remedy_before(requests, marked.filter(|_| requests.follows()).as_deref())
}

/// An Execute is sent. False: it has to wait.
pub(crate) fn execute(requests: &mut Requests<'_>, at_hand: &[u8]) -> bool {
    let tracker = requests.link.session.facts.tracker.as_ref().filter(|tracker| !tracker.portals.is_empty());
    let execute = tracker.and_then(|_| Execute::decode(&at_hand[HEADER_LEN..]).ok());
    let marked = execute.and_then(|execute| tracker?.portals.get(execute.portal).map(Arc::clone));
    let Some(marked) = marked.filter(|_| requests.follows()) else {
        requests.sent(Expect::Execute);
        return true;
    };
    let is_open = requests.link.session.facts.tracker.as_ref().is_some_and(|tracker| tracker.is_open());
    let is_noted = marked.reading.is_noted(is_open);
    let mut effects = if is_noted { marked.effects.clone() } else { Effects::default() };
    if !announcing::may_define(requests, Some(&marked.text), marked.reading)
        || !listening::may_listen(requests, &mut effects)
    {
        return false;
    }
    listening::note_notify(requests, marked.reading, Some(&marked.text));
    announcing::defined(requests.link.session);
    vacating::vacate(requests, &marked.text, marked.reading);
    texts::suspect(requests.link.session, requests.link.pool, marked.reading, &marked.text);
    if is_noted {
        remedies::note(
            requests.link.server,
            requests.link.session,
            requests.caches,
            Expect::Execute,
            effects,
            &marked.text,
        );
    } else {
        requests.sent(Expect::Execute);
    }
    true
}

/// Whether Executes must be read whole.
pub(crate) fn reads_portals(session: &Session) -> bool {
    session.facts.tracker.as_ref().is_some_and(|tracker| !tracker.portals.is_empty())
}

/// A Close of a statement that SQL has prepared: its effect is noted like that of a DEALLOCATE. `No`: SQL has prepared
/// none of this name.
pub(crate) fn close_prepared(requests: &mut Requests<'_>, name: &[u8]) -> Renamed {
    if !requests.follows()
        || requests.link.session.facts.tracker.as_ref().is_none_or(|tracker| !tracker.statements.has(name))
    {
        return Renamed::No;
    }
    if !remedies::bring(requests, name) {
        return Renamed::Later;
    }
    remedies::note(
        requests.link.server,
        requests.link.session,
        requests.caches,
        Expect::Close(None),
        Effects::of_one(Effect::Deallocate(name.into())),
        b"",
    );
    Renamed::Yes
}
