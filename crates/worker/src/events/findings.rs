//! What the worker does about a server's messages.

use link::copying::error_within;
use link::end_reason::EndReason;
use link::findings::{Astray, Words};
use link::loss::Told;
use link::role_resets;
use link::server::CloseReason;
use units::ConnId;
use wire::backend::{ErrorResponse, Fields};

use crate::limits::{permits, refusals};
use crate::servers::{listener, resting};
use crate::sessions::{hosts, lost_servers, untouched_blocks};
use crate::tables::cancels::refuse_first;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{lookups, timers};

/// Ends a session as PostgreSQL does when it has lost track of where messages begin.
fn end_astray(sessions: &Sessions, servers: &mut Servers, step: &mut Step<'_>, server_id: ConnId, astray: Astray) {
    let server = &mut servers[server_id];
    server.end_mut().close_when_released(CloseReason::SyncLost);
    // A client that has disconnected gets no error.
    let Some(conn) = server.session() else { return };
    if let (Astray::NoCopyData, Some(session)) = (astray, sessions.get(conn)) {
        let (code, text) = error_within(session.incoming().inbox());
        let error = ErrorResponse { severity: "ERROR", code, message: &text, detail: None, hint: None };
        step.actions.send_new(conn, |out| error.encode(out));
    }
    step.agenda.refuse(conn, CloseReason::SyncLost);
}

/// Acts on what a server's messages mean for its link. True: the caller has nothing left to do.
#[cold]
pub(crate) fn act_on_words(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    words: Words,
) -> bool {
    if words.promoted {
        hosts::promoted(servers, pools, step, conn);
    }
    if let Some(astray) = words.astray {
        end_astray(sessions, servers, step, conn, astray);
        return true;
    }
    if words.lost.is_some() || words.dying.is_some() {
        hosts::lost_a_server(&servers[conn], step);
    }
    if let Some((code, words)) = words.lost {
        servers[conn].end_mut().server_gone();
        lost_servers::server_lost(sessions, servers, pools, step, conn, code, words);
        return true;
    }
    if let Some(words) = words.dying {
        let server = &mut servers[conn];
        server.end_mut().server_gone();
        server.end_mut().close_when_released(CloseReason::ShuttingDown);
        if server.session().is_none() || server.end().has_forwarded_fatal_error() {
            // A client that has got the fatal error gets nothing more. What it sends until the connection ends is not
            // answered.
            lost_servers::break_server(sessions, servers, pools, step, conn, words);
            return true;
        }
    }
    if words.begin_error.is_some() {
        untouched_blocks::begin_refused(sessions, servers, pools, step, conn);
        return true;
    }
    if let Some(error) = words.replay_error {
        replay_refused(sessions, servers, pools, step, conn, &error);
        return true;
    }
    false
}

/// The server does not accept the session's parameters, settings or role. PostgreSQL would have refused the login with those that it
/// began with, so the session ends then. Later its request gets the error, and it may go on: a role may have been renamed or revoked since.
/// The server stays: PostgreSQL has rolled all of the settings back, and the server is cleared before another session has it.
fn replay_refused(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    error: &[u8],
) {
    // A client that has disconnected gets no error.
    let Some(conn) = servers[server_id].session() else { return };
    let fields = Fields::decode(error);
    let code = fields.sqlstate().unwrap_or(wire::sqlstate::PROTOCOL_VIOLATION);
    let words = String::from_utf8_lossy(fields.message().unwrap_or(b"parameters refused")).into_owned();
    let server = &servers[server_id];
    let is_held = sessions[conn].is_confirmed() && server.hold().is_on();
    let has_begun = sessions[conn].has_begun();
    if is_held && lookups::outlives(sessions, pools, server, conn).is_some_and(|loss| loss.is_none() || has_begun) {
        let session = &mut sessions[conn];
        let reset = role_resets::role_reset(session, step.caches);
        if reset.is_some() || refuse_first(step, conn, session, (code, &words)) {
            lost_servers::leave_server(sessions, servers, pools, step, server_id);
            // A role that is given up has brought the client no answer yet.
            let told = if reset.is_some() { Told::Nothing } else { Told::Lost };
            refusals::lose_begun(sessions, step, conn, told);
            let tracker = sessions[conn].tracker_mut();
            if let Some((reset, tracker)) = reset.zip(tracker) {
                tracker.journal.forget_role(reset);
            }
            return;
        }
    }
    step.agenda.refuse_with(conn, code, EndReason::Said { words });
}

/// A server has finished what it was sent, and stays linked to its session.
/// `is_limited`: there are limits.
pub(crate) fn stays_linked(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    session: ConnId,
    is_limited: bool,
) {
    if is_limited {
        permits::note_transaction_end(sessions, servers, session, conn);
    }
    resting::note_rest(sessions, servers, pools, step, conn);
    listener::send_notifications(sessions, servers, step, session);
    timers::arm_linked(sessions, pools, step, session);
}
