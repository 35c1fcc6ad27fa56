//! Statements of SQL's own PREPARE: a client's are on whatever server it gets, and only its.
//!
//! A server is brought to have a name as the client has it when a text that speaks of the name is about to be sent, and
//! not before. //= pg18 sql-prepare

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::write_identifier;

/// A name that stands for a statement of the protocol where SQL's DEALLOCATE names it.
const STAND_IN: &[u8] = b" AS SELECT";

/// What one server has, by names.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct OnServer {
    texts: BTreeMap<Box<[u8]>, Arc<[u8]>>,
    /// What has been sent and not been answered, oldest first. Of a server that moves to another process that is nothing.
    #[serde(skip)]
    under_way: VecDeque<PreparedChange>,
}

#[derive(Clone, Debug)]
struct PreparedChange {
    name: Box<[u8]>,
    before: Option<Arc<[u8]>>,
}

/// What is to be sent to a server in front of a text: statements, one after the other.
pub type Remedy = Vec<Vec<u8>>;

impl OnServer {
    pub(crate) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.texts.keys().map(|name| &**name)
    }

    pub(crate) fn insert(&mut self, name: &[u8], text: Arc<[u8]>) {
        self.texts.insert(name.into(), text);
    }

    pub(crate) fn remove(&mut self, name: &[u8]) {
        self.texts.remove(name);
    }

    pub fn clear(&mut self) {
        self.texts.clear();
        self.under_way.clear();
    }

    pub fn has(&self, name: &[u8]) -> bool {
        self.texts.contains_key(name)
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    pub(crate) fn has_as(&self, name: &[u8], is_it: impl Fn(&Arc<[u8]>) -> bool) -> bool {
        self.texts.get(name).is_some_and(is_it)
    }

    /// As [`OnServer::bring`], of a name that the session does not have.
    pub fn end(&mut self, name: &[u8], remedy: &mut Remedy) {
        self.replace(name, None, remedy);
    }

    /// Forgets a name that is being deallocated, and returns the statement for that.
    pub fn deallocate(&mut self, name: &[u8]) -> Vec<u8> {
        self.remove(name);
        deallocate(name)
    }

    /// Whether it hangs on answers under way what there is.
    pub fn is_changing(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Something else was sent, in its place among the changes.
    pub fn changes_nothing(&mut self) {
        // Nothing has no name.
        self.under_way.push_back(PreparedChange { name: Box::default(), before: None });
    }

    /// The oldest change under way is done.
    pub fn done(&mut self) {
        self.under_way.pop_front();
    }

    /// The oldest change under way has failed. A newer one of its name stays.
    pub fn failed(&mut self) {
        let Some(failed) = self.under_way.pop_front() else { return };
        if self.under_way.iter().all(|newer| newer.name != failed.name) {
            self.restore(failed);
        }
    }

    /// The oldest change under way has failed, since the server has this name although it was not noted: under a text that is not known.
    pub fn failed_for_unknown(&mut self) {
        let Some(failed) = self.under_way.pop_front() else { return };
        if self.under_way.iter().all(|newer| newer.name != failed.name) {
            // No session has prepared this very text.
            self.texts.insert(failed.name, Arc::from(&b""[..]));
        }
    }

    /// The newest change under way will not be done.
    pub fn take_back(&mut self) {
        if let Some(change) = self.under_way.pop_back() {
            self.restore(change);
        }
    }

    fn restore(&mut self, PreparedChange { name, before }: PreparedChange) {
        match before {
            Some(text) => drop(self.texts.insert(name, text)),
            None => drop(self.texts.remove(&name)),
        }
    }

    /// Makes a name what a session has prepared, which nobody else has: an equal text means something else where it was
    /// prepared under other settings. As [`OnServer::bring`].
    pub(crate) fn bring_own(&mut self, name: &[u8], wanted: Option<&Arc<[u8]>>, remedy: &mut Remedy) {
        let found = self.texts.get(name);
        if !found.zip(wanted).is_some_and(|(found, wanted)| Arc::ptr_eq(found, wanted)) {
            self.replace(name, wanted, remedy);
        }
    }

    /// Makes a name what it is for the session; notes it as done, until it is taken back.
    pub(crate) fn bring(&mut self, name: &[u8], wanted: Option<&Arc<[u8]>>, remedy: &mut Remedy) {
        if self.texts.get(name) != wanted {
            self.replace(name, wanted, remedy);
        }
    }

    fn replace(&mut self, name: &[u8], wanted: Option<&Arc<[u8]>>, remedy: &mut Remedy) {
        if self.texts.contains_key(name) {
            remedy.push(deallocate(name));
            let before = self.texts.remove(name);
            self.under_way.push_back(PreparedChange { name: name.into(), before });
        }
        if let Some(text) = wanted {
            remedy.push(text.to_vec());
            self.texts.insert(name.into(), Arc::clone(text));
            self.under_way.push_back(PreparedChange { name: name.into(), before: None });
        }
    }
}

pub(crate) fn deallocate(name: &[u8]) -> Vec<u8> {
    let mut text = b"DEALLOCATE ".to_vec();
    write_identifier(name, &mut text);
    text
}

/// A statement of this name, for DEALLOCATE to find.
pub(crate) fn stand_in(name: &[u8]) -> Arc<[u8]> {
    as_prepare(name, STAND_IN)
}

/// PREPARE of a text that the protocol has prepared. Its parameters get the types that they are used with.
pub fn of_protocol(name: &[u8], query: &[u8]) -> Arc<[u8]> {
    let mut rest = b" AS ".to_vec();
    rest.extend_from_slice(query);
    as_prepare(name, &rest)
}

fn as_prepare(name: &[u8], rest: &[u8]) -> Arc<[u8]> {
    let mut text = b"PREPARE ".to_vec();
    write_identifier(name, &mut text);
    text.extend_from_slice(rest);
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_what_it_is_for_the_session() {
        let (one, two): (Arc<[u8]>, Arc<[u8]>) =
            (b"PREPARE p AS SELECT 1"[..].into(), b"PREPARE p AS SELECT 2"[..].into());
        let mut server = OnServer::default();
        let mut remedy = Remedy::new();
        server.bring(b"p", None, &mut remedy);
        assert!(remedy.is_empty());
        server.bring(b"p", Some(&one), &mut remedy);
        server.bring(b"p", Some(&one), &mut remedy);
        server.bring(b"p", Some(&two), &mut remedy);
        server.bring(b"p", None, &mut remedy);
        let expected: [&[u8]; 4] = [&one, b"DEALLOCATE \"p\"", &two, b"DEALLOCATE \"p\""];
        assert_eq!(remedy, expected);
        assert!(server.texts.is_empty());
    }

    #[test]
    fn what_has_failed_is_not_there_unless_it_was_prepared_again() {
        let texts: [Arc<[u8]>; 2] = [(*b"PREPARE p AS SELECT 1").into(), (*b"PREPARE q AS SELECT x FROM t").into()];
        let (mut server, mut remedy) = (OnServer::default(), Remedy::new());
        server.bring(b"p", Some(&texts[0]), &mut remedy);
        server.bring(b"q", Some(&texts[1]), &mut remedy);
        server.done();
        server.failed();
        assert!(server.has(b"p") && !server.has(b"q") && !server.is_changing());
        server.bring(b"q", Some(&texts[1]), &mut remedy);
        server.bring(b"q", Some(&texts[0]), &mut remedy);
        server.failed();
        assert!(server.has(b"q"), "DEALLOCATE and another PREPARE of it are under way");
        (0..2).for_each(|_| server.done());
        server.end(b"q", &mut remedy);
        server.done();
        server.bring(b"q", Some(&texts[1]), &mut remedy);
        server.failed_for_unknown();
        remedy.clear();
        server.bring(b"q", Some(&texts[1]), &mut remedy);
        assert_eq!(remedy, [&b"DEALLOCATE \"q\""[..], &texts[1]], "another's statement has its name");
    }

    #[test]
    fn what_was_skipped_is_taken_back_newest_first() {
        let (one, two): (Arc<[u8]>, Arc<[u8]>) =
            (b"PREPARE p AS SELECT 1"[..].into(), b"PREPARE p AS SELECT 2"[..].into());
        let mut server = OnServer::default();
        let mut remedy = Remedy::new();
        server.bring(b"p", Some(&one), &mut remedy);
        server.done();
        server.bring(b"p", Some(&two), &mut remedy);
        server.take_back();
        server.take_back();
        assert!(!server.is_changing());
        remedy.clear();
        server.bring(b"p", Some(&one), &mut remedy);
        assert!(remedy.is_empty());
    }
}
