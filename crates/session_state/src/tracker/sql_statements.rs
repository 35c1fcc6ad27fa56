//! The statements that a session has prepared by SQL's PREPARE, by name.
//!
//! Promises no more of them than [`limits::STATEMENTS_PER_CLIENT_MAX`], and no more bytes than [`limits::PREPARED_LEN_MAX`].
//! Which server has which is not known here.

use std::collections::BTreeMap;
use std::sync::Arc;

use units::limits;

use crate::prepared::StatementNames;
use crate::state::effects::{SqlPrepare, SqlStatement};
use crate::state::prepared::{OnServer, Remedy};

/// One session's.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct SqlStatements {
    by_name: BTreeMap<Box<[u8]>, SqlStatement>,
    /// Of names and texts.
    len: usize,
}

impl SqlStatements {
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(super) fn get(&self, name: &[u8]) -> Option<&SqlStatement> {
        self.by_name.get(name)
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.by_name.contains_key(name)
    }

    /// The whole PREPARE of what SQL's EXECUTE names.
    pub fn text(&self, name: &[u8]) -> Option<&Arc<[u8]>> {
        self.by_name.get(name)?.text.as_ref()
    }

    /// Makes a server have, under a name that a text may speak of, what the session has.
    pub fn bring(&self, name: &[u8], on_server: &mut OnServer, remedy: &mut Remedy) {
        on_server.bring_own(name, self.text(name), remedy);
    }

    /// The same under all names that are seen.
    pub fn bring_all(&self, is_seen: impl Fn(&[u8]) -> bool, on_server: &mut OnServer, remedy: &mut Remedy) {
        let strangers: Vec<Vec<u8>> = on_server.names().map(<[u8]>::to_vec).collect();
        let strangers = strangers.iter().map(|name| &name[..]);
        for name in strangers.chain(self.by_name.keys().map(|name| &**name)).filter(|name| is_seen(name)) {
            self.bring(name, on_server, remedy);
        }
    }

    /// The names of the statements that other sessions have prepared on a server.
    pub fn strangers(&self, names: Option<&StatementNames>, on_server: &OnServer) -> Vec<Box<[u8]>> {
        let is_strange = |name: &&[u8]| {
            let of_protocol = names.filter(|_| !self.has(name)).and_then(|names| names.in_sql(name));
            !match of_protocol {
                Some((_, text)) => on_server.has_as(name, |found| found == text),
                None => self.text(name).is_some_and(|own| on_server.has_as(name, |it| Arc::ptr_eq(it, own))),
            }
        };
        on_server.names().filter(is_strange).map(Box::from).collect()
    }

    /// A name stands for this now. False: it is not kept, nor what it stood for.
    pub(super) fn keep(&mut self, kept: SqlPrepare) -> bool {
        self.forget(&kept.name);
        let len = kept.name.len() + kept.statement.len();
        let fits = self.len + len <= limits::PREPARED_LEN_MAX && self.by_name.len() < limits::STATEMENTS_PER_CLIENT_MAX;
        if !fits || kept.statement.text.is_none() {
            return false;
        }
        self.len += len;
        self.by_name.insert(kept.name, kept.statement);
        true
    }

    /// Whether it was there.
    pub(super) fn forget(&mut self, name: &[u8]) -> bool {
        let Some(statement) = self.by_name.remove(name) else { return false };
        self.len -= name.len() + statement.len();
        true
    }

    pub(super) fn clear(&mut self) {
        *self = SqlStatements::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str, len: usize) -> SqlPrepare {
        let text: Arc<[u8]> = vec![b'x'; len].into();
        SqlPrepare { name: name.as_bytes().into(), statement: SqlStatement { text: Some(text), run: None } }
    }

    #[test]
    fn a_name_that_is_prepared_again_takes_its_room_once() {
        let mut statements = SqlStatements::default();
        let half = limits::PREPARED_LEN_MAX / 2;
        assert!(statements.keep(kept("a", half)) && statements.keep(kept("a", half)));
        assert!(statements.keep(kept("b", half - 2)));
        assert!(!statements.keep(kept("c", 0)), "there is no room for its name");
        assert!(statements.forget(b"a") && !statements.forget(b"a"));
        assert!(statements.keep(kept("c", half)));
        statements.clear();
        assert!(statements.is_empty() && statements.len == 0);
    }

    #[test]
    fn what_is_not_kept_does_not_leave_what_the_name_stood_for() {
        let mut statements = SqlStatements::default();
        assert!(statements.keep(kept("a", 1)));
        let too_long = SqlPrepare { name: (*b"a").into(), statement: SqlStatement { text: None, run: None } };
        assert!(!statements.keep(too_long) && statements.get(b"a").is_none());
    }

    #[test]
    fn a_server_is_brought_what_is_seen_and_rid_of_what_is_another_sessions() {
        let (mut statements, mut on_server) = (SqlStatements::default(), OnServer::default());
        statements.keep(kept("seen", 1));
        statements.keep(kept("unseen", 1));
        let strange: Arc<[u8]> = (*b"y").into();
        on_server.insert(b"seen", Arc::clone(&strange));
        on_server.insert(b"strange", strange);
        let mut remedy = Remedy::new();
        statements.bring_all(|name| name != b"unseen", &mut on_server, &mut remedy);
        let remedy: Vec<_> = remedy.iter().map(|text| String::from_utf8_lossy(text)).collect();
        assert_eq!(remedy, [r#"DEALLOCATE "seen""#, "x", r#"DEALLOCATE "strange""#]);
        assert!(on_server.has(b"seen") && !on_server.has(b"strange") && !on_server.has(b"unseen"));
    }

    #[test]
    fn strangers_are_names_that_the_session_does_not_have_as_they_are_there() {
        let (mut statements, mut on_server) = (SqlStatements::default(), OnServer::default());
        assert!(statements.keep(kept("own", 1)) && statements.keep(kept("both", 1)));
        let strange: Arc<[u8]> = (*b"x").into();
        let own = statements.text(b"own").cloned().expect("it was kept");
        on_server.insert(b"own", own);
        on_server.insert(b"both", Arc::clone(&strange));
        on_server.insert(b"strange", strange);
        let strangers = statements.strangers(None, &on_server);
        assert_eq!(strangers, [Box::from(&b"both"[..]), Box::from(&b"strange"[..])], "an equal text is another's, too");
    }

    #[test]
    fn their_number_is_bounded() {
        let mut statements = SqlStatements::default();
        let count = (0..).take_while(|number: &usize| statements.keep(kept(&format!("p{number}"), 1))).count();
        assert_eq!(count, limits::STATEMENTS_PER_CLIENT_MAX);
    }
}
