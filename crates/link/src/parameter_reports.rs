//! The server sends ParameterStatus: finds the reason for it, and gives the value to the session, the client and the pool.
//!
//! ```text
//!   The server is answering                      Reason, and what follows
//!   the pooler's SET, or connect_query           the query itself: nothing
//!   nothing, or a query that sets nothing        PostgreSQL's configuration has changed: the pool gets the value, and the session unless it
//!                                                has set its own
//!   a statement that sets the parameter          the session: the parameter is its own if its text or a check shows it
//!   a statement that sets none, as far as the    unknown: the session gets the value, unless it has set its own, and the server is checked
//!   pooler knows
//!     and the check lists the parameter as set   code has set it: the parameter is the session's own
//!     and the check does not list it             PostgreSQL's configuration has changed, or code has reset the parameter
//! ```
//!
//! In pools that do not follow sessions, each report within a session's answers is taken to be the session's.
//!
//! //= pg18 protocol-flow#PROTOCOL-ASYNC

use std::sync::Arc;

use connections::databases::TargetSessionAttrs;
use session_state::own_changes::OwnChanges;
use session_state::parameter_set::ParameterSet;
use session_state::parameters::Tracked;
use wire::backend::{ParameterStatus, Status};

use crate::answers::Answers;
use crate::confirming::{report, take_over};
use crate::pool::Pool;
use crate::server::{Answerer, Before, Chore, Owner, Server, ServerState};
use crate::session::Session;

/// Why a server reports a parameter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Cause {
    /// A query of the pooler has set the parameter, or a query of a client that is gone.
    Query,
    /// PostgreSQL's configuration has changed.
    Configuration,
    /// The session's statements, or PostgreSQL's configuration beside them.
    Session,
}

/// Notes a ParameterStatus for the server and its session. Returns whether the client gets it.
pub(crate) fn parameter(answers: &mut Answers<'_>, status: &ParameterStatus<'_>, clients: bool) -> bool {
    if let Some(begins) = &mut answers.server.kept.begins {
        begins.note(status.name, status.value);
    }
    if status.name == IN_HOT_STANDBY && status.value == b"off" {
        answers.findings.words().promoted = true;
    }
    let Some(index) = answers.caches.tracked.index(status.name) else {
        if status.name == IN_HOT_STANDBY {
            learn_promotion(answers, status);
        }
        if let Some(report) = &answers.pool.welcome.report {
            answers.server.reports(status.name, status.value, &report.reported);
        }
        return clients;
    };
    // PostgreSQL has another name than the client's: the client is to see its own.
    let shown = answers.server.kept.shown_name.as_mut().filter(|_| index == Tracked::APPLICATION_NAME);
    let own = shown.and_then(|name| name.is_reported(status.value).then(|| name.own.clone()));
    let value = own.as_deref().unwrap_or(status.value);
    // The value is too long to be kept.
    let Some(changed) = answers.server.kept.parameters.with(index, value) else { return clients };
    answers.server.kept.parameters = answers.caches.interned.intern(changed);
    let is_told = match cause(answers, index, value) {
        Cause::Query => clients,
        Cause::Configuration => {
            learn_configured(answers, index, value);
            follow_configured(answers, index, value)
        }
        Cause::Session => clients && follow_session(answers, index, value),
    };
    let Some(own) = own.filter(|_| is_told) else { return is_told };
    let mut message = Vec::new();
    ParameterStatus { name: status.name, value: &own }.encode(&mut message);
    answers.send_apart(&message, true);
    false
}

/// No session can set it: it changes when PostgreSQL is promoted.
const IN_HOT_STANDBY: &[u8] = b"in_hot_standby";

/// The pool sends this value to clients that log in from now on. Clients that have logged in get it from their servers.
#[cold]
fn learn_promotion(answers: &mut Answers<'_>, status: &ParameterStatus<'_>) {
    let (server, pool) = (&*answers.server, &mut *answers.pool);
    if matches!(pool.database.target_session_attrs, TargetSessionAttrs::Standby | TargetSessionAttrs::ReadOnly) {
        // The server is closed for that.
        return;
    }
    let report = pool.welcome.report.as_ref().filter(|_| speaks_for_pool(server, pool));
    let changed = report.and_then(|report| report.with_untracked(status.name, status.value, &answers.caches.tracked));
    if let Some(report) = changed {
        pool.welcome.take(report, true);
    }
}

