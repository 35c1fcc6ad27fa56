//! What is done about what a server has said.

use link::findings::{Findings, Words};
use machine::Turn;
use units::ConnId;

use crate::Worker;

impl Worker {
    /// Acts upon what a server said. True: nothing else is left to do.
    #[cold]
    pub(super) fn act_on_words(&mut self, turn: &mut Turn<'_>, conn: ConnId, words: Words) -> bool {
        if let Some(astray) = words.astray {
            self.end_astray(turn, conn, astray);
            return true;
        }
        if let Some((code, words)) = words.lost {
            self.server_lost(turn, conn, code, &words);
            return true;
        }
        if let Some(words) = words.dying {
            let Some(server) = self.servers.get_mut(conn) else { return true };
            (server.end.gone, server.end.close_needed) = (true, Some("server is shutting down"));
            if server.session().is_none() || server.end.last_words_told {
                // A client that was told so gets nothing more: what it sends until the connection ends is not answered.
                self.break_server(turn, conn, &words);
                return true;
            }
        }
        if let Some(error) = words.replay_error {
            self.replay_refused(turn, conn, &error);
            return true;
        }
        false
    }

    /// What was defined on a server, or is committed there.
    pub(super) fn act_on_definitions(&mut self, turn: &mut Turn<'_>, conn: ConnId, findings: &mut Findings) {
        for definition in findings.words.iter_mut().flat_map(|words| std::mem::take(&mut words.definitions)) {
            self.definitions.note(self.pools.iter_mut(), turn.now, &definition);
        }
        if findings.settled
            && let Some(id) = self.servers.get(conn).map(|server| server.pool)
        {
            self.tell_settled(turn, id, conn, false);
        }
    }
}
