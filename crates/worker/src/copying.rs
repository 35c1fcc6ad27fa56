//! A session ends whose COPY went wrong, and one whose COPY has failed asks on.

use link::copying::SYNC_LOST;
use link::findings::Astray;
use machine::Turn;
use units::ConnId;
use wire::backend::ErrorResponse;
use wire::sqlstate;

use crate::Worker;

impl Worker {
    /// Ends a session as PostgreSQL does that cannot tell any more what it has read.
    pub(super) fn end_astray(&mut self, turn: &mut Turn<'_>, server_id: ConnId, astray: Astray) {
        let Some(server) = self.servers.get_mut(server_id) else { return };
        server.end.close_needed = Some(SYNC_LOST);
        let Some(conn) = server.session() else { return };
        if let (Astray::NoCopyData, Some(session)) = (astray, self.sessions.get(conn)) {
            let message = session.incoming.inbox.first().copied().unwrap_or_default();
            let text = format!("unexpected message type 0x{message:02X} during COPY from stdin");
            let (severity, code) = ("ERROR", sqlstate::PROTOCOL_VIOLATION);
            let told = ErrorResponse { severity, code, message: &text, detail: None, hint: None };
            turn.actions.send_new(conn, |out| told.encode(out));
        }
        self.refuse_session(turn, conn, sqlstate::PROTOCOL_VIOLATION, SYNC_LOST);
    }
}
