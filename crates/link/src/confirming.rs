//! Effects were noted when messages were sent. Answers confirm them here, and errors take them back.

use std::sync::Arc;

use session_state::own_changes::OwnChanges;
use session_state::parameter_set::ParameterSet;
use session_state::shape::Described;
use session_state::state::{Defines, Effects, Pins, Reading};
use session_state::tracker::{Marked, Places};
use session_state::unnamed;
use units::ConnId;
use wire::backend::{ParameterStatus, Status};

use crate::answers::Answers;
use crate::caches::Caches;
use crate::server::{Answerer, Entry, Expect};
use crate::session::Session;
use crate::verdict::Verdict;
use crate::{announcing, fakes, matching};

/// Notes a CommandComplete: a confirmed effect, or a command that removes prepared statements.
pub(crate) fn command(answers: &mut Answers<'_>, body: &[u8]) {
    if matches!(answers.server.ledger.owner(), Some(Answerer::Prelude | Answerer::Attempt)) {
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
    if is_lost {
        answers.server.facts.traces.needs_reset = true;
    }
    let forgets = matches!(body, b"DISCARD ALL\0" | b"DEALLOCATE ALL\0");
    if !forgets {
        return;
    }
    answers.server.kept.on_server.clear();
    if body == b"DISCARD ALL\0" {
        answers.server.kept.owners.change(OwnChanges::of_reset(ParameterSet::ALL));
        answers.server.kept.sequences.discarded();
        // If the client has a tracker, that notes the same. If it has gone, more may follow.
        answers.server.kept.session_state = None;
        answers.server.kept.rights = None;
        if owner != Some(Answerer::Nobody) {
            answers.server.facts.traces.needs_reset = is_lost;
        }
        answers.server.facts.traces.listens = false;
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
    let Some(tracker) = &mut session.facts.tracker else { return };
    let facts = &mut *answers.server.facts;
    let places = Places {
        now: answers.now,
        on_server: &mut answers.server.kept.on_server,
        listens: &mut facts.traces.listens,
        names: session.statements.names.as_deref_mut().filter(|_| named),
        tracked: &answers.caches.tracked,
        reported: &answers.server.kept.parameters,
        first: answers.pool.welcome.report.as_ref().map(|report| &report.at_login),
        base: &answers.server.kept.base,
        local_rights: facts.effects.local_rights,
    };
    tracker.confirmed(tag, places);
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
    answers.server.lease.verdict = Verdict::None;
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
        session.facts.tracker.get_or_insert_default().portals.parse_unnamed(Some(Arc::new(unread)));
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
    let (Some(first), Some(tracker)) = (&session.reset_to, &session.facts.tracker) else { return };
    let restarting = tracker.restarting;
    if !restarting.is_any() {
        return;
    }
    let (conn, first) = (*conn, Arc::clone(first));
    if answers.server.transaction.status != Status::Idle {
        answers.server.facts.note_before(&session.parameters, session.own.now);
    }
    let reported = &answers.server.kept.parameters;
    let statuses = take_over(session, answers.caches, |index| match () {
        () if restarting.is_reset(index) => first.get(index),
        () if restarting.is_set(index) => reported.get(index),
        () => None,
    });
    report(answers, conn, &statuses);
}

/// Gives the session the values that `value_of` has for its parameters' numbers. The messages that report those that
/// have changed.
pub(crate) fn take_over<'a>(
    session: &mut Session,
    caches: &mut Caches,
    value_of: impl Fn(usize) -> Option<&'a [u8]>,
) -> Vec<u8> {
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
pub(crate) fn report(answers: &mut Answers<'_>, conn: ConnId, statuses: &[u8]) {
    if !statuses.is_empty() {
        answers.flush();
        answers.actions.send_new(conn, |out| out.extend_from_slice(statuses));
    }
}

/// A transaction is over. If it has changed definitions that others see, the same text prepared from now on is another
/// statement. Temporary tables do not count: they are often dropped, and no other session sees them.
pub(crate) fn renew_statements(answers: &mut Answers<'_>) {
    if answers.server.facts.effects.defines == Defines::Nothing {
        return;
    }
    let renews = match std::mem::take(&mut answers.server.facts.effects.defines) {
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
