//! Statements that the pooler runs before a client's statement, so that the session's prepared statements that it names
//! are on the server.

use std::collections::BTreeSet;

use session_state::prepared;
use session_state::prepared::Statement;
use session_state::state::{Effect, Effects, OnServer, Reading, Remedy};
use session_state::tracker::{Marked, Seen, SqlStatements};
use wire::backend::Status;

use crate::caches::Caches;
use crate::requests::{DISCARD_SEQUENCES, REFUSE_NAME, Requests};
use crate::server::{Expect, Server};
use crate::session::Session;
use crate::{pacing, texts};

/// A statement that may EXECUTE another one is about to be parsed or described: the other one must be on the server, or
/// it has no columns. False: it waits for answers under way.
pub(crate) fn bring_executed(requests: &mut Requests<'_>, statement: &Statement) -> bool {
    if !statement.executes() || !requests.follows() {
        return true;
    }
    let effects = texts::effects(requests.link.server, requests.link.session, requests.caches, statement.query());
    let remedy = remedy(requests, statement.reading(&requests.link.pool.names.known), &effects, statement.query());
    requests.run_prelude(remedy.as_ref().unwrap_or(&Remedy::new()));
    remedy.is_some()
}

/// Runs what a statement needs before its Bind or Describe. False: it waits for answers under way.
pub(crate) fn remedy_before(requests: &mut Requests<'_>, marked: Option<&Marked>) -> bool {
    // It needs nothing.
    let Some(marked) = marked.filter(|marked| marked.reading.names_statements()) else { return true };
    run_without_strangers(requests, marked.reading, &marked.text);
    let Some(remedy) = remedy(requests, marked.reading, &marked.effects, &marked.text) else { return false };
    requests.run_prelude(&remedy);
    true
}

/// Code may run a computed text, which must not find statements that other sessions have prepared. Between two batches a Query of its own
/// deallocates each of them, since VACUUM, and COMMIT in code, cannot run in a batch with others.
pub(crate) fn end_strangers(requests: &mut Requests<'_>, reading: Reading, text: &[u8]) {
    if requests.is_between_batches() {
        for name in strangers(requests, reading, text) {
            let text = requests.link.server.kept.on_server.deallocate(&name);
            requests.run_apart(&text);
        }
    }
}

/// As [`end_strangers`], before a Parse or a Bind. Within a transaction block the batch deallocates them; in another batch that has begun they stay.
pub(crate) fn run_without_strangers(requests: &mut Requests<'_>, reading: Reading, text: &[u8]) {
    end_strangers(requests, reading, text);
    if requests.link.server.transaction.status != Status::InTransaction {
        return;
    }
    let strangers = strangers(requests, reading, text);
    let ended = unless_unsafe(requests.link.server, |on_server| {
        let mut remedy = Remedy::new();
        strangers.iter().for_each(|name| on_server.end(name, &mut remedy));
        remedy
    });
    requests.run_prelude(&ended.unwrap_or_default());
}

/// The statements of other sessions that a text may find by code which runs a computed text.
fn strangers(requests: &mut Requests<'_>, reading: Reading, text: &[u8]) -> Vec<Box<[u8]>> {
    if requests.link.server.kept.on_server.is_empty() || !requests.follows() {
        return Vec::new();
    }
    let runs_unread = reading.runs_unread(text, &requests.link.pool.names.known)
        || reading.executes() && executes_unread(requests, text);
    if !runs_unread {
        return Vec::new();
    }
    let on_server = &requests.link.server.kept.on_server;
    let names = requests.link.session.statements.names.as_deref();
    let statements = requests.link.session.facts.tracker.as_ref().map(|tracker| &tracker.statements);
    statements.unwrap_or(&SqlStatements::default()).strangers(names, on_server)
}

/// Whether a statement that a text runs by EXECUTE calls code which runs a computed text.
fn executes_unread(requests: &mut Requests<'_>, text: &[u8]) -> bool {
    let effects = texts::effects(requests.link.server, requests.link.session, requests.caches, text);
    let executed = texts::executed(requests, &effects);
    let known = &requests.link.pool.names.known;
    executed.iter().flatten().any(|(reading, text)| reading.runs_unread(text, known))
}

/// A protocol message names a statement of SQL's PREPARE: brings it to the server. False: it waits for answers under
/// way.
pub(crate) fn bring(requests: &mut Requests<'_>, name: &[u8]) -> bool {
    if !requests.follows()
        || requests.link.session.facts.tracker.is_none() && !requests.link.server.kept.on_server.has(name)
    {
        return true;
    }
    // If the session has none of this name, another session's is removed.
    let tracker = requests.link.session.facts.tracker.get_or_insert_default();
    let remedy = unless_unsafe(requests.link.server, |on_server| {
        let mut remedy = Remedy::new();
        tracker.statements.bring(name, on_server, &mut remedy);
        remedy
    });
    match &remedy {
        Some(remedy) => requests.run_prelude(remedy),
        None => requests.call_for_answers(),
    }
    remedy.is_some()
}

