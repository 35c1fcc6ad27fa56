//! The query by which the pooler learns whether state is left on a server that no text and no command tag has shown.
//!
//! Sent outside of a transaction, after the client's ReadyForQuery: it costs the server's time, not the client's, unless that began with
//! settings of its own, which code may have reset: then its next message waits.
//! About 80 µs without settings, 1.2 ms with them (PostgreSQL 15).

use wire::backend::DataRow;

use super::effects::is_identity;
use super::{Base, State};
use crate::parameters::quote_literal;
use crate::pins::Pins;

/// One row: temporary objects, holdable cursors, advisory locks, each `t` or `f`; names and values of settings that were
/// SET, or NULL if they were not asked for ([`SETTINGS`], [`NO_SETTINGS`]); names and values of settings that were asked
/// for by name. Both are literals as `'name'='value','name'='value'`. Which role's rights the session has is no setting that is
/// listed: that is asked for by name.
///
/// All that is temporary depends on its schema: that is one step in an index, however many tables there are.
pub const QUERY: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_depend WHERE refclassid = 2615 \
AND refobjid = pg_catalog.pg_my_temp_schema()), \
EXISTS (SELECT FROM pg_catalog.pg_cursor() WHERE is_holdable), \
EXISTS (SELECT FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()), ";
const FIRST_COLUMNS: [Pins; 3] = [Pins::TEMPORARY, Pins::HOLD, Pins::ADVISORY];
pub(crate) const UNHURRIED: &str = "SET LOCAL statement_timeout = 0;";

/// A lock on a table of PostgreSQL's catalogue holds back every query that reads the table.
const LOCKS_SOON: &str = "SET LOCAL lock_timeout = 1000;";
pub(crate) const LOCK_TIMEOUT: &[u8] = b"lock_timeout";
pub(crate) const NO_SETTINGS: &str = "NULL";
pub const SETTINGS: &str = "(SELECT pg_catalog.string_agg(pg_catalog.quote_literal(name) || '=' || \
pg_catalog.quote_literal(setting), ',' ORDER BY name) FROM pg_catalog.pg_settings WHERE source = 'session')";

/// Empty if it is the login's own.
const AUTHORIZATION: &str = "'''session_authorization''=' || pg_catalog.quote_literal(COALESCE(NULLIF(session_user, \
(SELECT pg_catalog.pg_get_userbyid(usesysid) FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()))), ''))";
const ROLE: &str = " || ',''role''=' || pg_catalog.quote_literal(COALESCE(NULLIF(\
pg_catalog.current_setting('role'), 'none'), ''))";

/// The role that RESET ROLE gives the login by ALTER ROLE or ALTER DATABASE: nothing if there is none.
//= pg18 config-setting#CONFIG-SETTING-SQL
const ROLE_BY_RESET: &str = " || COALESCE((SELECT ',''role by reset''=' || pg_catalog.quote_literal(pg_catalog.substr(c, 6)) \
FROM pg_catalog.pg_db_role_setting, pg_catalog.unnest(setconfig) c, pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) own \
WHERE setdatabase IN (0, own.datid) AND setrole IN (0, own.usesysid) AND pg_catalog.left(c, 5) = 'role=' \
ORDER BY setrole <> 0 DESC, setdatabase <> 0 DESC LIMIT 1), '')";
/// How it is named in the answer.
pub(super) const BY_RESET: &[u8] = b"role by reset";

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    pub(crate) with_settings: bool,
    /// Which role's rights the session has.
    pub(crate) with_identity: bool,
    /// Which role RESET ROLE gives the session.
    pub(crate) with_role_by_reset: bool,
    /// Whether the session's own statement_timeout might be too short for it. It stays where settings are listed: what is
    /// set for the question would be listed, too.
    pub is_hasty: bool,
    /// It fails after a second if a lock on PostgreSQL's catalogue holds it back. The setting for that is not listed.
    pub(crate) locks_soon: bool,
    /// Settings by name.
    pub names: Vec<Box<[u8]>>,
}

/// What was learnt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    pub pins: Pins,
    /// Names and values as PostgreSQL shows them, if they were asked for.
    pub settings: Option<Vec<Pair>>,
    /// Those that were asked for by name; empty: not set.
    pub named: Vec<Pair>,
}

