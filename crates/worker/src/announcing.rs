//! What clients define: which pools here learn it, and when a session may send what it waits to send.

use std::sync::Arc;

use link::other_workers::OtherWorkers;
use link::session::State;
use machine::Turn;
use machine::mail::ToWorker;
use session_state::catalogue::Definition;
use units::{ConnId, PoolId, WorkerId};

use crate::Worker;

impl Worker {
    pub(super) fn other_workers(&self) -> OtherWorkers {
        OtherWorkers::of(self.id, self.settings.workers)
    }

    /// Another worker's client defines something.
    pub(super) fn hear_of_definition(
        &mut self,
        turn: &mut Turn<'_>,
        definition: Arc<Definition>,
        session: Option<ConnId>,
    ) {
        self.definitions.note(self.pools.iter_mut(), turn.now, &definition);
        if let Some(session) = session {
            let to = WorkerId(session.owner());
            turn.actions.post_to_worker(to, ToWorker::Noted { definition, session });
        }
    }

    /// Another worker's pools know what a session here is about to define.
    pub(super) fn definition_noted(&mut self, turn: &mut Turn<'_>, conn: ConnId, definition: &Arc<Definition>) {
        let Some(session) = self.sessions.get_mut(conn) else { return };
        let Some(announcement) = session.tracker.as_mut().and_then(|tracker| tracker.announcement.as_mut()) else {
            return;
        };
        if !Arc::ptr_eq(&announcement.definition, definition) {
            return;
        }
        announcement.missing -= 1;
        let State::Linked { server } = session.state else { return };
        if announcement.missing > 0 || session.waits_for_listener() {
            return;
        }
        if let Some(server) = self.servers.get_mut(server).filter(|server| server.gate.is_shut) {
            server.gate.is_shut = false;
            self.requests_from_inbox(turn, conn);
            self.balance_if_paused(turn, conn);
        }
    }

    /// A transaction is over that has defined something on this server, or the server is gone.
    #[cold]
    pub(super) fn tell_settled(&mut self, turn: &mut Turn<'_>, id: PoolId, server: ConnId, lost: bool) {
        if self.definitions.is_of(server) {
            self.definitions.settle(self.pools.iter_mut(), turn.now, server, lost);
            self.other_workers().post(turn.actions, || ToWorker::Settled { server, lost });
        } else if let Some(pool) = self.pool_mut(id) {
            // What no other pool is to know.
            pool.names.known.settle(server, turn.now, lost);
        }
    }
}
