//! CancelRequests to servers' backends: which is sent at once, and which waits until its query runs.
//!
//! A cancel travels on a connection of its own and hits whatever its backend is then doing (I4). So it is sent only
//! while the server owes the key's owner an answer.

use link::request_refusal::RequestRefusal;
use link::server::Answerer;
#[cfg(debug_assertions)]
use machine::sabotage::{Fault, does};
use units::ConnId;
use units::deadline::Owner;

use crate::tables::cancels::take_back;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// `why`: for a query that no server has seen.
pub(crate) fn cancel_linked(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    server_id: ConnId,
    why: &RequestRefusal,
) {
    let server = &mut servers[server_id];
    if server.is_answering_its_own() {
        return start_cancel(servers, pools, step, server_id);
    }
    match server.ledger().owner() {
        Some(Answerer::Client) => start_cancel(servers, pools, step, server_id),
        // PostgreSQL sends ParseComplete for the pooler's Parse only together with the query's answer.
        Some(Answerer::Prepare) if server.ledger().owing() != (0, false) => {
            start_cancel(servers, pools, step, server_id)
        }
        // The backend runs a query of the pooler first, which the cancel must not hit. If that is BEGIN, what the client has sent belongs to its block.
        Some(_) if server.ledger().owing() != (0, false) || sessions[conn].has_begun() => {
            server.cancel_mut().request();
        }
        Some(_) if server.hold().is_on() => {
            if take_back(step, conn, &mut sessions[conn], why) {
                step.agenda.arm(Owner::Conn(conn));
            }
        }
        Some(_) | None => {}
    }
}

/// A query of the pooler has been answered: sends the cancel that has waited for the client's query after it.
pub(crate) fn cancel_if_requested(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut servers[server_id];
    if server.cancel().is_requested() && server.ledger().owner() == Some(Answerer::Client) {
        server.cancel_mut().take_request();
        start_cancel(servers, pools, step, server_id);
    }
}

/// Sends a cancel to a server's backend.
pub(crate) fn start_cancel(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut servers.table[server_id];
    debug_assert!(
        !server.ledger().is_clear()
            || server.is_answering_its_own()
            || machine::sabotage::forwards_late_cancel(&step.plan.settings),
        "I4: a cancel is sent only while the server has something to answer"
    );
    // Too many cancels are under way, or the server cannot be cancelled.
    let Some(conn) = servers.cancels.start(step, server_id, server) else { return };
    #[cfg(debug_assertions)]
    if does(&step.plan.settings, Fault::OverlookCancel) {
        server.overlook_facts();
    }
    pools[server.pool()].counts_mut().cancel_begins();
    step.agenda.arm(Owner::Conn(conn));
}

/// A server without client still answers: cancels its query. One that has answered all, and is within a message that nobody asked for or waits for another
/// cancel, has nothing to be cancelled, and gets more time.
pub(crate) fn cancel_drain(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut servers[server_id];
    if server.cancel_drain() && !server.ledger().is_clear() {
        start_cancel(servers, pools, step, server_id);
    }
}
