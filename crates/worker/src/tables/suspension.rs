//! SUSPEND: which connections are not read while it is in force, and from when.
//!
//! ```text
//!   a client                                 at once; at the console, never
//!   a server that a session has, or an idle one   while its socket has taken what was sent to it: else it may be waiting for us to read
//!   a server that logs in, or is checked     when it is free
//! ```
//!
//! Timeouts do not end anything meanwhile. What a timeout would have ended gets [`limits::RESUME_GRACE`] after RESUME, in which what has
//! come is read first.
//!
//! //= pgbouncer usage.md#process-controlling-commands

use link::server::ServerState;
use link::session::SessionState;
use machine::arrival::ConsoleRights;
use machine::sabotage::{Fault, does};
use machine::snapshot::SuspendedCounts;
use units::{ConnId, limits};

use crate::tables;
use crate::tables::owners::{Clock, Plan, Servers, Sessions};
use crate::tables::step::Step;

/// SUSPEND has been ordered.
pub(crate) fn begin(sessions: &mut Sessions, servers: &mut Servers, step: &mut Step<'_>) {
    for conn in sessions.ids() {
        hold_session(sessions, step, conn);
    }
    for conn in servers.ids() {
        hold_server(servers, step, conn);
    }
}

/// RESUME has been.
pub(crate) fn end(sessions: &mut Sessions, servers: &mut Servers, clock: &mut Clock, step: &mut Step<'_>) {
    clock.deadlines.spare_until(step.now + limits::RESUME_GRACE);
    for conn in sessions.ids().into_iter().chain(servers.ids()) {
        if let Some(flow) = tables::flow_mut(sessions, servers, conn) {
            step.actions.hold(conn, flow, false);
        }
    }
}

/// A session has just come, or SUSPEND has been ordered.
pub(crate) fn hold_session(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    let is_suspended = step.plan.settings.orders.is_suspended();
    // It may have ended since it was asked for.
    let Some(session) = sessions.get_mut(conn).filter(|_| is_suspended) else { return };
    if !matches!(session.state(), SessionState::Console { .. }) {
        step.actions.hold(conn, session.flow_mut(), true);
    }
}

/// A server has become free, its socket has taken everything, or no longer does, or SUSPEND has been ordered.
#[inline]
pub(crate) fn hold_server(servers: &mut Servers, step: &mut Step<'_>, conn: ConnId) {
    if !step.plan.settings.orders.is_suspended() {
        return;
    }
    // It may have been closed in this step.
    let Some(server) = servers.get_mut(conn) else { return };
    let is_used = match server.state() {
        ServerState::Linked(_) | ServerState::Own(_) | ServerState::Idle | ServerState::Listening => true,
        ServerState::Connecting | ServerState::LoggingIn(_) | ServerState::Busy(_) => false,
        ServerState::Draining { .. } | ServerState::Held => false,
    };
    if is_used {
        let holds = server.flow().is_clear() && !does(&step.plan.settings, Fault::ReadSuspended);
        step.actions.hold(conn, server.flow_mut(), holds);
    }
}

/// What SUSPEND waits for here. Who is being closed is not waited for.
pub(crate) fn counts(sessions: &Sessions, servers: &Servers, plan: &Plan) -> Option<SuspendedCounts> {
    if !plan.settings.orders.is_suspended() {
        return None;
    }
    let mut counts = SuspendedCounts::default();
    for (_, session) in sessions.iter() {
        match session.state() {
            SessionState::Console { rights, .. } => counts.consoles += u32::from(rights == ConsoleRights::Admin),
            SessionState::Leaving { .. } => {}
            _ => counts.unsent += u32::from(!session.flow().is_clear()),
        }
    }
    let unsent = servers.iter().filter(|(_, server)| !server.flow().is_clear()).count();
    counts.unsent += unsent as u32;
    Some(counts)
}
