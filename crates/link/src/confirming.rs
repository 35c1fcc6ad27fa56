//! Effects were noted when messages were sent. Answers confirm them here, and errors take them back.

use std::sync::Arc;

use connections::Verdict;
use connections::server::{Answerer, Chore, Entry, Expect, State};
use session_state::parameter_set::ParameterSet;
use session_state::parameters::Tracked;
use session_state::shape::Described;
use session_state::state::{Defines, Effects, Pins, Reading};
use session_state::tracker::{Marked, Places};
use session_state::unnamed;
use units::ConnId;
use wire::backend::{ParameterStatus, Status};

use crate::answers::Answers;
use crate::caches::Caches;
use crate::session::Session;
use crate::{announcing, fakes, matching, replaying};

/// Notes a CommandComplete: a confirmed effect, or a command that removes prepared statements.
pub(crate) fn command(answers: &mut Answers<'_>, body: &[u8]) {
    if answers.server.ledger.owner() == Some(Answerer::Prelude) {
        return answers.server.kept.on_server.done();
    }
    if answers.server.transaction.status == Status::Failed && body == b"ROLLBACK\0" {
        // It went back to a savepoint, or ended the transaction; the next ReadyForQuery shows which.
        answers.server.transaction.status = Status::InTransaction;
    }
    announcing::note_tag(answers, body);
    if answers.server.ledger.is_noted() {
        confirmed(answers, body, true);
    }
    // Where nobody follows the session, the tag alone tells that the server has lost what it began with.
    let is_followed = answers.session.is_some() && answers.pool.rules.follows();
    let owner = answers.server.ledger.owner();
    let is_lost = matches!(body, b"DISCARD ALL\0" | b"RESET\0")
        && matches!(owner, Some(Answerer::Client | Answerer::Nobody))
        && !is_followed
        && !answers.server.kept.base.is_login();
    answers.server.traces.needs_reset |= is_lost;
    let forgets = matches!(body, b"DISCARD ALL\0" | b"DEALLOCATE ALL\0");
    if !forgets {
        return;
    }
    answers.server.kept.on_server.clear();
    if body == b"DISCARD ALL\0" {
        answers.server.kept.sequences.discarded();
        // If the client has a tracker, that notes the same. If it has gone, more may follow.
        answers.server.kept.session_state = None;
        if owner != Some(Answerer::Nobody) {
            answers.server.traces.needs_reset = is_lost;
        }
        answers.server.traces.listens = false;
    }
    // Statements sent after the command in the same pipeline stay.
    let ledger = &answers.server.ledger;
    answers.server.statements.prepared.keep_only(|id| ledger.owed().is_preparing(id));
    if let Some((_, session)) = &mut answers.session
        && ledger.owner() == Some(Answerer::Client)
        && let Some(names) = &mut session.statements.names
    {
        names.discard();
    }
}

/// CloseComplete for a statement that was prepared by SQL.
pub(crate) fn closed_prepared(answers: &mut Answers<'_>) {
    confirmed(answers, b"", false);
}

/// A statement whose effects were noted has run; `named`: it may concern names of the protocol.
fn confirmed(answers: &mut Answers<'_>, tag: &[u8], named: bool) {
    // The client is gone, or its session state is not followed.
    let Some((_, session)) = &mut answers.session else { return };
    let Some(tracker) = &mut session.tracker else { return };
    let places = Places {
        on_server: &mut answers.server.kept.on_server,
        listens: &mut answers.server.traces.listens,
        names: session.statements.names.as_deref_mut().filter(|_| named),
        tracked: &answers.caches.tracked,
        reported: &answers.server.kept.parameters,
        first: answers.pool.welcome.report.as_ref().map(|report| &report.at_login),
        base: &answers.server.kept.base,
        local_rights: answers.server.transaction.local_rights,
    };
    tracker.confirmed(tag, places);
    session.own.change(tracker.restarting.take_own());
}

