//! A server is made what its session believes it to be: parameters first, then settings, then whose rights it has.

use connections::server::Server;
use machine::Turn;
use units::ConnId;
use wire::backend::Fields;

use crate::Worker;

impl Worker {
    /// The server does not accept its session's parameters: as PostgreSQL would not have let it in with them.
    pub(super) fn replay_refused(&mut self, turn: &mut Turn<'_>, server_id: ConnId, error: &[u8]) {
        let Some(conn) = self.servers.get(server_id).and_then(Server::session) else { return };
        let fields = Fields::decode(error);
        let code = fields.sqlstate().unwrap_or(wire::sqlstate::PROTOCOL_VIOLATION);
        let words = String::from_utf8_lossy(fields.message().unwrap_or(b"parameters refused")).into_owned();
        self.refuse_session(turn, conn, code, &words);
    }
}
