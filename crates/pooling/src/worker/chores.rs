//! What the pooler itself asks a server, between its sessions: how that ends.

use wire::backend::Status;

use super::{Turn, Worker};
use crate::id::ConnId;
use crate::server::Chore;

impl Worker {
    pub(super) fn chore_progress(&mut self, turn: &mut Turn<'_>, conn: ConnId, chore: Chore, error: Option<String>) {
        let Some(server) = self.servers.get_mut(conn) else { return };
        if let Some(words) = error {
            if chore == Chore::Poison {
                self.poison_refused(turn, conn, &words);
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
        if !server.ledger.is_clear() || server.skip > 0 || !server.inbox.is_empty() {
            return;
        }
        if server.status != Status::Idle {
            self.break_server(turn, conn, &format!("{} left a transaction open", chore.words()));
            return;
        }
        match chore {
            Chore::Setup => self.server_ready(turn, conn),
            Chore::Rollback => self.reset_or_free(turn, conn),
            Chore::Check | Chore::Reset => self.free(turn, conn),
            Chore::Poison => self.poisoned(turn, conn),
            Chore::Compare => self.compare(turn, conn),
            Chore::Poll | Chore::Catalogue | Chore::First => self.names_answered(turn, conn),
        }
    }
}
