//! A server is made what its session believes it to be: parameters first, then settings, then whose rights it has.

use std::sync::Arc;

use connections::server::{Answerer, Expect, Server};
use machine::Turn;
use session_state::parameters::{Parameters, Reported};
use session_state::spelling::{Learnt, Told};
use session_state::state::Risk;
use units::ConnId;
use wire::backend::{Fields, ParameterStatus, Status};
use wire::frontend::Query;

use crate::Worker;

impl Worker {
    /// The server accepted its session's parameters; they are now what the server reports.
    pub(super) fn replayed(&mut self, turn: &mut Turn<'_>, server_id: ConnId, conn: ConnId) {
        let (Some(session), Some(server)) = (self.sessions.get_mut(conn), self.servers.get_mut(server_id)) else {
            return;
        };
        let first = !std::mem::replace(&mut session.confirmed, true);
        if first {
            let begun_with = std::mem::replace(&mut session.parameters, Arc::clone(&server.kept.parameters));
            session.reset_to = Some(Arc::clone(&server.kept.parameters));
            self.confirm(turn, server_id, conn, &begun_with);
        }
    }

    /// A session has what it began with, for the first time, on a server. Its client is told what that calls otherwise than the
    /// client was told at its login, and the pool learns it.
    pub(super) fn confirm(&mut self, turn: &mut Turn<'_>, server_id: ConnId, conn: ConnId, begun_with: &Parameters) {
        let (Some(session), Some(server)) = (self.sessions.get_mut(conn), self.servers.get_mut(server_id)) else {
            return;
        };
        let Some(pool) = self.pools.get_mut(session.pool) else { return };
        let Some(base) = &pool.welcome.base else { return };
        let mut news = Vec::new();
        for (index, name) in self.caches.tracked.names().enumerate() {
            let value = server.kept.parameters.get(index).filter(|value| begun_with.get(index) != Some(value));
            if let Some(value) = value {
                ParameterStatus { name: name.as_bytes(), value }.encode(&mut news);
            }
        }
        let told = session.tracker.as_ref().and_then(|tracker| tracker.told.clone()).unwrap_or_default();
        let of = |list: &Reported, name: &[u8]| {
            list.iter().find(|(known, _)| **known == *name).map(|(_, value)| value.clone())
        };
        for (name, begins) in base.reported.iter().filter(|(name, _)| self.caches.tracked.index(name).is_none()) {
            let value = of(&server.kept.reported, name).unwrap_or_else(|| begins.clone());
            if value != of(&told, name).unwrap_or_else(|| begins.clone()) {
                ParameterStatus { name, value: &value }.encode(&mut news);
            }
        }
        if news.is_empty() {
            return;
        }
        turn.actions.send_new(conn, |out| out.extend_from_slice(&news));
        let others = Arc::new(server.kept.reported.clone());
        let state = session.tracker.as_ref().map(|tracker| &**tracker.state());
        if let Some(key) = Learnt::key(begun_with, state, base, &self.caches.tracked) {
            pool.welcome.learnt.learn(key, Told { parameters: Arc::clone(&server.kept.parameters), others });
        }
    }

    /// A session that keeps its server for now has reset what it began with. The server knows nothing of that and has gone
    /// back to its own: it is told, in front of the client's next message.
    pub(super) fn mend(&mut self, turn: &mut Turn<'_>, server_id: ConnId, conn: ConnId) {
        let (Some(session), Some(server)) = (self.sessions.get_mut(conn), self.servers.get_mut(server_id)) else {
            return;
        };
        let Some(tracker) = session.tracker.as_mut().filter(|tracker| tracker.is_reverted()) else { return };
        let stays =
            server.gate.is_shut || server.transaction.status == Status::InTransaction || tracker.pinning.keeps();
        // A failed transaction takes nothing, and a batch without its Sync would end with what is put behind it.
        let takes = server.transaction.status != Status::Failed
            && !server.ledger.awaits_own_ready()
            && !server.ledger.is_open();
        if !stays || !takes {
            return;
        }
        let Some(found) = tracker.take_reverted() else { return };
        let mut text = Vec::new();
        session.parameters.write_difference(&server.kept.parameters, &self.caches.tracked, &mut text);
        let risk = tracker.state().write_difference(&found, &mut text);
        if text.is_empty() {
            return;
        }
        server.ledger.sent(Answerer::Mend, Expect::Query);
        server.statements.unnamed = session_state::unnamed::NONE;
        server.gate.is_shut |= risk == Risk::High;
        turn.actions.send_new(server_id, |out| Query { text: &text }.encode(out));
    }

    /// The server does not accept its session's parameters: as PostgreSQL would not have let it in with them.
    pub(super) fn replay_refused(&mut self, turn: &mut Turn<'_>, server_id: ConnId, error: &[u8]) {
        let Some(conn) = self.servers.get(server_id).and_then(Server::session) else { return };
        let fields = Fields::decode(error);
        let code = fields.sqlstate().unwrap_or(wire::sqlstate::PROTOCOL_VIOLATION);
        let words = String::from_utf8_lossy(fields.message().unwrap_or(b"parameters refused")).into_owned();
        self.refuse_session(turn, conn, code, &words);
    }
}
