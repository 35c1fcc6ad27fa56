//! Deliberate unrest for tests: under `chaos_check` a server is asked, before anybody else gets it, what is left on it; and
//! the process ends if that is anything but what is known of it.
//!
//! Asked when a server has left its session, whether anything was followed in that or not, and when the stranger of
//! `chaos_poison` has left it. Not asked while it stays: what pins a session is looked at when it ends. A server that
//! refuses to answer, or answers something else, ends the process too: nothing has been compared. One that is lost while it
//! is asked is nobody's any more.

use std::collections::{BTreeMap, BTreeSet};

use connections::server::{Answerer, Chore, Expect, State as ServerState};
use machine::Turn;
use machine::observe::{Level, Topic};
use session_state::state::Expectation;
use units::{ConnId, limits};
use wire::frontend::Query;

use crate::Worker;

#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// Servers that somebody has had.
    had: BTreeMap<ConnId, Had>,
    /// Settings with a dot that were left on servers of this worker: at most [`limits::CATALOGUE_SETTINGS_MAX`].
    dotted: BTreeSet<Box<[u8]>>,
}

#[derive(Debug)]
struct Had {
    /// The last session.
    by: ConnId,
    asked: Option<Expectation>,
    /// What it answered: the bodies of DataRows.
    rows: Vec<Vec<u8>>,
    /// Why it did not.
    refused: Option<String>,
}

impl Oracle {
    /// A session has a server from now on.
    pub(super) fn linked(&mut self, server: ConnId, by: ConnId) {
        self.had.insert(server, Had { by, asked: None, rows: Vec::new(), refused: None });
    }

    /// It is to be asked again.
    pub(super) fn forget(&mut self, server: ConnId) {
        if let Some(had) = self.had.get_mut(&server) {
            (had.asked, had.rows, had.refused) = (None, Vec::new(), None);
        }
    }
}

impl Worker {
    /// Whether a server that is free is asked first.
    pub(super) fn consult(&mut self, turn: &mut Turn<'_>, server_id: ConnId) -> bool {
        let Some(oracle) = self.chaos.as_mut().and_then(|chaos| chaos.oracle.as_mut()) else { return false };
        let servers = &self.servers;
        oracle.had.retain(|conn, _| servers.get(*conn).is_some());
        let Some(server) = self.servers.get(server_id).filter(|server| server.end.close_needed.is_none()) else {
            return false;
        };
        let pool = self.pools.get(server.pool).filter(|pool| pool.rules.follows());
        let had = oracle.had.get_mut(&server_id).filter(|had| had.asked.is_none());
        let (Some(pool), Some(had)) = (pool, had) else { return false };
        // What functions set is said by the catalogue, though nobody may have called them.
        let mut dotted = oracle.dotted.clone();
        dotted.extend(pool.names.known.settings().map(Box::from));
        let known = Expectation::new(server.kept.session_state.as_ref(), &server.kept.on_server, &dotted);
        let room = limits::CATALOGUE_SETTINGS_MAX.saturating_sub(oracle.dotted.len());
        let new: Vec<Box<[u8]>> =
            known.dotted().filter(|name| !oracle.dotted.contains(*name)).map(Box::from).take(room).collect();
        oracle.dotted.extend(new);
        let mut text = Vec::new();
        known.write_text(&mut text);
        had.asked = Some(known);
        self.turn_server(turn, server_id, ServerState::Busy(Chore::Compare));
        let Some(server) = self.servers.get_mut(server_id) else { return false };
        server.ledger.sent(Answerer::Check, Expect::Query);
        server.statements.unnamed = session_state::unnamed::NONE;
        turn.actions.send_new(server_id, |out| Query { text: &text }.encode(out));
        turn.actions.watch(server_id, &mut server.flow, true);
        true
    }

    /// A part of a server's answer.
    pub(super) fn consulted(&mut self, server_id: ConnId, rows: Vec<Vec<u8>>) {
        let oracle = self.chaos.as_mut().and_then(|chaos| chaos.oracle.as_mut());
        if let Some(had) = oracle.and_then(|oracle| oracle.had.get_mut(&server_id)) {
            had.rows.extend(rows);
        }
    }

    /// A server answers with an error.
    pub(super) fn consult_refused(&mut self, server_id: ConnId, words: String) {
        let oracle = self.chaos.as_mut().and_then(|chaos| chaos.oracle.as_mut());
        if let Some(had) = oracle.and_then(|oracle| oracle.had.get_mut(&server_id)) {
            had.refused.get_or_insert(words);
        }
    }

    /// The answer is whole: it is held against what is known.
    pub(super) fn compare(&mut self, turn: &mut Turn<'_>, server_id: ConnId) {
        let oracle = self.chaos.as_mut().and_then(|chaos| chaos.oracle.as_mut());
        if let Some(had) = oracle.and_then(|oracle| oracle.had.get_mut(&server_id))
            && let Some(known) = &had.asked
            && let Some(difference) = match &had.refused {
                Some(words) => Some(format!("it refuses to answer: {words}")),
                None => known.difference(&had.rows, &self.caches.tracked),
            }
        {
            let by = had.by;
            let server = self.servers.get(server_id);
            let heard = server.and_then(|server| server.traces.heard.as_deref()).unwrap_or_default();
            let text = format!("chaos_check: {difference}, after: {}", String::from_utf8_lossy(heard));
            if self.sessions.get(by).is_some() {
                self.view().tell_of_session(turn, by, Level::Fatal, Topic::General, text);
            } else {
                self.view().tell_of_server(turn, server_id, Level::Fatal, Topic::General, text);
            }
        }
        self.free(turn, server_id);
    }
}
