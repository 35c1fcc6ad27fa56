//! A session that was released, and has more at hand.

use link::session::{Session, State};
use machine::Turn;
use units::ConnId;

use crate::Worker;

impl Worker {
    /// A released session has more at hand.
    #[inline(never)]
    pub(super) fn reconsider(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        if let Some(server) = self.sessions.get(conn).and_then(Session::server) {
            return self.go_on_linked(turn, conn, server);
        }
        let idle = self
            .sessions
            .get(conn)
            .is_some_and(|session| matches!(session.state, State::Idle { .. }) && !session.incoming.inbox.is_empty());
        if idle && !self.view().waits_for_listener(conn) {
            self.begin_from_inbox(turn, conn);
        }
    }
}
