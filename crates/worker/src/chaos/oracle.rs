//! Under `chaos_check` a server is asked for its session state before the next session gets it. The process ends if the
//! answer differs from what the pooler believes is there.
//!
//! A server is asked after each link, and after the statements of `chaos_poison`. It is not asked while it stays
//! linked: the state of a pinned session is compared when the session ends. A server that answers with an error, or
//! with something else, ends the process too, because nothing was compared. A server that is lost while it is asked is
//! ignored.

use std::collections::{BTreeMap, BTreeSet};

use link::pool::Pool;
use link::server::Server;
use session_state::parameters::Tracked;
use session_state::state::Expectation;
use units::{ConnId, limits};

#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// Servers that a session has had.
    had: BTreeMap<ConnId, Had>,
    /// Settings with a dot that were left on servers of this worker: at most [`limits::CATALOGUE_SETTINGS_MAX`].
    dotted: BTreeSet<Box<[u8]>>,
}

#[derive(Debug)]
struct Had {
    /// The last session.
    by: ConnId,
    asked: Option<Expectation>,
    /// Its answer: the bodies of DataRows.
    rows: Vec<Vec<u8>>,
    /// The error, if it answered with one.
    refused: Option<String>,
}

impl Oracle {
    /// A session is linked to a server.
    pub(super) fn linked(&mut self, server: ConnId, by: ConnId) {
        self.had.insert(server, Had { by, asked: None, rows: Vec::new(), refused: None });
    }

    /// The server is to be asked again.
    pub(super) fn forget(&mut self, server: ConnId) {
        if let Some(had) = self.had.get_mut(&server) {
            (had.asked, had.rows, had.refused) = (None, Vec::new(), None);
        }
    }

    pub(super) fn gone(&mut self, server: ConnId) {
        self.had.remove(&server);
    }

    /// The query for a free server, if a session has had it and it was not asked since.
    pub(super) fn question(&mut self, conn: ConnId, server: &Server, pool: &Pool) -> Option<Vec<u8>> {
        let had = self.had.get_mut(&conn).filter(|had| had.asked.is_none())?;
        // Settings that functions of the database set are compared even if no session called the functions.
        let mut dotted = self.dotted.clone();
        dotted.extend(pool.known().settings().map(Box::from));
        let kept = server.kept();
        let known = Expectation::new(kept.session_state(), kept.base(), kept.on_server(), &dotted);
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

    /// The answer is complete. Returns how it differs from what is known, and the session that had the server last.
    pub(super) fn difference(&self, conn: ConnId, server: &Server, tracked: &Tracked) -> Option<(ConnId, String)> {
        let had = self.had.get(&conn)?;
        let known = had.asked.as_ref()?;
        let difference = match &had.refused {
            Some(words) => format!("it refuses to answer: {words}"),
            None => known.difference(&had.rows, tracked)?,
        };
        let last_text = server.traces().last_text();
        Some((had.by, format!("chaos_check: {difference}, after: {}", String::from_utf8_lossy(last_text))))
    }
}
