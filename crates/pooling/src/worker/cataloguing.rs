//! Servers are asked what the names of their database hide: one that is idle, when nobody waits.
//!
//! Promises: no client waits for it as long as another server may be opened, and no pool stands still because it fails.

use super::{Turn, Worker};
use crate::catalogue::{self, Next};
use crate::id::ConnId;
use crate::observe::{Level, Topic};
use crate::server::Chore;

impl Worker {
    /// An idle server that nobody waits for.
    pub(super) fn ask_for_names(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get(server_id) else { return };
        let Some(pool) = self.pools[server.pool.0 as usize].as_deref_mut() else { return };
        if self.stop.is_some() || !pool.known.wants(turn.now, pool.idle.len() > 1) {
            return;
        }
        pool.known.begin(server_id, turn.now);
        self.ask_server(turn, server_id, Chore::Poll, catalogue::POLL);
    }

    /// The answer has come to its end.
    pub(super) fn names_answered(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let Some(server) = self.servers.get(server_id) else { return };
        let Some(pool) = self.pools[server.pool.0 as usize].as_deref_mut() else { return };
        match pool.known.answered(turn.now) {
            Next::Read => return self.ask_server(turn, server_id, Chore::Catalogue, catalogue::QUERY),
            Next::Complain => self.tell_of_names(turn, server_id, "the server's answer is not what was expected"),
            Next::Nothing => {}
        }
        self.free(turn, server_id);
    }

    /// An error is the answer, or its end.
    pub(super) fn names_refused(&mut self, turn: &mut Turn<'_>, server_id: ConnId, words: &str) {
        let Some(server) = self.servers.get(server_id) else { return };
        let Some(pool) = self.pools[server.pool.0 as usize].as_deref_mut() else { return };
        if pool.known.refused() {
            self.tell_of_names(turn, server_id, words);
        }
    }

    fn tell_of_names(&self, turn: &mut Turn<'_>, server_id: ConnId, why: &str) {
        let told = format!("what the database's functions do is not known: {why}");
        self.tell_of_server(turn, server_id, Level::Warning, Topic::General, told);
    }

    fn ask_server(&mut self, turn: &mut Turn<'_>, server_id: ConnId, chore: Chore, query: &str) {
        let text = [catalogue::PREFIX.as_bytes(), query.as_bytes()].concat();
        self.start_chore(turn, server_id, chore, &text);
    }
}
