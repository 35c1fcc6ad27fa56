//! Gives a server its session's parameters and settings.

use std::sync::Arc;

use machine::Step;
use session_state::own_changes::OwnChanges;
use session_state::parameter_set::ParameterSet;
use session_state::parameters::{Parameters, Replayed, Reported, Tracked};
use session_state::spelling::{Learnt, ReportedParameters};
use session_state::state::{Difference, Risk, State, needs_rights};
use units::ConnId;
use wire::backend::{ParameterStatus, Status};
use wire::frontend::Query;

use crate::pool::Pool;
use crate::server::{Answerer, Expect, RightsSince, Server};
use crate::server_names::Renaming;
use crate::session::Session;

/// Sends the SETs that give a server its session's parameters and settings. If a failure would matter, the session's
/// messages wait for the answer. `configured`: parameters that RESET gives the server the right value of ([`crate::parameter_reports::configured`]).
/// `renaming`: PostgreSQL is sent another application_name. False: there was nothing to send.
pub fn replay(
    step: &mut Step<'_>,
    session: &mut Session,
    server_id: ConnId,
    server: &mut Server,
    tracked: &Tracked,
    configured: ParameterSet,
    renaming: Option<&Renaming>,
) -> bool {
    let mut text = Vec::new();
    let application = renaming.map(|renaming| (&*renaming.to, &*renaming.from));
    let changes = changes(session, server, configured);
    let replayed = Replayed { application, resets: changes.reset };
    session.parameters.write_changes(&server.kept.parameters, replayed, tracked, &mut text);
    let initial = State::default();
    let wanted = session.facts.tracker.as_ref().map(|tracker| tracker.state());
    let (to, from) = (wanted.map_or(&initial, |state| state), server.kept.session_state.as_deref().unwrap_or(&initial));
    let base = &server.kept.base;
    let is_same = match (wanted, &server.kept.session_state) {
        (Some(wanted), Some(found)) => Arc::ptr_eq(wanted, found),
        (wanted, found) => wanted.is_none() && found.is_none(),
    };
    let asks_again = asks_again(session, server);
    let risk = match from.is_hasty() && !(text.is_empty() && to == from) {
        true => {
            text.clear();
            State::write_unhurrying(&mut text);
            session.parameters.write_changes(&server.kept.parameters, replayed, tracked, &mut text);
            let found = &from.unhurried(base);
            Difference { wanted: to, found, base, asks_again }.write(&mut text).max(Risk::Low)
        }
        false if is_same && !asks_again => Risk::None,
        false => Difference { wanted: to, found: from, base, asks_again }.write(&mut text),
    };
    server.kept.owners.send(changes, session.own.now);
    // Until the answer comes, the server's state is not known.
    server.facts.traces.needs_reset |= risk != Risk::None;
    if !is_same || asks_again {
        let given_at = server.kept.rights.filter(|_| !asks_again).map_or(step.now, |rights| rights.given_at);
        server.kept.rights = needs_rights(to).then_some(RightsSince { given_at, last: None });
    }
    server.kept.session_state = wanted.filter(|state| !state.is_initial()).map(Arc::clone);
    if text.is_empty() {
        session.parameters = Arc::clone(&server.kept.parameters);
        if !std::mem::replace(&mut session.confirmed, true) {
            session.reset_to = Some(Arc::clone(&server.kept.parameters));
        }
        return false;
    }
    server.ledger.sent(Answerer::Replay, Expect::Query);
    server.statements.unnamed = session_state::unnamed::NONE;
    server.facts.hold.set(!session.confirmed || risk == Risk::High);
    step.actions.send_new(server_id, |out| Query { text: &text }.encode(out));
    true
}

/// Whether what the server has of roles, and of settings for which rights are needed, was set before the session asked for it. The login may have lost
/// the rights since, or a role may have got another's name. //= pg18 sql-set-role
fn asks_again(session: &Session, server: &Server) -> bool {
    let Some((tracker, rights)) = session.facts.tracker.as_ref().zip(server.kept.rights) else { return false };
    let is_its_own = rights.last == Some((session.identity.serial, tracker.rights_asked_at));
    rights.given_at < tracker.rights_asked_at && !is_its_own && needs_rights(tracker.state())
}

/// The SETs and RESETs that give the server its session's parameters. A parameter that the session has not set is reset where RESET gives the server its value, also if
/// the server has the same value since another session has set it.
fn changes(session: &Session, server: &Server, configured: ParameterSet) -> OwnChanges {
    let kept = &server.kept;
    let differs = session.parameters.difference(&kept.parameters);
    let resettable = session.parameters.resettable(&kept.at_reset) | configured & Tracked::EVER_RESET;
    let resettable = resettable.without(session.own.now | kept.owners.of_base());
    let reset = resettable & (differs | kept.owners.of_sessions());
    OwnChanges { reset, set: differs.without(reset) }
}