/// Notes a ParameterStatus for the server and its session. Returns whether the client gets it.
pub(crate) fn parameter(answers: &mut Answers<'_>, status: &ParameterStatus<'_>, clients: bool) -> bool {
    if let Some(begins) = &mut answers.server.kept.begins {
        begins.note(status.name, status.value);
    }
    let Some(index) = answers.caches.tracked.index(status.name) else {
        if let Some(report) = &answers.pool.welcome.report {
            answers.server.reports(status.name, status.value, &report.reported);
        }
        return clients;
    };
    // PostgreSQL has the name that it was told: the client is to see its own.
    let shown = answers.server.kept.shown_name.as_mut().filter(|_| index == Tracked::APPLICATION_NAME);
    let own = shown.and_then(|name| name.is_reported(status.value).then(|| name.own.clone()));
    let value = own.as_deref().unwrap_or(status.value);
    // It is too long to be kept.
    let Some(changed) = answers.server.kept.parameters.with(index, value) else { return clients };
    let before = Arc::clone(&answers.server.kept.parameters);
    if is_configured(answers, index, value) {
        learn_configured(answers, index, value);
        if answers.server.ledger.owner() == Some(Answerer::Replay) {
            answers.server.kept.parameters = answers.caches.interned.intern(changed);
            return is_told(answers, index, value);
        }
    }
    answers.server.kept.parameters = answers.caches.interned.intern(changed);
    // It came with the pooler's own query: no client has set it.
    let Some((_, session)) = answers.session.as_mut().filter(|_| clients) else { return clients };
    let is_restarting = session.tracker.as_ref().is_some_and(|tracker| tracker.restarting.is_reset(index));
    if is_restarting && session.reset_to.is_some() {
        // The server has gone back to its own value, not to the client's: `restart` sends the right one.
        return false;
    }
    let may_have_set = session.tracker.as_ref().map_or(!answers.pool.rules.follows(), |tracker| tracker.may_have_set());
    if may_have_set && !is_restarting {
        session.own.set(index);
        if let Some(tracker) = &mut session.tracker {
            tracker.restarting.note_reported(index);
        }
    }
    if Arc::ptr_eq(&session.parameters, &before) {
        session.parameters = Arc::clone(&answers.server.kept.parameters);
    } else if let Some(changed) = session.parameters.with(index, value) {
        session.parameters = answers.caches.interned.intern(changed);
    }
    let Some(own) = own else { return true };
    let mut message = Vec::new();
    ParameterStatus { name: status.name, value: &own }.encode(&mut message);
    answers.send_apart(&message, true);
    false
}

/// RESET gives the server this value from now on. If it is not what the pool knows, all its servers will report it, and sessions that have set
/// nothing else are to have it.
#[cold]
fn learn_configured(answers: &mut Answers<'_>, index: usize, value: &[u8]) {
    if let Some(at_reset) = answers.server.kept.at_reset.with(index, value) {
        answers.server.kept.at_reset = answers.caches.interned.intern(at_reset);
    }
    // The pool knows it already.
    let Some(report) =
        answers.pool.welcome.report.as_ref().filter(|report| report.parameters.get(index) != Some(value))
    else {
        return;
    };
    // It is too long to be kept.
    let Some(parameters) = report.parameters.with(index, value) else { return };
    let report = report.with(answers.caches.interned.intern(parameters), &answers.caches.tracked);
    answers.pool.welcome.take(report, true);
}

/// The session of a server that was reset has the new value at once. Returns whether its client is told: it is.
fn is_told(answers: &mut Answers<'_>, index: usize, value: &[u8]) -> bool {
    let Some((_, session)) = &mut answers.session else { return false };
    // It is too long to be kept.
    let Some(parameters) = session.parameters.with(index, value) else { return false };
    session.parameters = answers.caches.interned.intern(parameters);
    true
}