impl Checked {
    /// Of what the session began with, what was reset out of sight: the server does not list it as set any more. PostgreSQL's direct
    /// connection would have its value again.
    /// `now`: what the session has as far as is known; `says_reset`: the text that has run says RESET. Settings with a dot are not listed: one
    /// that is empty was set to nothing otherwise, or had been before.
    pub(crate) fn reset(&self, first: &State, now: &State, says_reset: bool) -> Vec<Box<[u8]>> {
        let Some(settings) = &self.settings else { return Vec::new() };
        let is_listed = |name: &[u8]| is_in(settings, name);
        let is_empty = |name: &[u8]| self.named.iter().any(|(found, value)| **found == *name && value.is_empty());
        let is_reset = |name: &&[u8]| match name.contains(&b'.') {
            true => says_reset && is_empty(name) && !now.is_set_to_nothing(name),
            false => !is_listed(name),
        };
        first.names().filter(is_reset).map(Box::from).collect()
    }

    /// The server would list this setting if it were set, and does not.
    pub(crate) fn is_unlisted(&self, name: &[u8]) -> bool {
        let is_listable = !name.contains(&b'.') && !is_identity(name);
        self.settings.as_ref().is_some_and(|settings| is_listable && !is_in(settings, name))
    }

    /// The names of the settings of a server's base that it no longer has, unless its session has set them to an empty value.
    pub(crate) fn lost(&self, check: &Check, base: &Base, state: &State) -> Vec<Box<[u8]>> {
        let listed = |name: &[u8]| self.settings.iter().flatten().any(|(found, _)| found.eq_ignore_ascii_case(name));
        let unset = |name: &[u8]| self.named.iter().any(|(found, value)| **found == *name && value.is_empty());
        let lost = |name: &&[u8]| match () {
            () if is_identity(name) => false,
            () if name.contains(&b'.') => unset(name) && !state.has(name),
            () => check.with_settings && !listed(name),
        };
        base.all_names().filter(lost).map(Box::from).collect()
    }
}

fn is_in(pairs: &[Pair], name: &[u8]) -> bool {
    pairs.iter().any(|(found, _)| found.eq_ignore_ascii_case(name))
}

/// A setting's name and its value as PostgreSQL shows it.
pub type Pair = (Vec<u8>, Vec<u8>);

impl Check {
    pub fn write_text(&self, out: &mut Vec<u8>) {
        if self.is_hasty && !self.with_settings && self.names.is_empty() {
            out.extend_from_slice(UNHURRIED.as_bytes());
        }
        if self.locks_soon {
            out.extend_from_slice(LOCKS_SOON.as_bytes());
        }
        out.extend_from_slice(QUERY.as_bytes());
        out.extend_from_slice(if self.with_settings { SETTINGS } else { NO_SETTINGS }.as_bytes());
        out.extend_from_slice(b", ");
        if self.with_identity {
            out.extend_from_slice(AUTHORIZATION.as_bytes());
            out.extend_from_slice(ROLE.as_bytes());
            if self.with_role_by_reset {
                out.extend_from_slice(ROLE_BY_RESET.as_bytes());
            }
        } else {
            out.extend_from_slice(b"''");
        }
        for (index, name) in self.names.iter().enumerate() {
            let comma: &[u8] = if index > 0 || self.with_identity { b"," } else { b"" };
            out.extend_from_slice(b" || '");
            out.extend_from_slice(comma);
            out.extend_from_slice(b"' || pg_catalog.quote_literal(");
            quote_literal(name, out);
            out.extend_from_slice(b") || '=' || pg_catalog.quote_literal(COALESCE(pg_catalog.current_setting(");
            quote_literal(name, out);
            out.extend_from_slice(b", true), ''))");
        }
    }

