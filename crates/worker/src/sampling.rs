//! A server is asked what its pool's servers wait for in PostgreSQL, between two transactions.
//!
//! Promises: only for pools whose size is looked for, only while the coordinator wants to know, one at a time on a worker; whoever
//! could have had that server waits for this one short query more, and never hears of it.
//!
//! Does not ask a server that has a session's settings: with another role it might not be shown what the others wait for.

use connections::server::{Chore, Group};
use machine::Turn;
use queueing::waits::{Asked, Waits};
use units::{ConnId, PoolId};

use crate::Worker;

impl Worker {
    /// The coordinator wants to know. An idle server is asked at once, else the next that is released.
    pub(super) fn want_waits(&mut self, turn: &mut Turn<'_>, id: PoolId) {
        let now = turn.now;
        let Some(pool) = self.pool_mut(id) else { return };
        pool.measured.waits.get_or_insert_default().want(now);
        if let Some(&server_id) = pool.servers.idle.back() {
            self.ask_for_waits(turn, server_id);
        }
    }

    /// An idle server. Whether it was asked.
    pub(super) fn ask_for_waits(&mut self, turn: &mut Turn<'_>, server_id: ConnId) -> bool {
        let Some(server) = self.servers.get(server_id) else { return false };
        let id = server.pool;
        let Some(pool) = self.pools.get_mut(id) else { return false };
        let fits = !self.stopping.has_begun() && server.kept.session_state.is_none() && pool.count(Group::Linked) > 0;
        let Some(waits) = pool.measured.waits.as_deref_mut().filter(|waits| fits && waits.is_wanted()) else {
            return false;
        };
        waits.begin(server_id);
        let linked = self.servers.iter().filter(|(_, other)| other.pool == id && other.session().is_some());
        let question = Waits::question(linked.map(|(_, other)| other.backend.pid));
        self.start_chore(turn, server_id, Chore::Waits, &question);
        true
    }

    /// The answer has come to its end.
    pub(super) fn waits_answered(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        if let Some(asked) = self.asked_waits(server_id) {
            asked.answered(turn.now);
        }
        self.free(turn, server_id);
    }

    /// An error is the answer.
    pub(super) fn waits_refused(&mut self, server_id: ConnId) {
        if let Some(asked) = self.asked_waits(server_id) {
            asked.refused();
        }
    }

    fn asked_waits(&mut self, server_id: ConnId) -> Option<&mut Asked> {
        let id = self.servers.get(server_id)?.pool;
        self.pool_mut(id)?.measured.waits.as_deref_mut()
    }
}
