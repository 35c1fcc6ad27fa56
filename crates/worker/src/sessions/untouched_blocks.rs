//! A session whose server is lost when nothing but the BEGIN of its transaction block was sent: the block begins again at another server, and its
//! client notices nothing ([`untouched`]).
//!
//! A client that is idle in such a block takes no server. With its next statement it waits for one as any client does; COMMIT and ROLLBACK are
//! answered here. If it is refused while it waits, the block is lost ([`lost_blocks`](super::lost_blocks)).
//!
//! [`untouched`]: link::untouched

use link::loss::Told;
use link::lost_block::{LostBlock, is_loss};
use link::parameter_reports::roll_back;
use link::request_refusal::RequestRefusal;
use link::server::{CloseReason, Server};
use link::unlinked::{Begun, Unlinked};
use link::untouched::{Untouched, end_of_block};
use units::ConnId;
use units::deadline::Owner;
use wire::backend::Status;
use wire::{SqlState, backend};

use crate::limits::{permits, pin_queue};
use crate::servers::listener;
use crate::sessions::lost_blocks::Cause;
use crate::sessions::lost_servers;
use crate::tables::backpressure;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// A session stays without its server, and its client notices nothing: its messages are sent again, as if they had been sent to no server.
/// `block`: the client is in a transaction block, of which nothing but its BEGIN was sent.
pub(crate) fn go_on(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    block: Option<Untouched>,
    cause: &Cause,
) {
    permits::leave_limits(sessions, step, conn);
    let session = &mut sessions[conn];
    let reports = cause.before().map(|before| roll_back(session, before, &step.caches.tracked)).unwrap_or_default();
    let owes_ready = block == Some(Untouched::Begun { is_ready: false });
    if !reports.is_empty() || owes_ready {
        step.actions.send_new(conn, |out| {
            out.extend_from_slice(&reports);
            if owes_ready {
                backend::encode_ready(out, Status::InTransaction);
            }
        });
    }
    match block {
        None | Some(Untouched::Unanswered) => session.unlink(step.now),
        Some(Untouched::Begun { .. }) => session.lose_block(step.now),
    }
    session.statements_mut().server_lost(false);
    session.incoming_mut().forward_no_more();
    if let Some(tracker) = session.tracker_mut() {
        tracker.lost();
    }
    if !session.incoming().inbox().is_empty() {
        step.agenda.reconsider(conn);
    }
    pin_queue::return_pin_permit(sessions, pools, step, conn);
    listener::send_notifications(sessions, servers, step, conn);
    step.agenda.arm(Owner::Conn(conn));
    backpressure::balance_if_paused(sessions, servers, step, conn);
}

/// Deals with the messages of a session in such a block, until one needs a server. Whether one does: then the session is idle, and is to get one.
pub(crate) fn needs_server(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) -> bool {
    let session = &mut sessions.table[conn];
    let mapped = pools[session.pool()].rules().max_prepared_statements() > 0;
    let mut inbox = session.incoming_mut().take_inbox();
    let begun = Unlinked { conn, session, mapped, actions: step.actions }.read(&inbox);
    let (needs, at) = match begun {
        Ok(Begun::Needs(at)) => (true, at),
        Ok(Begun::Incomplete(at)) => (false, at),
        Err(ending) => {
            step.agenda.end_by_request(conn, ending);
            return false;
        }
    };
    inbox.drain(..at);
    let end = if needs { end_of_block(&inbox) } else { None };
    if let Some((tag, len)) = end {
        inbox.drain(..len);
        session.statements_mut().query_answered();
        step.actions.send_new(conn, |out| {
            backend::encode_command_complete(out, tag);
            backend::encode_ready(out, Status::Idle);
        });
        session.take_begun();
    }
    let goes_on = end.is_some() && !inbox.is_empty();
    if inbox.is_empty() {
        step.caches.buffers.put_back(inbox);
    } else {
        session.incoming_mut().put_back(inbox);
    }
    if needs {
        session.end_block(step.now);
    } else {
        session.note_within_lost_block(step.now);
    }
    if goes_on {
        step.agenda.reconsider(conn);
    }
    if !needs || end.is_some() {
        listener::send_notifications(sessions, servers, step, conn);
        step.agenda.arm(Owner::Conn(conn));
        backpressure::balance_session(sessions, servers, step, conn);
    }
    needs && end.is_none()
}

/// The error for a request that waits until its block has begun at this server, which is lost, if the request was cancelled or has waited for too long.
/// `None`: it gets the error of a lost block.
pub(crate) fn refusal(server: &Server, cause: &Cause, why: &CloseReason) -> Option<(SqlState, String)> {
    let refusal = match server.overdue_since() {
        _ if !is_loss(cause.code()) => return Some((cause.code(), why.to_string())),
        Some(_) => RequestRefusal::QueryTimeout,
        None if server.cancel().is_requested() => RequestRefusal::UserRequest,
        None => return None,
    };
    Some((refusal.code(), refusal.to_string()))
}

/// A server refuses BEGIN, as a standby does if the block is to write. The server stays, and the block is lost.
pub(crate) fn begin_refused(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
) {
    // Its client has gone.
    let Some(conn) = servers[server_id].session() else { return };
    let begun = sessions[conn].take_begun();
    lost_servers::leave_server(sessions, servers, pools, step, server_id);
    let Some(begun) = begun else { return };
    sessions[conn].lose_block(step.now);
    sessions.lost_blocks.insert(conn, LostBlock::new(Told::Nothing, begun.into_error(), Vec::new()));
}