    /// Reads the answer; `None`: it is none that was expected.
    pub(crate) fn read(&self, row: &[u8]) -> Option<Checked> {
        let row = DataRow::decode(row).ok()?;
        let columns: Vec<Option<&[u8]>> = row.values().collect();
        let [temporary, hold, advisory, settings, named] = columns[..] else { return None };
        let mut pins = Pins::NONE;
        for (column, pin) in [temporary, hold, advisory].into_iter().zip(FIRST_COLUMNS) {
            match column {
                Some(b"t") => pins |= pin,
                Some(b"f") => {}
                _ => return None,
            }
        }
        let mut settings = match self.with_settings {
            true => Some(pairs(settings.unwrap_or_default())?),
            false => None,
        };
        if let Some(settings) = settings.as_mut().filter(|_| self.locks_soon) {
            settings.retain(|(name, _)| !name.eq_ignore_ascii_case(LOCK_TIMEOUT));
        }
        Some(Checked { pins, settings, named: pairs(named?)? })
    }
}

/// `'name'='value','name'='value'`, as quote_literal writes them.
pub(super) fn pairs(text: &[u8]) -> Option<Vec<Pair>> {
    let (mut pairs, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let (name, behind) = literal(rest)?;
        let (value, behind) = literal(behind.strip_prefix(b"=")?)?;
        pairs.push((name, value));
        rest = match behind {
            [] => behind,
            [b',', more @ ..] => more,
            _ => return None,
        };
    }
    Some(pairs)
}

/// One literal, and what stands behind it. //= pg18 functions-string (quote_literal)
fn literal(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (escapes, inside) = match text {
        [b'E', b'\'', rest @ ..] => (true, rest),
        [b'\'', rest @ ..] => (false, rest),
        _ => return None,
    };
    let (mut value, mut at) = (Vec::new(), 0);
    loop {
        match (inside.get(at)?, inside.get(at + 1)) {
            (b'\'', Some(b'\'')) => (value.push(b'\''), at += 2),
            (b'\'', _) => return Some((value, &inside[at + 1..])),
            (b'\\', Some(b'\\')) if escapes => (value.push(b'\\'), at += 2),
            (&byte, _) => (value.push(byte), at += 1),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(columns: &[Option<&[u8]>]) -> Vec<u8> {
        let mut body = (columns.len() as u16).to_be_bytes().to_vec();
        for column in columns {
            body.extend(column.map_or(-1, |column| column.len() as i32).to_be_bytes());
            body.extend_from_slice(column.unwrap_or_default());
        }
        body
    }

    fn check(with_settings: bool) -> Check {
        Check { with_settings, with_identity: with_settings, ..Check::default() }
    }

    #[test]
    fn the_row_tells_what_is_left_behind() {
        let found = row(&[Some(b"t"), Some(b"f"), Some(b"t"), None, Some(b"")]);
        let checked = check(false).read(&found).expect("it is a row");
        assert_eq!((checked.pins, checked.settings), (Pins::TEMPORARY | Pins::ADVISORY, None));
        let settings: &[u8] = br"'search_path'='a, ''b''','x'=E'\\'";
        let found = row(&[Some(b"f"), Some(b"f"), Some(b"f"), Some(settings), Some(b"'app.x'=''")]);
        let checked = check(true).read(&found).expect("it is a row");
        let expected = [(b"search_path".to_vec(), b"a, 'b'".to_vec()), (b"x".to_vec(), b"\\".to_vec())];
        assert_eq!(checked.settings.as_deref(), Some(&expected[..]));
        assert_eq!(checked.named, [(b"app.x".to_vec(), Vec::new())]);
    }

    #[test]
    fn a_column_tells_of_each_kind_that_is_checked() {
        // Settings are listed, and what is unknown is whatever of the others is found.
        let found = FIRST_COLUMNS.iter().fold(Pins::SETTINGS | Pins::UNKNOWN, |all, pin| all | *pin);
        assert_eq!(found, Pins::CHECKABLE);
    }

    #[test]
    fn another_row_is_no_answer() {
        let no = |columns: &[Option<&[u8]>]| assert_eq!(check(true).read(&row(columns)), None);
        no(&[Some(b"t"), Some(b"f")]);
        no(&[Some(b"1"), Some(b"f"), Some(b"f"), None, Some(b"")]);
        no(&[Some(b"f"), Some(b"f"), Some(b"f"), Some(b"'x'"), Some(b"")]);
        no(&[Some(b"f"), Some(b"f"), Some(b"f"), None, None]);
        assert_eq!(check(true).read(b"\0"), None);
    }
}