fn cause(answers: &Answers<'_>, index: usize, value: &[u8]) -> Cause {
    let kept = &answers.server.kept;
    let Some(owner) = answers.server.ledger.owner() else {
        return if is_news(answers.server, index, value) { Cause::Configuration } else { Cause::Session };
    };
    let is_of_nobody = match owner {
        Answerer::Client => return Cause::Session,
        Answerer::Nobody => false,
        Answerer::Check | Answerer::Prepare | Answerer::Begin | Answerer::Prelude | Answerer::Attempt => true,
        Answerer::Replay | Answerer::Restore => !kept.owners.sent().set.contains(index),
        Answerer::Chore => match answers.server.state() {
            ServerState::Busy(Chore::Check | Chore::Reset) => !answers.server.facts.traces.query_sets,
            ServerState::Busy(chore) => !chore.may_set(),
            // LISTEN and UNLISTEN.
            _ => true,
        },
    };
    match is_of_nobody && is_news(answers.server, index, value) {
        true => Cause::Configuration,
        false => Cause::Query,
    }
}

/// Whether RESET would not have given the server this value, as far as is known.
fn is_news(server: &Server, index: usize, value: &[u8]) -> bool {
    let before = server.kept.at_reset.get(index).filter(|_| index != Tracked::APPLICATION_NAME);
    before.is_some_and(|before| before != value)
}

/// RESET gives the server this value from now on. If it is not what the pool knows, all its servers will report it, and sessions that have set
/// nothing else are to have it.
#[cold]
fn learn_configured(answers: &mut Answers<'_>, index: usize, value: &[u8]) {
    let (server, pool) = (&mut *answers.server, &mut *answers.pool);
    // Its length was checked when the server's own was changed.
    let Some(at_reset) = server.kept.at_reset.with(index, value) else { return };
    server.kept.at_reset = answers.caches.interned.intern(at_reset);
    if server.kept.owners.of_base().contains(index) || server.kept.begins.is_some() {
        return;
    }
    // No server has logged in yet, or the pool has forgotten its report since its database is to be dropped.
    let Some(report) = &pool.welcome.report else { return };
    if report.parameters.get(index) == Some(value) {
        return;
    }
    if !speaks_for_pool(server, pool) {
        // Its session has the value while it is on this server, and the pool's value on the next one.
        if let Some((_, session)) = &mut answers.session {
            session.own.edition = None;
        }
        return;
    }
    let (parameters, at_login) = (report.parameters.with(index, value), report.at_login.with(index, value));
    let Some((parameters, at_login)) = parameters.zip(at_login) else { return };
    let [parameters, at_login] = [parameters, at_login].map(|values| answers.caches.interned.intern(values));
    let report = report.with(parameters, at_login, &answers.caches.tracked);
    pool.welcome.take(report, true);
    pool.welcome.configured.insert(index);
}

/// The parameters that RESET gives this server the value of PostgreSQL's changed configuration, whether it has reported it or not.
#[must_use]
pub fn configured(server: &Server, pool: &Pool) -> ParameterSet {
    if speaks_for_pool(server, pool) { pool.welcome.configured } else { ParameterSet::NONE }
}

/// Whether what a server reports holds for its pool: not if it is to be closed or replaced.
pub(crate) fn speaks_for_pool(server: &Server, pool: &Pool) -> bool {
    !pool.is_older((server.identity.reconnects, &server.identity.opened_for)) && server.facts.end.close_needed.is_none()
}

/// PostgreSQL's configuration has changed on a session's server. The session has the new value at once, unless it has set its own: then the
/// server gets that again. Returns whether the client gets the report.
fn follow_configured(answers: &mut Answers<'_>, index: usize, value: &[u8]) -> bool {
    let follows = answers.pool.rules.follows();
    let Some((_, session)) = &mut answers.session else { return false };
    if follows && session.own.now.contains(index) {
        session.facts.tracker.get_or_insert_default().restarting.be_done();
        return false;
    }
    // The value is too long to be kept.
    let Some(parameters) = session.parameters.with(index, value) else { return false };
    session.parameters = answers.caches.interned.intern(parameters);
    if let Some(before) = &mut answers.server.facts.effects.before
        && let Some(parameters) = before.parameters.with(index, value)
    {
        before.parameters = answers.caches.interned.intern(parameters);
    }
    true
}

