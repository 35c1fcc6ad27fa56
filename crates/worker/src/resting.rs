//! A client that has prepared and described, without a Sync, and is silent: its server is somebody else's who waits.
//!
//! asyncpg's `prepare()` ends in Flush; the application may execute what it prepared much later. What a Parse does outlasts its
//! server here, so the Sync that PostgreSQL waits for is sent in the client's stead, and its answer is not the client's. When
//! that goes on, it gets a server as any other.
//!
//! Does not do: ending anything that was bound or executed, or whose text is too long to be told to another server.
//!
//! //= pg18 protocol-flow#PROTOCOL-FLOW-EXT-QUERY

use connections::server::{Answerer, Expect, Server};
use link::pool::Pool;
use link::session::Session;
use machine::Turn;
use settings::PoolMode;
use units::{ConnId, PoolId};
use wire::backend::Status;
use wire::frontend;

use crate::Worker;

impl Worker {
    /// A linked server has answered something.
    #[inline]
    pub(super) fn note_rest(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        if self.servers.get(server_id).is_some_and(|server| server.ledger.is_at_rest()) {
            self.rest(turn, server_id);
        }
    }

    #[cold]
    fn rest(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get(server_id) else { return };
        let id = server.pool;
        let servers = &self.servers;
        let Some(pool) = self.pools.get_mut(id) else { return };
        // Those that have gone on since are of no use.
        pool.servers.resting.retain(|&other| {
            other != server_id
                && servers.get(other).is_some_and(|server| server.ledger.is_at_rest() && server.pool == id)
        });
        pool.servers.resting.push(server_id);
        if pool.queue.is_hungry() {
            self.end_a_rest(turn, id);
        }
    }

    /// Nobody waits here. On another worker somebody may.
    pub(super) fn rest_for_a_stranger(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let rests = self.pool(id).filter(|pool| !pool.servers.resting.is_empty());
        if rests.is_some_and(|pool| self.view().stranger(turn.now, turn.board, pool).is_some()) {
            self.end_a_rest(turn, id);
        }
    }

    /// Somebody waits for a server of this pool.
    pub(super) fn end_a_rest(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        while let Some(server_id) = self.pool_mut(id).and_then(|pool| pool.servers.resting.pop()) {
            let Some(server) = self.servers.get_mut(server_id) else { continue };
            let Some(session) = server.session().and_then(|session| self.sessions.get_mut(session)) else { continue };
            let Some(pool) = self.pools.get_mut(id) else { return };
            if server.pool == id && may_end(pool, session, server) {
                if let Some(unnamed) = &mut session.statements.unnamed {
                    unnamed.batch_ended();
                }
                server.ledger.sent(Answerer::Prepare, Expect::Sync);
                // That is no query of its client's; but whoever waits is not to wait for ever for a server that says nothing.
                server.transaction.query_at = turn.now;
                turn.actions.send_new(server_id, frontend::encode_sync);
                return;
            }
        }
    }
}

/// Whether a server's client has nothing there that it could not have elsewhere, and is silent.
fn may_end(pool: &Pool, session: &Session, server: &Server) -> bool {
    let rules = &pool.rules;
    let mapped = rules.follows() && rules.mode != PoolMode::Session && rules.max_prepared_statements > 0;
    let silent = !server.gate.is_shut
        && session.incoming.skip == 0
        && session.incoming.inbox.is_empty()
        && server.is_between_messages();
    let keeps = session.statements.unnamed.as_ref().is_none_or(|unnamed| !unnamed.is_in_batch() || unnamed.is_kept());
    mapped && silent && keeps && server.transaction.status == Status::Idle && server.ledger.is_at_rest()
}
