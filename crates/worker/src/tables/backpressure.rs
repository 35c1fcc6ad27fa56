//! Decides which connections are read, so that no more bytes arrive than can be kept (I10).

use link::session::SessionState;
use machine::sabotage::{Fault, does};
use units::{ConnId, limits};

use crate::tables::owners::{Servers, Sessions};
use crate::tables::step::Step;

/// Decides it anew for a session that may have been paused.
pub(crate) fn balance_if_paused(sessions: &mut Sessions, servers: &mut Servers, step: &mut Step<'_>, conn: ConnId) {
    // It may have ended just now.
    let Some(session) = sessions.get(conn) else { return };
    let server_reads = session.server().and_then(|id| servers.get(id)).is_none_or(|server| server.flow().is_reading());
    if !session.flow().is_reading() || !session.flow().is_clear() || !server_reads {
        balance_session(sessions, servers, step, conn);
    }
}

/// Keeps bytes for later. A session that has too many is not read meanwhile.
pub(crate) fn stash(sessions: &mut Sessions, servers: &mut Servers, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) {
    let session = &mut sessions[conn];
    if bytes.is_empty() {
        return;
    }
    session.incoming_mut().stash(bytes, || step.caches.buffers.take());
    if session.incoming().inbox().len() >= limits::CHUNK_LEN_MAX {
        balance_session(sessions, servers, step, conn);
    }
}

/// Sets whether a session and its server are read.
pub(crate) fn balance_session(sessions: &mut Sessions, servers: &mut Servers, step: &mut Step<'_>, conn: ConnId) {
    // The event may arrive after its connection was closed.
    let Some(session) = sessions.get_mut(conn) else { return };
    let roomy = session.incoming().inbox().len() < limits::CHUNK_LEN_MAX;
    let clear = session.flow().is_clear();
    // A client that does not read the pooler's own answers (to Sync, Close) is not read either (I10).
    let has_room = session.flow().backlog().len() < 2 * limits::CHUNK_LEN_MAX;
    let (read, server) = match session.state() {
        SessionState::Idle { .. } => (has_room && (roomy || !session.waits_for_listener()), None),
        SessionState::LostBlock { .. } => (has_room, None),
        SessionState::Welcoming { .. }
        | SessionState::Waiting { .. }
        | SessionState::Opening { .. }
        | SessionState::Console { .. } => (roomy && has_room, None),
        SessionState::Leaving { .. } => (false, None),
        SessionState::Linked { server } | SessionState::Replicating { server } => {
            match servers.get_mut(server) {
                Some(link) => {
                    let deep = link.ledger().depth() >= limits::OWED_MAX;
                    // A message that must be whole before it is sent may be longer than a chunk.
                    let held = link.holds_messages();
                    (has_room && link.flow().is_clear() && !deep && (roomy || !held), Some((server, link)))
                }
                None => (roomy, None),
            }
        }
    };
    step.actions.watch(conn, session.flow_mut(), read);
    if let Some((id, link)) = server {
        let read = clear || does(&step.plan.settings, Fault::ReadOn);
        step.actions.watch(id, link.flow_mut(), read);
    }
}
