//! What the pooler itself asks of a server between two sessions: how that goes on, and what a server needs before it is free.
//!
//! ```text
//!   Draining ──► Busy(Rollback) ──► Busy(Unlisten) ──► Busy(Reset) ──► Idle        each where there is something to do
//! ```

use std::sync::Arc;

use connections::server::{Answerer, Chore, Expect, State};
use link::checking::CLEAR;
use link::listening::UNLISTEN;
use machine::Turn;
use settings::PoolMode;
use units::ConnId;
use wire::backend::Status;
use wire::frontend::Query;

use crate::Worker;

impl Worker {
    /// A clean server that lost its client: reset if its mode wants that, then free.
    pub(super) fn reset_or_free(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get(server_id) else { return };
        let Some(pool) = self.pool(server.pool) else { return };
        let (soiled, listens) = (server.traces.soiled, server.traces.listens);
        let resets = pool.rules.mode == PoolMode::Session || self.settings.global.servers.server_reset_query_always;
        if (soiled || listens || resets) && server.cancel.under_way > 0 {
            // A cancel under way might strike the reset.
            self.turn_server(turn, server_id, State::Draining { read: 0, cancelled: true });
            return;
        }
        if soiled {
            self.start_chore(turn, server_id, Chore::Reset, CLEAR);
        } else if listens {
            self.start_chore(turn, server_id, Chore::Unlisten, UNLISTEN);
        } else if resets && !self.settings.global.servers.server_reset_query.is_empty() {
            let settings = Arc::clone(&self.settings);
            self.start_chore(turn, server_id, Chore::Reset, settings.global.servers.server_reset_query.as_bytes());
        } else {
            self.free(turn, server_id);
        }
    }

    pub(super) fn start_chore(&mut self, turn: &mut Turn<'_>, server_id: ConnId, chore: Chore, query: &[u8]) {
        self.turn_server(turn, server_id, State::Busy(chore));
        let Some(server) = self.servers.get_mut(server_id) else { return };
        server.ledger.sent(Answerer::Chore, Expect::Query);
        server.statements.unnamed = session_state::unnamed::NONE;
        turn.actions.send_new(server_id, |out| Query { text: query }.encode(out));
        turn.actions.watch(server_id, &mut server.flow, true);
    }

    pub(super) fn chore_progress(&mut self, turn: &mut Turn<'_>, conn: ConnId, chore: Chore, error: Option<String>) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        if let Some(words) = error {
            if chore == Chore::Poison {
                self.poison_refused(turn, conn, &words);
                return self.chore_progress(turn, conn, chore, None);
            }
            if chore == Chore::Compare {
                self.consult_refused(conn, words);
                return self.chore_progress(turn, conn, chore, None);
            }
            if chore == Chore::Waits {
                self.waits_refused(conn);
                return self.chore_progress(turn, conn, chore, None);
            }
            if chore.is_of_names() {
                self.names_refused(turn, conn, &words);
                return self.chore_progress(turn, conn, chore, None);
            }
            // Remembered until the answer has come to its end, so that the log tells it once.
            self.break_server(turn, conn, &format!("{} failed: {words}", chore.words()));
            return;
        }
        if !server.ledger.is_clear() || server.incoming.skip > 0 || !server.incoming.inbox.is_empty() {
            return;
        }
        if server.transaction.status != Status::Idle {
            self.break_server(turn, conn, &format!("{} left a transaction open", chore.words()));
            return;
        }
        match chore {
            Chore::Setup => self.server_ready(turn, conn),
            Chore::Rollback => self.reset_or_free(turn, conn),
            Chore::Check | Chore::Reset => self.free(turn, conn),
            Chore::Unlisten => {
                server.traces.listens = false;
                self.reset_or_free(turn, conn);
            }
            Chore::Poison => self.poisoned(turn, conn),
            Chore::Compare => self.compare(turn, conn),
            Chore::Waits => self.waits_answered(turn, conn),
            Chore::Poll | Chore::Catalogue | Chore::First => self.names_answered(turn, conn),
        }
    }
}