/// Whether a server reports another value of a parameter than it had by itself, and nobody has set it there: PostgreSQL's configuration has
/// changed.
fn is_configured(answers: &Answers<'_>, index: usize, value: &[u8]) -> bool {
    let (kept, owner) = (&answers.server.kept, answers.server.ledger.owner());
    let own = kept.at_reset.get(index).filter(|_| index != Tracked::APPLICATION_NAME);
    // A replay resets what another session has set.
    let is_as_begun = own == kept.parameters.get(index) || owner == Some(Answerer::Replay);
    if own.is_none() || !is_as_begun || own == Some(value) || kept.begins.is_some() {
        return false;
    }
    match owner {
        None | Some(Answerer::Check) => true,
        Some(Answerer::Client) => answers.session.as_ref().is_some_and(|(_, session)| {
            let may_have_set = session.tracker.as_ref().is_some_and(|tracker| tracker.may_have_set());
            // A rollback brings back what was set before.
            let is_alone = answers.server.transaction.status == Status::Idle;
            answers.pool.rules.follows() && is_alone && !may_have_set
        }),
        Some(Answerer::Replay) => answers
            .session
            .as_ref()
            .is_some_and(|(_, session)| replaying::resets(session, answers.server).contains(index)),
        Some(Answerer::Chore) => matches!(answers.server.state(), State::Busy(Chore::WaitEvents | Chore::Unlisten)),
        _ => false,
    }
}

/// Whether the client keeps this server until one of them ends.
pub(crate) fn is_for_life(answers: &mut Answers<'_>) -> bool {
    answers.tracker().is_some_and(|tracker| tracker.pinning.pins().any(Pins::BACKEND_PID))
}

/// Whether the client keeps this server between its transactions, for what is on it.
pub(crate) fn keeps_state(answers: &mut Answers<'_>) -> bool {
    !is_for_life(answers) && answers.tracker().is_some_and(|tracker| tracker.pinning.is_pinned())
}

/// Notes a failure for the session's state: the rest of the statement being answered has no effect. `tries_again`: it
/// is sent again, and the client gets no error.
pub(crate) fn failed_followed(answers: &mut Answers<'_>, tries_again: bool) {
    let (owner, noted) = (answers.server.ledger.owner(), answers.server.ledger.is_noted());
    if !matches!(owner, Some(Answerer::Client | Answerer::Prepare | Answerer::Prelude)) {
        return;
    }
    let Some(tracker) = answers.tracker() else { return };
    if !tries_again {
        tracker.failed();
    }
    if noted {
        tracker.under_way.void_front();
    }
}

/// The server skips these messages: what was noted for them is taken back, newest first.
pub(crate) fn undo(answers: &mut Answers<'_>, skipped: &[Entry]) {
    let (mut of_names, mut of_unnamed) = (0, 0);
    answers.server.statements.described = Described::default();
    answers.server.statements.verdict = Verdict::None;
    for entry in skipped.iter().rev() {
        match entry.expect {
            Expect::Close(Some(id)) => answers.server.statements.prepared.add(id),
            Expect::Parse(Some(id)) => answers.server.statements.prepared.remove(id),
            Expect::Shape(_) => matching::learn(answers, None),
            Expect::Execute if entry.owner == Answerer::Prelude => answers.server.kept.on_server.take_back(),
            _ => {}
        }
        let renames = matches!(
            (entry.owner, entry.expect),
            (Answerer::Client, Expect::Parse(Some(_)) | Expect::FakeParse | Expect::FakeClose)
        );
        of_names += usize::from(renames);
        if entry.noted
            && let Some(tracker) = answers.tracker()
        {
            tracker.under_way.finished();
        }
        of_unnamed += usize::from((entry.owner, entry.expect) == (Answerer::Client, Expect::Unnamed));
        if entry.owner == Answerer::Prepare && matches!(entry.expect, Expect::Parse(None) | Expect::Close(None)) {
            // It concerned the server's unnamed statement, on the client's behalf.
            answers.server.statements.unnamed = unnamed::UNKNOWN;
        }
    }
    let doubtful = answers.server.ledger.is_doubtful();
    if let Some(unnamed) = answers.unnamed() {
        match doubtful {
            true => unnamed.skipped_all(),
            false => (0..of_unnamed).for_each(|_| unnamed.skipped()),
        }
    }
    if of_unnamed > 0
        && answers.pool.rules.follows()
        && let Some((_, session)) = &mut answers.session
        && !session.statements.unnamed.as_ref().is_some_and(|unnamed| unnamed.is_changing())
    {
        // An earlier unnamed statement is in force again, and its effects were not kept.
        let unread = Marked { text: Arc::default(), reading: Reading::UNKNOWN, effects: Effects::default() };
        session.tracker.get_or_insert_default().portals.parse_unnamed(Some(Arc::new(unread)));
    }
    // The client is gone, or has named no statement.
    let Some(names) = answers.session.as_mut().and_then(|(_, session)| session.statements.names.as_mut()) else {
        return;
    };
    if answers.server.ledger.is_doubtful() {
        names.undo_all();
    } else {
        names.undo(of_names);
    }
}