/// The server has accepted its session's parameters. They now have the values that the server reports, but for the session's own that were not
/// set there: PostgreSQL's configuration may have changed meanwhile.
pub fn accepted(
    step: &mut Step<'_>,
    conn: ConnId,
    session: &mut Session,
    server: &Server,
    pool: &mut Pool,
    tracked: &Tracked,
) {
    let first = !std::mem::replace(&mut session.confirmed, true);
    if first {
        let own = session.own.now.without(server.kept.owners.sent().set);
        let own = own & session.parameters.difference(&server.kept.parameters);
        let taken = match own.is_empty() {
            true => Arc::clone(&server.kept.parameters),
            false => Arc::new(session.parameters.rebased(&server.kept.parameters, own)),
        };
        let begun_with = std::mem::replace(&mut session.parameters, taken);
        session.reset_to = Some(Arc::clone(&session.parameters));
        confirm(step, (conn, session), server, pool, tracked, &begun_with);
    }
}

/// A server has a session's first settings for the first time. Where the server reports other values than the client
/// was sent at its login, the client gets them, and the pool learns them.
pub fn confirm(
    step: &mut Step<'_>,
    (conn, session): (ConnId, &Session),
    server: &Server,
    pool: &mut Pool,
    tracked: &Tracked,
    begun_with: &Parameters,
) {
    let report = pool.welcome.report.as_ref().expect("a server of its pool has logged in");
    let mut news = Vec::new();
    for (index, name) in tracked.names().enumerate() {
        let value = session.parameters.get(index).filter(|value| begun_with.get(index) != Some(value));
        if let Some(value) = value {
            ParameterStatus { name: name.as_bytes(), value }.encode(&mut news);
        }
    }
    let reported =
        session.facts.tracker.as_ref().and_then(|tracker| tracker.reported_at_login.clone()).unwrap_or_default();
    let of =
        |list: &Reported, name: &[u8]| list.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.clone());
    for (name, begins) in report.reported.iter().filter(|(name, _)| tracked.index(name).is_none()) {
        let value = of(&server.kept.reported, name).unwrap_or_else(|| begins.clone());
        if value != of(&reported, name).unwrap_or_else(|| begins.clone()) {
            ParameterStatus { name, value: &value }.encode(&mut news);
        }
    }
    if news.is_empty() {
        return;
    }
    step.actions.send_new(conn, |out| out.extend_from_slice(&news));
    let others = Arc::new(server.kept.reported.clone());
    let state = session.facts.tracker.as_ref().map(|tracker| &**tracker.state());
    if let Some(key) = Learnt::key(begun_with, state, report, tracked) {
        pool.welcome.learnt.learn(key, ReportedParameters { parameters: Arc::clone(&session.parameters), others });
    }
}

/// A session that keeps its server for now has reset settings to the values that it began with. The server has gone
/// back to its own values instead, so it gets the session's before the client's next message.
pub fn restore(step: &mut Step<'_>, session: &mut Session, server_id: ConnId, server: &mut Server, tracked: &Tracked) {
    // A later answer has made it unnecessary.
    let Some(tracker) = session.facts.tracker.as_mut().filter(|tracker| tracker.is_reverted()) else { return };
    // Code may have set the same again: the list tells.
    if server.transaction.status == Status::Idle && tracker.inspection.lists_soon(tracker.pinning.suspects()) {
        return;
    }
    let in_transaction = server.transaction.status == Status::InTransaction;
    let stays = server.facts.hold.is_on() || in_transaction || tracker.pinning.keeps() || tracker.state().is_bound();
    // A failed transaction takes no SET, and a Query would end a batch that has no Sync yet.
    let takes = server.transaction.status != Status::Failed
        && !server.ledger.owed().awaits_own_ready()
        && !server.ledger.is_open();
    if !stays || !takes {
        return;
    }
    let found = tracker.take_reverted(&server.kept.base, in_transaction).expect("it is reverted");
    let mut text = Vec::new();
    let set = session.parameters.difference(&server.kept.parameters);
    server.kept.owners.send(OwnChanges::of_set(set), session.own.now);
    session.parameters.write_difference(&server.kept.parameters, tracked, &mut text);
    let risk = tracker.state().write_difference(&found, &server.kept.base, &mut text);
    if text.is_empty() {
        return;
    }
    server.ledger.sent(Answerer::Restore, Expect::Query);
    server.statements.unnamed = session_state::unnamed::NONE;
    if risk == Risk::High {
        server.facts.hold.begin();
    }
    step.actions.send_new(server_id, |out| Query { text: &text }.encode(out));
}
