//! Under `chaos_check` a server is asked, before anybody else gets it, what is left on it; and
//! the process ends if that is anything but what is known of it.
//!
//! Asked when a server has left its session, whether anything was followed in that or not, and when the stranger of
//! `chaos_poison` has left it. Not asked while it stays: what pins a session is looked at when it ends. A server that
//! refuses to answer, or answers something else, ends the process too: nothing has been compared. One that is lost while it
//! is asked is nobody's any more.

use std::collections::{BTreeMap, BTreeSet};

use connections::server::Server;
use link::pool::Pool;
use session_state::parameters::Tracked;
use session_state::state::Expectation;
use units::{ConnId, limits};

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

    pub(super) fn gone(&mut self, server: ConnId) {
        self.had.remove(&server);
    }

    /// What a server that is free is asked, if somebody has had it and it was not asked since.
    pub(super) fn question(&mut self, conn: ConnId, server: &Server, pool: &Pool) -> Option<Vec<u8>> {
        let had = self.had.get_mut(&conn).filter(|had| had.asked.is_none())?;
        // What functions set is said by the catalogue, though nobody may have called them.
        let mut dotted = self.dotted.clone();
        dotted.extend(pool.names.known.settings().map(Box::from));
        let known = Expectation::new(server.kept.session_state.as_ref(), &server.kept.on_server, &dotted);
        let room = limits::CATALOGUE_SETTINGS_MAX.saturating_sub(self.dotted.len());
        let new: Vec<Box<[u8]>> =
            known.dotted().filter(|name| !self.dotted.contains(*name)).map(Box::from).take(room).collect();
        self.dotted.extend(new);
        let mut text = Vec::new();
        known.write_text(&mut text);
        had.asked = Some(known);
        Some(text)
    }

    /// A part of a server's answer.
    pub(super) fn rows(&mut self, server: ConnId, rows: Vec<Vec<u8>>) {
        if let Some(had) = self.had.get_mut(&server) {
            had.rows.extend(rows);
        }
    }

    /// A server answers with an error.
    pub(super) fn refused(&mut self, server: ConnId, words: String) {
        if let Some(had) = self.had.get_mut(&server) {
            had.refused.get_or_insert(words);
        }
    }

    /// The answer is whole: how it differs from what is known, and the session that had the server last.
    pub(super) fn difference(&self, conn: ConnId, server: &Server, tracked: &Tracked) -> Option<(ConnId, String)> {
        let had = self.had.get(&conn)?;
        let known = had.asked.as_ref()?;
        let difference = match &had.refused {
            Some(words) => format!("it refuses to answer: {words}"),
            None => known.difference(&had.rows, tracked)?,
        };
        let last_text = server.traces.last_text.as_deref().unwrap_or_default();
        Some((had.by, format!("chaos_check: {difference}, after: {}", String::from_utf8_lossy(last_text))))
    }
}
