//! CancelRequests to servers' backends: which is sent, and which waits for its query's turn.
//!
//! A cancel travels on a connection of its own and strikes whatever its backend is then doing (I4). So it is sent only while
//! the key's owner has an answer owed.

use connections::server::Answerer;
use machine::Step;
use units::ConnId;

use crate::tables::cancels::take_back;
use crate::tables::{Tables, timers};

/// As PostgreSQL words it.
pub(crate) const BY_REQUEST: &str = "canceling statement due to user request";

/// `words`: for a query that no server has seen.
pub(crate) fn cancel_linked(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, server_id: ConnId, words: &str) {
    let server = &mut tables.servers[server_id];
    match server.ledger.owner() {
        Some(Answerer::Client) => start_cancel(tables, step, server_id),
        // PostgreSQL tells that our Parse is complete only together with the query's end.
        Some(Answerer::Prepare) if server.ledger.owing() != (0, false) => start_cancel(tables, step, server_id),
        // Its query is behind something of ours, which is not to be struck.
        Some(_) if server.ledger.owing() != (0, false) => server.cancel.is_requested = true,
        Some(_) if server.hold.is_on => {
            if take_back(step, conn, &mut tables.sessions[conn], words) {
                timers::arm_session(tables, conn);
            }
        }
        Some(_) | None => {}
    }
}

/// Something of ours has been answered: is it the turn of a query that is to be cancelled?
pub(crate) fn cancel_if_requested(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut tables.servers[server_id];
    if server.cancel.is_requested && server.ledger.owner() == Some(Answerer::Client) {
        server.cancel.is_requested = false;
        start_cancel(tables, step, server_id);
    }
}

/// Sends a cancel to a server's backend.
pub(crate) fn start_cancel(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut tables.servers[server_id];
    // Enough are under way, or it cannot be cancelled.
    let Some(conn) = tables.cancels.start(step, server_id, server) else { return };
    tables.pools[server.pool].counts.cancels += 1;
    timers::arm_canceller(tables, step, conn);
}

/// A server that lost its client goes on answering: it is asked to stop.
pub(crate) fn cancel_drain(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) {
    let server = &mut tables.servers[server_id];
    if server.cancel_drain() {
        start_cancel(tables, step, server_id);
    }
}
