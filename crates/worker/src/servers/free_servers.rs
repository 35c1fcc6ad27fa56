//! A server that has lost its session: what must be done before it is free, and when it is free (I3).

use std::sync::Arc;

use link::checking::CLEAR;
use link::listening::UNLISTEN;
use link::pool::LocalBuffers;
use link::server::{Chore, CloseReason, Server, ServerState};
use settings::PoolMode;
use units::ConnId;

use crate::servers::{chores, disturbances, own_queries};
use crate::tables::followups::Followup;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{backpressure, suspension};

/// A clean server has lost its client: it is reset if need be, and then free.
pub(crate) fn reset_or_free(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut servers[server_id];
    let pool = &pools[server.pool()];
    if server.end().close_needed().is_some_and(CloseReason::is_fenced) {
        // Nothing begins there any more, and its state ends with the connection.
        return free(servers, pools, step, server_id);
    }
    let (needs_reset, listens) = (server.traces().needs_reset(), server.traces().listens());
    let resets =
        pool.rules().mode() == PoolMode::Session || step.plan.settings.global.servers.server_reset_query_always;
    if (needs_reset || listens || resets) && server.cancel().under_way() > 0 {
        // A cancel under way might hit the reset.
        chores::turn_server(servers, pools, step, server_id, Server::outwait_cancel);
        return;
    }
    if needs_reset {
        server.clear_begins();
        chores::start_chore(servers, pools, step, server_id, Chore::Clear, CLEAR);
    } else if listens {
        chores::start_chore(servers, pools, step, server_id, Chore::Unlisten, UNLISTEN);
    } else if resets && !step.plan.settings.global.servers.server_reset_query.is_empty() {
        let settings = Arc::clone(&step.plan.settings);
        let query = &settings.global.servers.server_reset_query;
        own_queries::send(servers, pools, step, server_id, Chore::Reset, query);
    } else {
        free(servers, pools, step, server_id);
    }
}

/// A query of the file's own, or DISCARD ALL, has been answered: what that has taken away of what the server began with is brought
/// back.
pub(crate) fn restore_or_free(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &servers[server_id];
    if server.traces().needs_reset() {
        return reset_or_free(servers, pools, step, server_id);
    }
    if server.traces().bare().is_none() {
        return free(servers, pools, step, server_id);
    }
    let query = server.identity().opened_for().connect_query.as_ref();
    let mut text = Vec::new();
    match query.filter(|_| server.runs_connect_query()) {
        Some(query) => text.extend_from_slice(query.as_bytes()),
        None => server.kept().base().write(&mut text),
    }
    chores::start_chore(servers, pools, step, server_id, Chore::Restore, &text);
}

/// A clean server has no work: it is placed at the end of the step.
pub(crate) fn free(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut servers[server_id];
    server.released();
    if server.cancel().under_way() > 0 || !server.is_clean() || !server.flow().is_clear() {
        // A cancel is under way, or only half of a message was read (a notice, a ParameterStatus, perhaps the fatal
        // error of a shutdown), or its socket has not taken all bytes, which the server will ignore.
        if !matches!(server.state(), ServerState::Held) {
            chores::turn_server(servers, pools, step, server_id, Server::withhold);
        }
        return;
    }
    if server.traces_mut().take_taint() {
        return reset_or_free(servers, pools, step, server_id);
    }
    if server.traces_mut().take_unsettled() {
        // A definition was announced, and its statement never sent.
        let id = server.pool();
        step.agenda.follow(Followup::Settle { pool: id, server: server_id, lost: false });
    }
    step.agenda.release(server.work_mut().take_permits());
    if matches!(server.state(), ServerState::Idle)
        || servers.chaos.is_some() && disturbances::is_disturbed(servers, pools, step, server_id)
    {
        return;
    }
    let server = &mut servers[server_id];
    if let Some(why) = pools[server.pool()].servers_mut().takes_back() {
        server.end_mut().close_when_released(why);
    }
    if server.traces().has_local_buffers()
        && pools[server.pool()].servers().local_buffers() != LocalBuffers::AsConfigured
    {
        server.end_mut().close_when_released(CloseReason::LocalBuffers);
    }
    if server.ledger().is_doubtful() {
        server.end_mut().close_when_released(CloseReason::CopyInDoubt);
    }
    if !server.flow().is_reading() {
        step.actions.watch(server_id, server.flow_mut(), true);
    }
    chores::turn_server(servers, pools, step, server_id, Server::free);
    suspension::hold_server(servers, step, server_id);
    step.agenda.place(server_id);
}

pub(crate) fn balance_server(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    // The event may arrive after its connection was closed.
    let Some(server) = servers.get_mut(conn) else { return };
    match *server.state() {
        ServerState::Linked(session) | ServerState::Own(session) => {
            backpressure::balance_session(sessions, servers, step, session)
        }
        ServerState::Held if server.flow().is_clear() => {
            step.actions.watch(conn, server.flow_mut(), true);
            free(servers, pools, step, conn);
        }
        _ => step.actions.watch(conn, server.flow_mut(), true),
    }
}