/// What has to be run before a text that names statements. `None`: it waits for answers under way.
pub(crate) fn remedy(requests: &mut Requests<'_>, reading: Reading, effects: &Effects, text: &[u8]) -> Option<Remedy> {
    if effects.iter().filter_map(Effect::statement).any(|name| name.starts_with(prepared::RESERVED)) {
        return Some(vec![REFUSE_NAME.to_vec()]);
    }
    // Not by the words of what it executes: a name of a table there may be that of a statement whose own table is gone.
    let seen = Seen::by(reading, text, &requests.link.pool.names.known);
    let seen = attempt_unnamed(requests, seen);
    let names = requests.link.session.statements.names.as_deref();
    let is_changing = |name: &[u8]| names.is_some_and(|names| names.is_changing(name));
    if requests.link.server.ledger.owed().awaits_ready()
        && effects.iter().filter_map(Effect::statement).any(is_changing)
    {
        // Which statement has the name depends on whether a batch under way fails.
        requests.call_for_answers();
        return None;
    }
    let tracker = requests.link.session.facts.tracker.get_or_insert_default();
    let known = &requests.link.pool.names.known;
    let remedy =
        unless_unsafe(requests.link.server, |on_server| tracker.remedy(effects, names, on_server, known, &seen));
    let Some(mut remedy) = remedy else {
        requests.call_for_answers();
        return None;
    };
    if !pacing::paces(requests, &mut remedy) {
        return None;
    }
    let mut discards = false;
    let executed =
        effects.iter().filter_map(|effect| if let Effect::Execute(name) = effect { Some(name) } else { None });
    for name in executed.collect::<BTreeSet<_>>() {
        let text =
            requests.link.session.facts.tracker.as_ref().and_then(|tracker| tracker.statements.text(name).cloned());
        // There is no such statement: the server reports it.
        let Some(text) = text else { continue };
        let reading = texts::read_text(requests, Some(&text));
        texts::suspect(requests.link.session, requests.link.pool, reading, &text);
        discards |= texts::sequences(requests, reading, &text);
    }
    if discards {
        remedy.push(DISCARD_SEQUENCES.to_vec());
    }
    requests.link.server.lease.has_attempted = false;
    Some(remedy)
}

/// Brings each statement that a text may see, and does not name, by a Query of its own between two batches: the table of one of them
/// may be gone. Returns the others, which come with the text. Within a batch or a transaction block all do, and fail with it.
///
/// Once for each text: one that waits afterwards is read again. A client that leaves meanwhile costs the server, which owes several answers.
fn attempt_unnamed(requests: &mut Requests<'_>, seen: Seen) -> Seen {
    let has_attempted = requests.link.server.lease.has_attempted;
    if !matches!(seen, Seen::All { .. }) || !has_attempted && !requests.is_between_batches() {
        return seen;
    }
    if !has_attempted {
        requests.link.server.lease.has_attempted = true;
        let tracker = requests.link.session.facts.tracker.get_or_insert_default();
        let mut attempts = Remedy::new();
        let on_server = &mut requests.link.server.kept.on_server;
        tracker.statements.bring_all(|name| seen.has_unnamed(name), on_server, &mut attempts);
        attempts.iter().for_each(|text| requests.attempt(text));
    }
    seen.named()
}

pub(crate) fn note(
    server: &mut Server,
    session: &mut Session,
    caches: &mut Caches,
    expect: Expect,
    mut effects: Effects,
    text: &[u8],
) {
    if server.ledger.sent_noted(expect) {
        texts::add_executed(server, session, caches, &mut effects);
        session.facts.tracker.get_or_insert_default().sent(effects, text);
    }
}

/// What `bring` finds that a server needs first. `None`: it needs something, but the server may fail to run it because
/// of what is under way; nothing is noted then.
fn unless_unsafe(server: &mut Server, bring: impl FnOnce(&mut OnServer) -> Remedy) -> Option<Remedy> {
    let is_failed = server.transaction.status == Status::Failed;
    if is_failed && server.ledger.depth() == 0 {
        // The server refuses the text in any case.
        return Some(Remedy::new());
    }
    if !is_failed && !server.ledger.owed().awaits_own_ready() {
        return Some(bring(&mut server.kept.on_server));
    }
    let before = server.kept.on_server.clone();
    let remedy = bring(&mut server.kept.on_server);
    if !remedy.is_empty() {
        server.kept.on_server = before;
        return None;
    }
    Some(remedy)
}
