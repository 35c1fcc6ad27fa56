//! A query that takes longer than `query_timeout`: its cancel, and what becomes of its server if that does not help.

use connections::server::Overdue;
use link::overdue::WORDS;
use link::session::State;
use machine::Turn;
use machine::observe::{Level, Topic};
use units::ConnId;
use wire::sqlstate;

use crate::Worker;

impl Worker {
    /// A session's query runs for longer than it may: it is cancelled.
    pub(super) fn cancel_overdue(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(server_id) = self.sessions.get(conn).and_then(|session| session.server()) else { return };
        let Some(server) = self.servers.get_mut(server_id) else { return };
        if server.backend.secret.is_empty() {
            // It cannot be cancelled.
            self.give_up_overdue(turn, conn);
            return;
        }
        server.cancel.overdue = Overdue::Since(turn.now);
        self.view().tell_of_session(turn, conn, Level::Warning, Topic::PoolerErrors, WORDS.to_owned());
        self.cancel_linked(turn, conn, server_id, WORDS);
        self.arm_session(conn);
    }

    /// The cancel had no effect: the server is closed. Its client is told so, and goes on if nothing else is lost with it.
    pub(super) fn give_up_overdue(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(session) = self.sessions.get(conn) else { return };
        let State::Linked { server } = session.state else { return };
        self.server_lost(turn, server, sqlstate::QUERY_CANCELED, "query timeout");
    }

    /// What its client sends next must not be struck by the cancel of a query that has ended.
    #[cold]
    pub(super) fn wait_for_cancel(&mut self, server_id: ConnId) {
        if let Some(server) = self.servers.get_mut(server_id) {
            server.gate.is_shut |= server.session().is_some();
        }
    }

    /// The last cancel for a linked server is over.
    pub(super) fn strikes_no_more(&mut self, turn: &mut Turn<'_>, server_id: ConnId, conn: ConnId) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        if server.cancel.overdue == Overdue::Answered {
            server.cancel.overdue = Overdue::No;
            self.open_gate(turn, server_id, conn);
        }
    }
}