/// Parameters that the client has reset have the values again that it began with. Its server may have other ones; the
/// next server gets the right ones. Parameters that the client has set after the reset have the values that the server
/// reports.
pub(crate) fn restart(answers: &mut Answers<'_>) {
    // The client is gone, or it began with no values of its own.
    let Some((conn, session)) = &mut answers.session else { return };
    let (Some(first), Some(tracker)) = (&session.reset_to, &session.tracker) else { return };
    let restarting = tracker.restarting;
    if !restarting.is_any() {
        return;
    }
    let (conn, first) = (*conn, Arc::clone(first));
    let reported = &answers.server.kept.parameters;
    let statuses = take_over(session, answers.caches, |index| match () {
        () if restarting.is_reset(index) => first.get(index),
        () if restarting.is_set(index) => reported.get(index),
        () => None,
    });
    report(answers, conn, &statuses);
}

/// Code has reset these parameters: of those that the session began with, it has the values again, and its client is told.
pub(crate) fn begin_again(answers: &mut Answers<'_>, reset: ParameterSet) {
    // The client is gone, or it began with no values of its own.
    let Some((conn, session)) = &mut answers.session else { return };
    let reset = reset & session.own.at_login;
    let Some(first) = session.reset_to.clone().filter(|_| !reset.is_empty()) else { return };
    session.own.change((reset, ParameterSet::NONE));
    if let Some(tracker) = &mut session.tracker {
        tracker.restarting.be_done();
    }
    let conn = *conn;
    let statuses = take_over(session, answers.caches, |index| first.get(index).filter(|_| reset.contains(index)));
    report(answers, conn, &statuses);
}

/// Gives the session the values that `value_of` has for its parameters' numbers. The messages that report those that
/// have changed.
fn take_over<'a>(session: &mut Session, caches: &mut Caches, value_of: impl Fn(usize) -> Option<&'a [u8]>) -> Vec<u8> {
    let mut statuses = Vec::new();
    for (index, name) in caches.tracked.names().enumerate() {
        let value = value_of(index).filter(|value| session.parameters.get(index) != Some(value));
        let Some(value) = value else { continue };
        // A value that is too long to be kept is left as it is.
        let Some(changed) = session.parameters.with(index, value) else { continue };
        session.parameters = caches.interned.intern(changed);
        ParameterStatus { name: name.as_bytes(), value }.encode(&mut statuses);
    }
    statuses
}

/// Sends the client these messages behind what it has got so far.
fn report(answers: &mut Answers<'_>, conn: ConnId, statuses: &[u8]) {
    if !statuses.is_empty() {
        answers.flush();
        answers.actions.send_new(conn, |out| out.extend_from_slice(statuses));
    }
}

/// A transaction is over. If it has changed definitions that others see, the same text prepared from now on is another
/// statement. Temporary tables do not count: they are often dropped, and no other session sees them.
pub(crate) fn renew_statements(answers: &mut Answers<'_>) {
    let renews = match std::mem::take(&mut answers.server.transaction.defines) {
        Defines::Nothing => false,
        Defines::Unclear => !is_temporary(answers),
        Defines::ForAll => true,
    };
    answers.pool.names.generation += u64::from(renews);
}

/// Whether the session has temporary objects for certain; a mere suspicion does not count.
fn is_temporary(answers: &mut Answers<'_>) -> bool {
    answers.tracker().is_some_and(|tracker| tracker.has_temporary())
}

/// PortalSuspended: an Execute has got as many rows as it asked for. Its statement has run, though not to its end.
pub(crate) fn suspended(answers: &mut Answers<'_>) {
    if answers.server.ledger.is_noted() {
        confirmed(answers, b"", true);
    }
}

pub(crate) fn answer_fakes(answers: &mut Answers<'_>) {
    while let Some(fake) = answers.server.ledger.next_fake() {
        answers.flush();
        if let Some((conn, session)) = &mut answers.session {
            fakes::answer_fake(*conn, session, fake.expect, answers.actions);
        }
    }
}
