//! What a server has by what is known of it, held against what it says itself: the comparison of `chaos_check`.
//!
//! That a value is right is seen by setting it again: it must not change. PostgreSQL does not list settings whose names have a dot,
//! so it is asked for those that sessions of this worker have left on servers, and for those that functions set. Does not see others,
//! and takes for a session's what postgresql.conf gives such a name, or a function that connect_query calls.

use std::collections::BTreeSet;
use std::sync::Arc;

use wire::backend::DataRow;

use super::check::{UNHURRIED, pairs};
use super::prepared::OnServer;
use super::{Base, Identity, State, base};
use crate::parameters::{Tracked, quote_literal};

/// Whether there are temporary objects, holdable cursors, advisory locks, and channels listened to; names of statements;
/// settings; the role, and whether it is another's session. PostgreSQL refuses session_user where that role has just been dropped.
const QUERY: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refclassid = 2615 \
AND refobjid = pg_catalog.pg_my_temp_schema()), \
EXISTS (SELECT FROM pg_catalog.pg_cursor() WHERE is_holdable), \
EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()), \
EXISTS (SELECT FROM pg_catalog.pg_listening_channels()), \
(SELECT pg_catalog.string_agg(pg_catalog.quote_literal(name) || '=''''', ',' ORDER BY name) \
FROM pg_catalog.pg_prepared_statement() WHERE from_sql), \
(SELECT pg_catalog.string_agg(pg_catalog.quote_literal(name) || '=' || pg_catalog.quote_literal(setting), ',' ORDER BY name) \
FROM pg_catalog.pg_settings WHERE source = 'session'), \
pg_catalog.current_setting('role'), \
pg_catalog.current_setting('session_authorization') <> (SELECT pg_catalog.pg_get_userbyid(usesysid) \
FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())), ";

/// Of settings with a dot, those that have a value, unless a library has defined them, or the value is the default of this role or
/// database. Between the two parts stand their names. What is excepted is read once, and only where a value was found.
const FOREIGN: (&str, &str) = (
    "(SELECT pg_catalog.string_agg(pg_catalog.quote_literal(n) || '=' || \
pg_catalog.quote_literal(pg_catalog.current_setting(n, true)), ',' ORDER BY n) FROM pg_catalog.unnest(ARRAY[",
    "NULL]::pg_catalog.text[]) n WHERE pg_catalog.current_setting(n, true) <> '' \
AND n <> ALL (ARRAY(SELECT pg_catalog.lower(name) FROM pg_catalog.pg_settings)) \
AND n || '=' || pg_catalog.current_setting(n, true) <> ALL (ARRAY(\
SELECT pg_catalog.lower(pg_catalog.split_part(c, '=', 1)) || pg_catalog.substr(c, pg_catalog.strpos(c, '=')) \
FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) c, pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) own \
WHERE setdatabase IN (0, own.datid) AND setrole IN (0, own.usesysid)))), ",
);

/// Settings that PostgreSQL accepts and does not list, and those of one transaction.
const UNLISTED: [&[u8]; 5] = [
    b"default_with_oids",
    b"ssl_renegotiation_limit",
    b"transaction_deferrable",
    b"transaction_isolation",
    b"transaction_read_only",
];

/// What a server should answer.
#[derive(Debug)]
pub struct Expectation {
    state: Arc<State>,
    prepared: BTreeSet<Vec<u8>>,
    /// Settings with a dot that the server must not have.
    foreign: Vec<Box<[u8]>>,
}

/// One row of the answer.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    left: [bool; 4],
    prepared: BTreeSet<Vec<u8>>,
    settings: Vec<(Vec<u8>, Vec<u8>)>,
    role: Vec<u8>,
    is_anothers: bool,
    foreign: Vec<(Vec<u8>, Vec<u8>)>,
    own: Vec<u8>,
}

impl Expectation {
    /// `base`: what it began with. `dotted`: settings with a dot that may be on it without being the session's.
    pub fn new(
        state: Option<&Arc<State>>,
        base: &Base,
        on_server: &OnServer,
        dotted: &BTreeSet<Box<[u8]>>,
    ) -> Expectation {
        let prepared = on_server.names().map(<[u8]>::to_vec).collect();
        let state = state.map(Arc::clone).unwrap_or_default();
        let state = if base.is_login() { state } else { Arc::new(state.on(base)) };
        let foreign = dotted.iter().filter(|name| !state.settings.contains_key(*name) && name.is_ascii());
        Expectation { foreign: foreign.cloned().collect(), state, prepared }
    }

    /// Settings with a dot that the server has.
    pub fn dotted(&self) -> impl Iterator<Item = &[u8]> {
        self.state.names().filter(|name| name.contains(&b'.'))
    }

    /// Everything is set again, where that needs nobody else's rights, and the question is asked once more.
    fn is_queried_twice(&self) -> bool {
        self.state.identity.is_login() && !self.state.settings.is_empty()
    }

    /// The question, once or twice.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        self.write_question(out);
        if !self.is_queried_twice() {
            return;
        }
        let mut again = State::clone(&self.state);
        again.settings.retain(|_, setting| setting.by.is_none());
        out.push(b';');
        again.write_difference(&State::default(), &base::LOGIN, out);
        self.write_question(out);
    }

    fn write_question(&self, out: &mut Vec<u8>) {
        if self.state.is_hasty() {
            out.extend_from_slice(UNHURRIED.as_bytes());
        }
        out.extend_from_slice(QUERY.as_bytes());
        out.extend_from_slice(FOREIGN.0.as_bytes());
        for name in &self.foreign {
            quote_literal(name, out);
            out.push(b',');
        }
        out.extend_from_slice(FOREIGN.1.as_bytes());
        // One argument is always there: PostgreSQL refuses concat_ws of a separator alone.
        out.extend_from_slice(b"pg_catalog.concat_ws(',', ''");
        for name in self.state.settings.keys().filter(|name| name.contains(&b'.')) {
            out.extend_from_slice(b", pg_catalog.current_setting(");
            quote_literal(name, out);
            out.extend_from_slice(b", true)");
        }
        out.push(b')');
    }

    /// What is not as it is known, in words. An answer that is missing, or none that was expected, is a difference: nothing has
    /// been compared.
    pub fn difference(&self, rows: &[Vec<u8>], tracked: &Tracked) -> Option<String> {
        // Between the two answers stand the rows of what is set again by set_config.
        let (first, last) = match rows {
            [only] if !self.is_queried_twice() => (only, None),
            [first, .., last] if self.is_queried_twice() => (first, Some(last)),
            _ => return Some(format!("it answers with {} rows", rows.len())),
        };
        let Some(first) = Found::read(first) else { return Some(format!("it answers {}", first.escape_ascii())) };
        let words = ["temporary objects", "holdable cursors", "advisory locks", "channels listened to"];
        if let Some((words, _)) = words.into_iter().zip(first.left).find(|(_, is_left)| *is_left) {
            return Some(format!("it has {words}"));
        }
        if let Some(name) = first.prepared.symmetric_difference(&self.prepared).next() {
            let there = if first.prepared.contains(name) { "has" } else { "lacks" };
            return Some(format!("it {there} the prepared statement {}", name.escape_ascii()));
        }
        let role_known = self.state.identity.role.is_some();
        if role_known != (first.role != b"none") {
            return Some(format!("its role is {}", first.role.escape_ascii()));
        }
        if first.is_anothers && self.state.identity.authorization.is_none() {
            return Some("its session is another's".to_owned());
        }
        if let Some((name, value)) = first.foreign.first() {
            return Some(format!("{} is set to {}", name.escape_ascii(), value.escape_ascii()));
        }
        self.difference_in_names(&first, tracked).or_else(|| match Found::read(last?) {
            Some(again) if again == first => None,
            Some(again) => Some(format!("setting it again changed {first:?} to {again:?}")),
            None => Some(format!("it answers {}", last?.escape_ascii())),
        })
    }

    fn difference_in_names(&self, found: &Found, tracked: &Tracked) -> Option<String> {
        let is_listed = |name: &[u8]| tracked.index(name).is_none() && !UNLISTED.contains(&name);
        let found: BTreeSet<Vec<u8>> = found.settings.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
        let unknown = found.iter().find(|name| is_listed(name) && !self.state.settings.contains_key(&name[..]));
        if let Some(name) = unknown {
            return Some(format!("{} is set", name.escape_ascii()));
        }
        // Some are shown to superusers only.
        let mut known = self.state.settings.keys().filter(|_| self.state.identity == Identity::default());
        let lost = known.find(|name| is_listed(name) && !name.contains(&b'.') && !found.contains(&name[..]));
        lost.map(|name| format!("{} is not set", name.escape_ascii()))
    }
}

impl Found {
    fn read(row: &[u8]) -> Option<Found> {
        let row = DataRow::decode(row).ok()?;
        let columns: Vec<Option<&[u8]>> = row.values().collect();
        let [temporary, hold, advisory, listening, prepared, settings, role, is_anothers, foreign, own] = columns[..]
        else {
            return None;
        };
        let is_true = |column: Option<&[u8]>| column == Some(b"t");
        Some(Found {
            left: [temporary, hold, advisory, listening].map(is_true),
            prepared: pairs(prepared.unwrap_or_default())?.into_iter().map(|(name, _)| name).collect(),
            settings: pairs(settings.unwrap_or_default())?,
            role: role?.to_vec(),
            is_anothers: is_true(is_anothers),
            foreign: pairs(foreign.unwrap_or_default())?,
            own: own.unwrap_or_default().to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Again, SettingChange};
    use super::*;

    fn row(left: &[u8; 4], prepared: &str, settings: &str, role: &str) -> Vec<u8> {
        row_with(left, prepared, settings, role, "")
    }

    fn row_with(left: &[u8; 4], prepared: &str, settings: &str, role: &str, foreign: &str) -> Vec<u8> {
        let mut body = 10_u16.to_be_bytes().to_vec();
        let left = left.iter().map(std::slice::from_ref);
        let rest = [prepared.as_bytes(), settings.as_bytes(), role.as_bytes(), b"f", foreign.as_bytes(), b""];
        for column in left.chain(rest) {
            body.extend((column.len() as i32).to_be_bytes());
            body.extend_from_slice(column);
        }
        body
    }

    fn known() -> Expectation {
        let mut state = State::default();
        for (name, clause) in [("work_mem", "work_mem = '1MB'"), ("app.user", "app.user = '7'")] {
            state.apply(&SettingChange::Set {
                name: name.as_bytes().into(),
                again: Some(Again::Clause(clause.as_bytes().into())),
            });
        }
        let mut server = OnServer::default();
        server.insert(b"p", b"PREPARE p AS SELECT 1"[..].into());
        Expectation::new(
            Some(&Arc::new(state)),
            &base::LOGIN,
            &server,
            &BTreeSet::from([b"app.user"[..].into(), b"app.other"[..].into()]),
        )
    }

    #[test]
    fn each_difference_is_told() {
        let tracked = Tracked::new(&["IntervalStyle".to_owned()]);
        let set = "'TimeZone'='UTC','work_mem'='1024'";
        let table = [
            (row(b"ffff", "'p'=''", set, "none"), None),
            (row(b"tfff", "'p'=''", set, "none"), Some("it has temporary objects")),
            (row(b"ffft", "'p'=''", set, "none"), Some("it has channels listened to")),
            (row(b"ffff", "", set, "none"), Some("it lacks the prepared statement p")),
            (row(b"ffff", "'p'='','q'=''", set, "none"), Some("it has the prepared statement q")),
            (row(b"ffff", "'p'=''", set, "r"), Some("its role is r")),
            (row(b"ffff", "'p'=''", "'work_mem'='1024','jit'='off'", "none"), Some("jit is set")),
            (row(b"ffff", "'p'=''", "", "none"), Some("work_mem is not set")),
            (row_with(b"ffff", "'p'=''", set, "none", "'app.other'='x'"), Some("app.other is set to x")),
        ];
        for (row, difference) in table {
            assert_eq!(known().difference(&[row.clone(), row], &tracked).as_deref(), difference);
        }
        let rows = [row(b"ffff", "'p'=''", set, "none"), row(b"ffff", "'p'=''", "'work_mem'='2048'", "none")];
        let told = known().difference(&rows, &tracked).expect("another value");
        assert!(told.starts_with("setting it again changed"), "{told}");
    }

    #[test]
    fn an_answer_that_is_missing_is_a_difference() {
        let tracked = Tracked::new(&["IntervalStyle".to_owned()]);
        let nothing = Expectation::new(None, &base::LOGIN, &OnServer::default(), &BTreeSet::new());
        let clean = row(b"ffff", "", "", "none");
        assert_eq!(nothing.difference(std::slice::from_ref(&clean), &tracked), None);
        assert_eq!(nothing.difference(&[], &tracked).as_deref(), Some("it answers with 0 rows"));
        assert_eq!(nothing.difference(&[clean.clone(), clean], &tracked).as_deref(), Some("it answers with 2 rows"));
        let set = row(b"ffff", "'p'=''", "'work_mem'='1024'", "none");
        let set_config = b"\0\x01\0\0\0\x01x".to_vec();
        assert_eq!(known().difference(&[set.clone(), set_config.clone(), set.clone()], &tracked), None);
        let lost = known().difference(&[set.clone(), set_config], &tracked).expect("it was asked twice");
        assert!(lost.starts_with("it answers"), "{lost}");
        assert_eq!(known().difference(std::slice::from_ref(&set), &tracked).as_deref(), Some("it answers with 1 rows"));
        let told = known().difference(&[set, b"\0\x01".to_vec()], &tracked).expect("it is no row");
        assert!(told.starts_with("it answers"), "{told}");
    }

    #[test]
    fn the_question_can_always_be_asked() {
        let text = |known: &Expectation| {
            let mut text = Vec::new();
            known.write_text(&mut text);
            String::from_utf8(text).expect("ASCII")
        };
        let nothing = text(&Expectation::new(None, &base::LOGIN, &OnServer::default(), &BTreeSet::new()));
        assert!(nothing.ends_with("pg_catalog.concat_ws(',', '')") && !nothing.contains("timeout"), "{nothing}");
        let mut state = State::default();
        let again = Some(Again::Clause(b"statement_timeout = 1"[..].into()));
        state.apply(&SettingChange::Set { name: b"statement_timeout"[..].into(), again });
        let hasty =
            text(&Expectation::new(Some(&Arc::new(state)), &base::LOGIN, &OnServer::default(), &BTreeSet::new()));
        assert_eq!(hasty.matches(UNHURRIED).count(), 2, "{hasty}");
    }

    #[test]
    fn it_is_asked_twice_where_something_is_set() {
        let mut text = Vec::new();
        known().write_text(&mut text);
        let text = String::from_utf8(text).expect("ASCII");
        assert_eq!(text.matches("pg_my_temp_schema").count(), 2);
        assert!(text.contains("; SELECT") || text.contains(";SET SESSION app.user = '7';"), "{text}");
        assert!(text.contains("pg_catalog.current_setting('app.user', true)"), "{text}");
        // What it has itself is no other session's.
        assert_eq!((text.matches("ARRAY['app.other',NULL]").count(), text.matches("ARRAY[").count()), (2, 2), "{text}");
    }
}
