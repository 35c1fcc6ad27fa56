//! A Query that was passed over with what came in front of it: what ends it.

use connections::server::{Answerer, Expect};
use machine::Turn;
use units::ConnId;

use crate::Worker;

impl Worker {
    /// A Query of the client's was passed over with what came in front of it: the Sync that ends this is not the client's to
    /// send, but its ReadyForQuery is the client's.
    pub(super) fn end_skipping(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get_mut(server_id).filter(|server| server.ledger.is_skipping()) else { return };
        server.ledger.sent(Answerer::Client, Expect::Sync);
        turn.actions.send_new(server_id, wire::frontend::encode_sync);
    }
}
