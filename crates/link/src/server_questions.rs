//! Messages of our own that a server is sent so that what it answers is known to be whole.

use connections::server::{Answerer, Expect, Server};
use machine::Step;
use units::ConnId;
use wire::frontend;
use wire::frontend::{Close, Target};

use crate::requests::ASIDE;

/// A Query of the client's was passed over with what came in front of it: the Sync that ends this is not the client's to
/// send, but its ReadyForQuery is the client's.
pub fn end_skipping(step: &mut Step<'_>, server_id: ConnId, server: &mut Server) {
    if !server.ledger.is_skipping() {
        return;
    }
    server.ledger.sent(Answerer::Client, Expect::Sync);
    step.actions.send_new(server_id, wire::frontend::encode_sync);
}

/// Asks a server for an answer that no Sync has, where it may have answered one or ignored it.
#[inline]
pub fn question_syncs(step: &mut Step<'_>, server_id: ConnId, server: &mut Server) {
    if !server.ledger.needs_question() {
        return;
    }
    server.ledger.sent(Answerer::Prepare, Expect::Close(None));
    server.ledger.sent(Answerer::Prepare, Expect::Sync);
    step.actions.send_new(server_id, |out| {
        Close { target: Target::Portal, name: ASIDE }.encode(out);
        frontend::encode_sync(out);
    });
}
