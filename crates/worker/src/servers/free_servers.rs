//! A server that has lost its session: what must be done before it is free, and when it is free (I3).

use std::sync::Arc;

use link::checking::CLEAR;
use link::listening::UNLISTEN;
use link::pool::LocalBuffers;
use link::server::{Chore, CloseReason, Server, ServerState};
use machine::Step;
use settings::PoolMode;
use units::ConnId;

use crate::servers::{chores, disturbances, own_queries};
use crate::tables::followups::Followup;
use crate::tables::{Tables, backpressure, suspension};

/// A clean server has lost its client: it is reset if need be, and then free.
pub(crate) fn reset_or_free(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut tables.servers[server_id];
    let pool = &tables.pools[server.pool()];
    let (needs_reset, listens) = (server.traces().needs_reset(), server.traces().listens());
    let resets =
        pool.rules().mode() == PoolMode::Session || tables.plan.settings.global.servers.server_reset_query_always;
    if (needs_reset || listens || resets) && server.cancel().under_way() > 0 {
        // A cancel under way might hit the reset.
        chores::turn_server(tables, step, server_id, Server::outwait_cancel);
        return;
    }
    if needs_reset {
        server.clear_begins();
        chores::start_chore(tables, step, server_id, Chore::Clear, CLEAR);
    } else if listens {
        chores::start_chore(tables, step, server_id, Chore::Unlisten, UNLISTEN);
    } else if resets && !tables.plan.settings.global.servers.server_reset_query.is_empty() {
        let settings = Arc::clone(&tables.plan.settings);
        let query = &settings.global.servers.server_reset_query;
        own_queries::send(tables, step, server_id, Chore::Reset, query);
    } else {
        free(tables, step, server_id);
    }
}

/// A query of the file's own, or DISCARD ALL, has been answered: what that has taken away of what the server began with is brought
/// back.
pub(crate) fn restore_or_free(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let server = &tables.servers[server_id];
    if server.traces().needs_reset() {
        return reset_or_free(tables, step, server_id);
    }
    if server.traces().bare().is_none() {
        return free(tables, step, server_id);
    }
    let query = server.identity().opened_for().connect_query.as_ref();
    let mut text = Vec::new();
    match query.filter(|_| server.runs_connect_query()) {
        Some(query) => text.extend_from_slice(query.as_bytes()),
        None => server.kept().base().write(&mut text),
    }
    chores::start_chore(tables, step, server_id, Chore::Restore, &text);
}

/// A clean server has no work: it is placed at the end of the step.
pub(crate) fn free(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut tables.servers[server_id];
    server.released();
    if server.cancel().under_way() > 0 || !server.is_clean() || !server.flow().is_clear() {
        // A cancel is under way, or only half of a message was read (a notice, a ParameterStatus, perhaps the fatal
        // error of a shutdown), or its socket has not taken all bytes, which the server will ignore.
        if !matches!(server.state(), ServerState::Held) {
            chores::turn_server(tables, step, server_id, Server::withhold);
        }
        return;
    }
    if server.traces_mut().take_taint() {
        return reset_or_free(tables, step, server_id);
    }
    if server.traces_mut().take_unsettled() {
        // A definition was announced, and its statement never sent.
        let id = server.pool();
        tables.agenda.follow(Followup::Settle { pool: id, server: server_id, lost: false });
    }
    tables.agenda.release(server.work_mut().take_permits());
    if matches!(server.state(), ServerState::Idle)
        || tables.servers.chaos.is_some() && disturbances::is_disturbed(tables, step, server_id)
    {
        return;
    }
    let server = &mut tables.servers[server_id];
    if let Some(why) = tables.pools[server.pool()].servers_mut().takes_back() {
        server.end_mut().close_when_released(why);
    }
    if server.traces().has_local_buffers()
        && tables.pools[server.pool()].servers().local_buffers() != LocalBuffers::AsConfigured
    {
        server.end_mut().close_when_released(CloseReason::LocalBuffers);
    }
    if server.ledger().is_doubtful() {
        server.end_mut().close_when_released(CloseReason::CopyInDoubt);
    }
    if !server.flow().is_reading() {
        step.actions.watch(server_id, server.flow_mut(), true);
    }
    chores::turn_server(tables, step, server_id, Server::free);
    suspension::hold_server(tables, step, server_id);
    tables.agenda.place(server_id);
}

pub(crate) fn balance_server(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId) {
    // The event may arrive after its connection was closed.
    let Some(server) = tables.servers.get_mut(conn) else { return };
    match *server.state() {
        ServerState::Linked(session) | ServerState::Own(session) => {
            backpressure::balance_session(tables, step, session)
        }
        ServerState::Held if server.flow().is_clear() => {
            step.actions.watch(conn, server.flow_mut(), true);
            free(tables, step, conn);
        }
        _ => step.actions.watch(conn, server.flow_mut(), true),
    }
}
