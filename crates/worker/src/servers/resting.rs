//! A client that has sent Parse and Describe without a Sync, and then nothing, gives up its server if another session
//! waits.
//!
//! asyncpg's `prepare()` ends in Flush, and the application may execute the statement much later. The pooler keeps
//! prepared statements across servers, so it sends the Sync that PostgreSQL waits for itself, and does not forward the
//! answer. When the client goes on, it gets a server like any other.
//!
//! This is not done if anything was bound or executed, or if the text is too long to be prepared on another server.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use link::pool::Pool;
use link::server::{Answerer, Expect, Server};
use link::session::Session;
use settings::PoolMode;
use units::{ConnId, PoolId};
use wire::backend::Status;
use wire::frontend;

use crate::tables::lookups;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

/// A linked server has answered something.
#[inline]
pub(crate) fn note_rest(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
) {
    if servers.get(server_id).is_some_and(|server| server.ledger().is_at_rest()) {
        rest(sessions, servers, pools, step, server_id);
    }
}

#[cold]
fn rest(sessions: &mut Sessions, servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    let server = &servers[server_id];
    let id = server.pool();
    let pool = &mut pools[id];
    // Servers whose clients have gone on since are removed.
    pool.servers_mut().note_resting(server_id, |other| {
        servers.get(other).is_some_and(|server| server.ledger().is_at_rest() && server.pool() == id)
    });
    if pool.queue().has_waiters() {
        end_a_rest(sessions, servers, pools, step, id);
    }
}

/// No session waits here, but one on another worker may.
pub(crate) fn rest_for_a_stranger(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
) {
    let pool = &pools[id];
    if pool.servers().has_resting() && lookups::stranger(step, pool).is_some() {
        end_a_rest(sessions, servers, pools, step, id);
    }
}

/// A session waits for a server of this pool: frees a resting one.
pub(crate) fn end_a_rest(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
) {
    while let Some(server_id) = pools[id].servers_mut().take_resting() {
        // Since it was noted it may have been closed or released.
        let Some(server) = servers.get_mut(server_id) else { continue };
        let Some(session) = server.session().map(|session| &mut sessions[session]) else { continue };
        if server.pool() == id && may_end(&pools[session.pool()], session, server) {
            session.statements_mut().batch_ended();
            server.ledger_mut().sent(Answerer::Prepare, Expect::Sync);
            // The Sync is no query of the client, but its answer has the timeout of a query, so that the waiter does
            // not wait for ever.
            server.transaction_mut().query_sent(step.now);
            step.actions.send_new(server_id, frontend::encode_sync);
            return;
        }
    }
}

/// Whether a server's client sends nothing and has nothing there that another server could not have.
fn may_end(pool: &Pool, session: &Session, server: &Server) -> bool {
    let rules = pool.rules();
    let mapped = rules.follows() && rules.mode() != PoolMode::Session && rules.max_prepared_statements() > 0;
    let silent = !server.hold().is_on()
        && session.incoming().skip() == 0
        && session.incoming().inbox().is_empty()
        && server.is_between_messages();
    let keeps = session.statements().unnamed().is_none_or(|unnamed| !unnamed.is_in_batch() || unnamed.is_kept());
    mapped && silent && keeps && server.transaction().status() == Status::Idle && server.ledger().is_at_rest()
}
