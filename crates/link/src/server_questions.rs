//! Messages of the pooler that make it certain which answers a server still owes.

use machine::Step;
use units::ConnId;
use wire::frontend;
use wire::frontend::{Close, Target};

use crate::requests::PRELUDE;
use crate::server::{Answerer, Expect, Server};

/// The pooler's statement before a client's Query failed, and the server skipped the Query too. The pooler sends the
/// Sync that ends this; its ReadyForQuery is for the client.
pub fn end_skipping(step: &mut Step<'_>, server_id: ConnId, server: &mut Server) {
    if !server.ledger.is_skipping() {
        return;
    }
    server.ledger.sent(Answerer::Client, Expect::Sync);
    step.actions.send_new(server_id, wire::frontend::encode_sync);
}

/// Sends a Close, whose answer shows whether the server has answered or ignored earlier Syncs.
#[inline]
pub fn question_syncs(step: &mut Step<'_>, server_id: ConnId, server: &mut Server) {
    if !server.ledger.needs_question() {
        return;
    }
    server.ledger.sent(Answerer::Prepare, Expect::Close(None));
    server.ledger.sent(Answerer::Prepare, Expect::Sync);
    step.actions.send_new(server_id, |out| {
        Close { target: Target::Portal, name: PRELUDE }.encode(out);
        frontend::encode_sync(out);
    });
}
