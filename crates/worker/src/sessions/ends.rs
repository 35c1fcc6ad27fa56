//! How sessions end. The client gets an error that says why, unless it left by itself or half a message is under way.

use std::sync::Arc;

use link::end_reason::EndReason;
use link::relaying::has_said_goodbye;
use link::server::{CloseReason, Server, ServerState};
use link::session::{Session, SessionState};
use machine::action::Action;
use machine::mail::ToCoordinator;
use machine::observe::{Level, Topic};
use session_state::parameters::Tracked;
use units::deadline::Owner;
use units::{ConnId, PoolId, limits};

use crate::limits::permits;
use crate::servers::{closed_servers, drains, listener};
use crate::tables::followups::SessionEnd;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{self, lines};

pub(crate) fn client_hung_up(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    if sessions.get(conn).is_some_and(|session| matches!(session.state(), SessionState::Leaving { .. })) {
        close_session(sessions, step, conn, false);
        return;
    }
    step.agenda.end(conn, SessionEnd::Left(EndReason::ClientEof));
}

/// Whether the client of this server's session can be sent an error: not within a message of the server, nor after the
/// server's own last message. The severity of errors of a session's own server is not read, so each of them counts as
/// the last message until another follows.
pub(crate) fn leaves_room_for_error(server: &Server) -> bool {
    let is_within = server.incoming().is_within_answer();
    let has_ended = match server.state() {
        ServerState::Own(_) => has_said_goodbye(server),
        _ => server.end().has_forwarded_fatal_error(),
    };
    !is_within && !has_ended
}

/// Ends a session, unless it has ended already.
pub(crate) fn end_session(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    end: SessionEnd,
) {
    // The first reason counts.
    let Some(session) = sessions.get(conn).filter(|session| !session.is_leaving()) else { return };
    let server = session.server().and_then(|id| servers.get(id));
    let speakable = server.is_none_or(leaves_room_for_error);
    log_end(sessions, step, conn, end.why());
    let (pool, user) = take_out(sessions, servers, pools, step, conn);
    sessions.departing += 1;
    let departed = ToCoordinator::Departed { pool, holder: step.plan.id.into(), life: step.plan.life, user };
    step.actions.post_to_coordinator(departed);
    if let SessionEnd::Left(_) = end {
        return close_session(sessions, step, conn, false);
    }
    if let SessionEnd::Refused(fatal) = &end
        && speakable
    {
        debug_assert!(fatal.why.may_have(fatal.code), "its row has no {:?}: {:?}", fatal.code, fatal.why);
        let message = fatal.why.to_string();
        let words = format!("pooler error: {message}");
        lines::log_session(sessions, step, conn, Level::Warning, Topic::PoolerErrors, words);
        step.actions.send_new(conn, |out| fatal.error(&message).encode(out));
    }
    close_when_written(sessions, step, conn);
}

/// The last message for a session has been sent: the session is closed when the socket has taken it, which is known
/// only after the actions of this step.
fn close_when_written(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut sessions[conn];
    session.incoming_mut().forget();
    session.leave(step.now + limits::FAREWELL);
    step.actions.watch(conn, session.flow_mut(), false);
    step.agenda.close(conn);
    step.agenda.arm(Owner::Conn(conn));
}

/// The end of a round: sessions whose last message has been written are closed.
pub(crate) fn close_leaving(sessions: &mut Sessions, step: &mut Step<'_>) {
    while let Some(conn) = step.agenda.next_to_close() {
        let written = sessions.get(conn).is_some_and(|session| session.flow().is_clear());
        if written {
            close_session(sessions, step, conn, true);
        }
    }
}

fn log_end(sessions: &Sessions, step: &mut Step<'_>, conn: ConnId, why: &EndReason) {
    let session = &sessions[conn];
    if !step.actions.logs(Level::Log, Topic::Disconnections) {
        return;
    }
    let age = step.now.since(session.identity().connected_at).as_secs();
    let text = format!("closing because: {why} (age={age}s)");
    lines::log_session(sessions, step, conn, Level::Log, Topic::Disconnections, text);
}

/// Takes a session out of its queue, its link, and its pool's counts. Returns its pool and its user.
pub(crate) fn take_out(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) -> (PoolId, Arc<str>) {
    if let Some(chaos) = &mut servers.chaos
        && let Some(session) = sessions.get(conn)
    {
        let name = session.parameters().get(Tracked::APPLICATION_NAME).unwrap_or_default();
        if let Some(text) = chaos.left(conn, name) {
            lines::log_session(sessions, step, conn, Level::Log, Topic::General, text);
        }
    }
    if let Some(server) = sessions.get(conn).and_then(Session::server) {
        permits::pass_permits_on(sessions, servers, conn, server);
    }
    permits::leave_limits(sessions, step, conn);
    sessions.halves.forget(conn);
    sessions.consoles.forget(conn);
    sessions.lost_blocks.remove(&conn);
    let session = &mut sessions[conn];
    let (pool, user) = (session.pool(), session.identity().user.clone());
    let torn = session.is_torn();
    let tracker = session.take_tracker();
    let had_permit = tracker.as_ref().is_some_and(|tracker| tracker.has_pin_permit);
    servers.cancels.forget_pid(conn);
    let subscriptions = tracker.as_ref().and_then(|tracker| tracker.notifications.subscriptions());
    let interest: Option<Vec<Box<[u8]>>> =
        subscriptions.map(|subscriptions| subscriptions.interest().map(Box::from).collect());
    match session.state() {
        SessionState::Linked { server } => {
            session.leave(step.now);
            if let Some(server) = servers.get_mut(server) {
                link::checking::part(server, tracker);
            }
            drains::detach(servers, pools, step, server, torn);
        }
        SessionState::Waiting { .. } => tables::leave_queue(sessions, pools, step, conn),
        SessionState::Opening { server, .. } | SessionState::Replicating { server } => {
            session.leave(step.now);
            closed_servers::close_if_there(servers, pools, step, server, CloseReason::ClientGone);
        }
        SessionState::Welcoming { .. } => {
            // It has no pool if a reload removed its database while it logged in.
            if let Some(pool) = pools.get_mut(pool) {
                pool.welcome_mut().stop_waiting(conn);
                // The board shows other workers that a session waits here.
                step.agenda.publish_shared(pool);
            }
        }
        SessionState::Idle { .. }
        | SessionState::LostBlock { .. }
        | SessionState::Console { .. }
        | SessionState::Leaving { .. } => {}
    }
    // The console has none.
    if let Some(entry) = pools.get_mut(pool) {
        entry.session_left(had_permit);
        if entry.has_other_excess() {
            step.agenda.publish(pool);
        }
    }
    if had_permit {
        step.agenda.admit_to_pin(pool);
    }
    if let Some(names) = interest {
        listener::listens_no_more(sessions, servers, pools, step, pool, conn, &names);
    }
    (pool, user)
}

/// Closes a session's connection and frees its id. `last_words`: it got a last message.
pub(crate) fn close_session(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId, last_words: bool) {
    if let Some(session) = sessions.remove(conn) {
        debug_assert!(session.server().is_none(), "I1: a session that ends leaves its server first");
        sessions.departing -= 1;
        step.caches.server_names.forget(conn);
        step.actions.push(Action::Close { conn, last_words });
    }
}