/// The parameters that the session of a server has again if the transaction is rolled back; `None`: those that it has.
#[must_use]
pub fn before(server: &Server) -> Option<Before> {
    server.facts.effects.before.as_deref().cloned()
}

/// The transaction is lost with its server: the session has its parameters of before again. Returns what its client is sent of them.
pub fn roll_back(session: &mut Session, before: &Before, tracked: &Tracked) -> Vec<u8> {
    let mut statuses = Vec::new();
    for (index, name) in tracked.names().enumerate() {
        let value = before.parameters.get(index).filter(|value| session.parameters.get(index) != Some(value));
        if let Some(value) = value {
            ParameterStatus { name: name.as_bytes(), value }.encode(&mut statuses);
        }
    }
    session.parameters = Arc::clone(&before.parameters);
    session.own.now = before.own;
    statuses
}

/// A parameter was reported with an answer to a session. Returns whether the client gets it.
fn follow_session(answers: &mut Answers<'_>, index: usize, value: &[u8]) -> bool {
    let follows = answers.pool.rules.follows();
    let Some((_, session)) = &mut answers.session else { return false };
    let may_have_set = session.facts.tracker.as_ref().is_some_and(|tracker| tracker.may_have_set());
    if !follows {
        answers.server.facts.note_before(&session.parameters, session.own.now);
        own_by_value(session, answers.server, index, value);
    } else if may_have_set || index != Tracked::APPLICATION_NAME {
        let tracker = session.facts.tracker.get_or_insert_default();
        if tracker.restarting.is_reset(index) && session.reset_to.is_some() {
            // The server has gone back to its own value, not to the client's: `restart` sends the right one.
            return false;
        }
        tracker.restarting.note_reported(index);
        // SET LOCAL is not noted, and the server has the value until the transaction ends.
        let is_alone = answers.server.transaction.status == Status::Idle;
        if is_alone && !may_have_set && session.own.now.contains(index) {
            // The client gets it if a check shows that code has set it.
            return false;
        }
    }
    answers.server.facts.note_before(&session.parameters, session.own.now);
    if session.parameters.get(index) != Some(value)
        && let Some(changed) = session.parameters.with(index, value)
    {
        session.parameters = answers.caches.interned.intern(changed);
    }
    true
}

/// In a pool that does not read texts, a parameter is the session's own while it has another value than RESET gives.
fn own_by_value(session: &mut Session, server: &mut Server, index: usize, value: &[u8]) {
    let one = ParameterSet::one(index);
    let changes = match server.kept.at_reset.get(index) == Some(value) {
        true => OwnChanges::of_reset(one),
        false => OwnChanges::of_set(one),
    };
    session.own.change(changes);
    server.kept.owners.change(changes);
}

/// The session's statements are over as far as their changes of parameters are committed.
pub(crate) fn settle_own(answers: &mut Answers<'_>) {
    let Some((_, session)) = &mut answers.session else { return };
    let Some(tracker) = &mut session.facts.tracker else { return };
    let changes = tracker.journal.take_own();
    if !changes.is_none() {
        session.own.change(changes);
        answers.server.kept.owners.change(changes);
    }
}

/// Whether a parameter that was reported since the server was asked last has a value for which the session's texts are no reason.
pub(crate) fn is_doubtful(session: &Session, server: &Server) -> bool {
    let reported = session.facts.tracker.as_ref().map_or(ParameterSet::NONE, |tracker| tracker.restarting.reported());
    if reported.is_empty() {
        return false;
    }
    let kept = &server.kept;
    let withheld = session.own.now & session.parameters.difference(&kept.parameters);
    let unexplained = kept.parameters.difference(&kept.at_reset).without(session.own.now | kept.owners.of_base());
    !(reported & (withheld | unexplained)).is_empty()
}

