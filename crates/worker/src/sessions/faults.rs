//! The error for clients whose worker has panicked, like PostgreSQL's after a crash, and the choice of the clients that
//! can be sent it.

use link::end_reason::EndReason;
use link::session::Session;
use machine::action::Action;
use machine::observe::{Level, Topic};
use units::ConnId;
use wire::backend::ErrorResponse;

use crate::sessions::ends::leaves_room_for_error;
use crate::tables::lines;
use crate::tables::owners::{Servers, Sessions};
use crate::tables::step::Step;

const HINT: &str = "In a moment you should be able to reconnect to the database and repeat your command.";

/// As a message.
pub(crate) fn last_words() -> Vec<u8> {
    let mut out = Vec::new();
    let (severity, code, message) = ("FATAL", EndReason::Fault.code(), &EndReason::Fault.to_string());
    ErrorResponse { severity, code, message, detail: None, hint: Some(HINT) }.encode(&mut out);
    out
}

/// Refuses a client that was sent to the worker before this one. No pool here knows it, and the coordinator no longer
/// counts it.
pub(crate) fn turn_away(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    lines::log_session(
        sessions,
        step,
        conn,
        Level::Warning,
        Topic::PoolerErrors,
        format!("pooler error: {}", EndReason::Fault),
    );
    step.actions.send_new(conn, |out| out.extend_from_slice(&last_words()));
    step.actions.push(Action::Close { conn, last_words: true });
    sessions.remove(conn);
}

/// After a panic in a step: the clients that have no part of a message, as far as known. `asked`: the step's actions,
/// none of which was done; `served`: the connection that the step was about.
pub(crate) fn clients_to_notify(
    sessions: &Sessions,
    servers: &Servers,
    asked: &[Action],
    served: Option<ConnId>,
) -> Vec<ConnId> {
    let sends_to = |action: &Action, conn: ConnId| matches!(action, Action::Send { conn: to, .. } if *to == conn);
    let is_whole = |conn: ConnId, session: &Session| {
        let server = session.server();
        let is_touched = Some(conn) == served || server.is_some() && server == served;
        !session.is_leaving()
            && session.flow().is_clear()
            && !is_touched
            && !asked.iter().any(|action| sends_to(action, conn))
            && server.and_then(|server| servers.get(server)).is_none_or(leaves_room_for_error)
    };
    sessions.iter().filter(|(conn, session)| is_whole(*conn, session)).map(|(conn, _)| conn).collect()
}
