//! Under `chaos_poison` a made-up session, the poisoner, uses every server between two sessions.
//!
//! ```text
//!   free ──► the stranger's statements ──► noted as a client's are ──► cleared, where a client's would be ──► idle
//! ```
//!
//! The poisoner leaves session state on the server. A tracker of its own notes what its statements do, by the same code
//! as for clients, and then it ends like a client that disconnects. So the next client must not see any of it. It does
//! nothing where session state is not followed: in session mode, and at fidelity `classic`.

use std::collections::{BTreeMap, BTreeSet};

use link::caches::Caches;
use link::server::Server;
use session_state::catalogue::Known;
use session_state::state::{Effects, State};
use session_state::tracker::{Seen, Tracker};
use sql::Text;
use units::{ConnId, PoolId};

use super::dice::Dice;

/// Every user may set these.
const SETTINGS: [&str; 22] = [
    "SET search_path = ''",
    "SET default_transaction_read_only = on",
    "SET default_transaction_isolation = 'serializable'",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY, DEFERRABLE",
    "SET app.user_id = 'poison'",
    // Both are long enough that the statement which resets them is not cancelled.
    "SET statement_timeout = '61s'",
    "SET lock_timeout TO 71000",
    "SET enable_seqscan = off",
    "SET enable_indexscan TO 'off'",
    "SET enable_hashjoin = off",
    "SET bytea_output = 'escape'",
    "SET extra_float_digits = -15",
    "SET row_security = off",
    "SET client_min_messages = 'error'",
    "SET xmloption = document",
    "SET array_nulls = off",
    "SET standard_conforming_strings = off",
    "SET client_encoding = 'LATIN1'",
    "SET TIME ZONE 'Asia/Kathmandu'",
    "SET DateStyle = 'German'",
    "SET IntervalStyle = 'sql_standard'",
    "SET application_name = 'poison'",
];

/// Only some users may run these. The role exists in every PostgreSQL.
const PRIVILEGED: [&str; 3] =
    ["SET ROLE pg_monitor", "SET SESSION AUTHORIZATION pg_monitor", "SET session_replication_role = replica"];

/// State that cannot be set again on another server. The names occur in PostgreSQL's regression tests.
const PINNING: [&str; 5] = [
    "CREATE TEMPORARY TABLE IF NOT EXISTS onek (poison integer)",
    "DECLARE poison CURSOR WITH HOLD FOR SELECT 'poison'",
    "SELECT pg_catalog.set_config('app.user_id', 'poison', false)",
    "LISTEN poison",
    "SELECT pg_catalog.pg_try_advisory_lock(4711)",
];

/// A failed transaction does not undo these, so they come last.
const PREPARING: [&str; 3] =
    ["PREPARE p1 AS SELECT 'poison'", "PREPARE q1 (integer) AS SELECT $1", "PREPARE \"Q\" AS SELECT 'poison'"];

#[derive(Debug, Default)]
pub(super) struct Poisoner {
    /// The statements sent to each server since the last session had it.
    said: BTreeMap<ConnId, Said>,
    /// Pools whose user may not run the privileged statements.
    unprivileged: BTreeSet<PoolId>,
}

#[derive(Debug)]
struct Said {
    text: String,
    /// The server rolled it back, except what a rollback does not undo.
    failed: bool,
}

impl Poisoner {
    /// A session got the server, or the server is gone.
    pub(super) fn forget(&mut self, server: ConnId) {
        self.said.remove(&server);
    }

    /// The poisoner's statements for a free server, unless it has had them since the last session.
    pub(super) fn poison(
        &mut self,
        conn: ConnId,
        server: &mut Server,
        dice: &mut Dice,
        caches: &mut Caches,
    ) -> Option<Vec<u8>> {
        if self.said.contains_key(&conn) {
            return None;
        }
        let rules = caches.reader.rules(server.kept().parameters())?;
        let text = compose(dice, !self.unprivileged.contains(&server.pool()));
        // As for a session: first undo what others have set, then deallocate their statements of the same names.
        let mut query = Vec::new();
        if let Some(found) = server.kept().session_state() {
            State::default().write_difference(found, server.kept().base(), &mut query);
        }
        let effects = Effects::read(&Text::new(text.as_bytes(), rules), &caches.tracked);
        let known = Known::default();
        for statement in
            Tracker::default().remedy(&effects, None, server.kept_mut().on_server_mut(), &known, &Seen::None)
        {
            query.extend_from_slice(&statement);
            query.push(b';');
            // A DEALLOCATE is never rolled back, so this holds even if a later statement fails.
            server.kept_mut().on_server_mut().done();
        }
        query.extend_from_slice(text.as_bytes());
        self.said.insert(conn, Said { text, failed: false });
        server.traces_mut().note_text(&query);
        Some(query)
    }

    /// A statement of the poisoner failed: the server has rolled all of them back.
    pub(super) fn refused(&mut self, server: ConnId, pool: PoolId) {
        self.unprivileged.insert(pool);
        if let Some(said) = self.said.get_mut(&server) {
            said.failed = true;
        }
    }

    /// The poisoner has all its answers, and leaves the server.
    pub(super) fn leave(&self, conn: ConnId, server: &mut Server, caches: &mut Caches) {
        // It sent nothing, or its statements failed.
        let Some(said) = self.said.get(&conn).filter(|said| !said.failed) else { return };
        let text = said.text.as_bytes();
        let mut tracker = Box::new(Tracker::default());
        let mut known = Known::default();
        tracker.suspect(caches.reader.read(text, server.kept().parameters(), &mut known), text, &known);
        let rules = caches.reader.rules(server.kept().parameters()).unwrap_or_default();
        let effects = Effects::read(&Text::new(text, rules), &caches.tracked);
        let count = effects.statements();
        tracker.sent(effects, text);
        for _ in 0..count {
            // None of its statements depends on its command tag.
            tracker.confirmed(b"SET\0", server.places(&caches.tracked));
        }
        tracker.under_way.finished();
        link::checking::part(server, Some(tracker));
    }
}

/// A random choice of statements. Those that may fail come before those that no rollback undoes.
fn compose(dice: &mut Dice, privileged: bool) -> String {
    let mut parts: Vec<&str> = SETTINGS.into_iter().filter(|_| dice.below(4) == 0).collect();
    if privileged && dice.below(2) == 0 {
        let place = if dice.below(4) == 0 { 0 } else { parts.len() };
        parts.insert(place, PRIVILEGED[dice.below(PRIVILEGED.len())]);
    }
    if dice.below(6) == 0 {
        parts.push(PINNING[dice.below(PINNING.len())]);
    }
    parts.extend(PREPARING.into_iter().filter(|_| dice.below(3) == 0));
    if parts.is_empty() {
        parts.push(SETTINGS[0]);
    }
    parts.join(";")
}