/// A check has shown which of the reported parameters are set.
pub(crate) fn checked(answers: &mut Answers<'_>, checked: OwnChanges) {
    // The client has disconnected meanwhile.
    let Some((conn, session)) = &mut answers.session else { return };
    let kept = &mut answers.server.kept;
    let changed = kept.parameters.difference(&kept.at_reset);
    // The check also lists parameters that the pooler has set for all sessions.
    let begun_with = answers.pool.welcome.report.as_ref().map(|report| report.parameters.difference(&kept.parameters));
    let poolers = kept.owners.of_pooler().without(begun_with.unwrap_or_default());
    let set = OwnChanges::of_set(checked.set & (changed.without(poolers) | session.own.now));
    session.own.change(set);
    kept.owners.change(set);
    let (conn, parameters) = (*conn, Arc::clone(&kept.parameters));
    // Code has reset these, and connect_query had set them. Their values on the server are no news of PostgreSQL's configuration.
    let base = checked.reset & kept.owners.of_base() & kept.owners.of_pooler();
    begin_again(answers, checked.reset, base);
    answers.server.kept.owners.change(OwnChanges::of_reset(checked.reset));
    let Some((_, session)) = &mut answers.session else { return };
    let news = checked.reset.without(base);
    let taken = set.set | news.without(session.own.now);
    let statuses = take_over(session, answers.caches, |index| parameters.get(index).filter(|_| taken.contains(index)));
    report(answers, conn, &statuses);
    for index in news.iter() {
        let value = parameters.get(index).filter(|value| is_news(answers.server, index, value));
        if let Some(value) = value {
            learn_configured(answers, index, value);
            // The client has it already.
            follow_configured(answers, index, value);
        }
    }
}

/// A check has not listed these parameters. If they were set on the server, code has reset them: the session has the values of its startup packet
/// again, and its client gets them. Without one, those that connect_query had set (`base`) are as sessions begin. Its other parameters follow the server.
fn begin_again(answers: &mut Answers<'_>, unset: ParameterSet, base: ParameterSet) {
    // The client is gone.
    let Some((conn, session)) = &mut answers.session else { return };
    let conn = *conn;
    let (begun_with, by_itself) = (answers.pool.welcome.report.clone(), base.without(session.own.at_login));
    let statuses = take_over(session, answers.caches, |index| {
        begun_with.as_ref()?.parameters.get(index).filter(|_| by_itself.contains(index))
    });
    report(answers, conn, &statuses);
    let Some((_, session)) = &mut answers.session else { return };
    let owners = &answers.server.kept.owners;
    // A parameter that was never set on the server has another value by a rollback, or by PostgreSQL's configuration.
    let reset: ParameterSet =
        unset.iter().filter(|index| owners.of(*index) == Owner::Session || base.contains(*index)).collect();
    let Some(first) = session.reset_to.clone() else { return session.own.change(OwnChanges::of_reset(reset)) };
    if reset.is_empty() {
        return;
    }
    session.own.change(OwnChanges::of_reset(reset));
    if let Some(tracker) = &mut session.facts.tracker {
        tracker.restarting.be_done();
    }
    let reset = reset & session.own.at_login;
    let statuses = take_over(session, answers.caches, |index| first.get(index).filter(|_| reset.contains(index)));
    report(answers, conn, &statuses);
}

/// The server has accepted what the pooler has set and reset for its session. After RESET it has the value of PostgreSQL's configuration, also where
/// it reports none since it had that before. The session has the same.
pub(crate) fn replayed(answers: &mut Answers<'_>) {
    answers.server.kept.owners.accepted();
    let parameters = Arc::clone(&answers.server.kept.parameters);
    for index in answers.server.kept.owners.sent().reset.iter() {
        // The value was too long to be kept.
        let Some(value) = parameters.get(index) else { continue };
        if is_news(answers.server, index, value) {
            learn_configured(answers, index, value);
        }
        let Some((conn, session)) = &mut answers.session else { continue };
        let conn = *conn;
        let statuses = take_over(session, answers.caches, |other| (other == index).then_some(value));
        report(answers, conn, &statuses);
    }
}
