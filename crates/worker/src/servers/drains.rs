//! A server whose client is gone: the answers it still owes are read and discarded before it is used again. If they do not come soon, it is
//! asked to stop; and closed, if it may be committing, or if stopping one statement would leave others.

use link::server::{Chore, CloseReason, Server, ServerState};
use link::server_questions::question_syncs;
use machine::sabotage::{Fault, does};
use units::deadline::Owner;
use units::{ConnId, limits};
use wire::backend::Status;
use wire::frontend;
use wire::frontend::{CopyFail, Query};

use crate::servers::{cancellers, chores, closed_servers, free_servers};
use crate::tables::owners::{Pools, Servers};
use crate::tables::step::Step;

/// A linked server loses its client: begins to read and discard the answers it still owes.
pub(crate) fn detach(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId, torn: bool) {
    // It may have been closed, which ended its session.
    let Some(server) = servers.get_mut(server_id) else { return };
    if torn {
        closed_servers::close_server(servers, pools, step, server_id, CloseReason::ClientGoneInMessage);
        return;
    }
    if server.end().close_needed().is_some() {
        closed_servers::close_server(servers, pools, step, server_id, CloseReason::ClientGone);
        return;
    }
    server.hold_mut().end();
    server.incoming_mut().forward_no_more();
    if machine::sabotage::skips_drain(&step.plan.settings) {
        server.forget_owed();
        free_servers::free(servers, pools, step, server_id);
        return;
    }
    if server.is_clean() {
        free_servers::reset_or_free(servers, pools, step, server_id);
        return;
    }
    if !server.ledger().owed().owes_one(server.transaction().status()) {
        closed_servers::close_server(servers, pools, step, server_id, CloseReason::ClientGoneUnfinished);
        return;
    }
    if !does(&step.plan.settings, Fault::LeaveCopyOpen) {
        end_batch(server_id, server, step);
    }
    server.ledger_mut().disown();
    let calm = server.ledger().is_clear() && server.is_between_messages();
    step.actions.watch(server_id, server.flow_mut(), true);
    if calm {
        chores::start_chore(servers, pools, step, server_id, Chore::Rollback, b"ROLLBACK");
    } else {
        chores::turn_server(servers, pools, step, server_id, Server::drain);
    }
}

/// A server whose client is gone has answered for long enough.
pub(crate) fn stop(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let server = &servers[conn];
    // A cancel would make a commit known that waits for its standby.
    if server.may_commit() && !does(&step.plan.settings, Fault::CancelCommits) {
        return closed_servers::close_server(servers, pools, step, conn, CloseReason::ClientGoneUnfinished);
    }
    cancellers::cancel_drain(servers, pools, step, conn);
    step.agenda.arm(Owner::Conn(conn));
}

pub(crate) fn drain_progress(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let server = &mut servers[conn];
    let ServerState::Draining { read, .. } = *server.state() else { unreachable!("a server that does not drain") };
    // Its COPY may have begun, or its batch may have failed, only after the client had gone.
    if !does(&step.plan.settings, Fault::LeaveCopyOpen) {
        end_batch(conn, server, step);
    }
    question_syncs(step, conn, server);
    if !server.ledger().is_clear() || !server.is_between_messages() {
        if read > limits::DRAIN_LEN_MAX {
            stop(servers, pools, step, conn);
        }
        return;
    }
    if server.cancel().under_way() > 0 {
        // A cancel under way might hit the pooler's next query.
        return;
    }
    match server.transaction().status() {
        Status::Idle => free_servers::reset_or_free(servers, pools, step, conn),
        Status::InTransaction | Status::Failed => {
            chores::start_chore(servers, pools, step, conn, Chore::Rollback, b"ROLLBACK")
        }
    }
}

/// Ends the COPY or the batch of a server whose client is gone, so that the server answers without further messages.
pub(crate) fn end_batch(server_id: ConnId, server: &mut Server, step: &mut Step<'_>) {
    use link::server::{Answerer, Expect};
    let extended = server.ledger().front().is_some_and(Expect::is_extended);
    if server.ledger().copying().is_open() {
        server.ledger_mut().sent(Answerer::Nobody, Expect::CopyEnd);
        step.actions.send_new(server_id, |out| CopyFail { message: b"client disconnected" }.encode(out));
        if extended {
            server.ledger_mut().sent(Answerer::Nobody, Expect::Sync);
            step.actions.send_new(server_id, frontend::encode_sync);
        }
        return;
    }
    if server.ledger().is_open() {
        if !server.ledger().is_skipping() {
            // Its client has not asked for a commit, and a Sync alone would commit. A ROLLBACK inside the batch undoes
            // it, with a warning; if a statement of the batch fails, PostgreSQL skips the ROLLBACK up to the Sync.
            server.ledger_mut().sent(Answerer::Nobody, Expect::Query);
            step.actions.send_new(server_id, |out| Query { text: b"ROLLBACK" }.encode(out));
        }
        server.ledger_mut().sent(Answerer::Nobody, Expect::Sync);
        step.actions.send_new(server_id, frontend::encode_sync);
    }
}
