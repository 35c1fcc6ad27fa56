//! One client's names of each statement: several, if it has prepared the same text under several names.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::StatementId;

/// The names, by their statements.
#[derive(Debug, Default)]
pub(super) struct Synonyms {
    names: BTreeSet<(StatementId, Arc<[u8]>)>,
    /// How many statements have a name.
    statements: usize,
}

impl Synonyms {
    pub(super) fn insert(&mut self, id: StatementId, name: Arc<[u8]>) {
        self.statements += usize::from(!self.has_name(id));
        self.names.insert((id, name));
    }

    pub(super) fn remove(&mut self, id: StatementId, name: &Arc<[u8]>) {
        if self.names.remove(&(id, Arc::clone(name))) {
            self.statements -= usize::from(!self.has_name(id));
        }
    }

    /// A statement's names, in their order.
    pub(super) fn names_of(&self, id: StatementId) -> impl Iterator<Item = &[u8]> {
        self.names.range((id, Arc::default())..).take_while(move |(found, _)| *found == id).map(|(_, name)| &**name)
    }

    fn has_name(&self, id: StatementId) -> bool {
        self.names_of(id).next().is_some()
    }

    /// Whether a statement has several names.
    #[inline]
    pub(super) fn are_any(&self) -> bool {
        self.names.len() > self.statements
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }
}

#[cfg(test)]
mod tests {
    use wire::frontend::Parse;

    use super::*;
    use crate::prepared::{StatementNames, statement_for_tests};

    #[test]
    fn a_statement_with_two_names_has_synonyms() {
        let mut synonyms = Synonyms::default();
        let name = |name: &str| Arc::<[u8]>::from(name.as_bytes());
        synonyms.insert(1.into(), name("a"));
        synonyms.insert(2.into(), name("b"));
        assert!(!synonyms.are_any());
        synonyms.insert(1.into(), name("c"));
        assert!(synonyms.are_any());
        synonyms.insert(1.into(), name("c"));
        synonyms.remove(3.into(), &name("c"));
        synonyms.remove(1.into(), &name("a"));
        assert!(!synonyms.are_any());
        assert_eq!(synonyms.names_of(1.into()).collect::<Vec<_>>(), [b"c"]);
        synonyms.remove(1.into(), &name("c"));
        assert!(!synonyms.has_name(1.into()) && synonyms.has_name(2.into()) && !synonyms.are_any());
    }

    #[test]
    fn a_statement_has_the_names_that_stand_for_it() {
        let mut names = StatementNames::default();
        let [one, two] = [b"select 1", b"select 2"]
            .map(|query| statement_for_tests(&Parse { name: b"", query, types: Parse::NO_TYPES }));
        names.insert(b"a", Arc::clone(&one));
        names.insert(b"b", Arc::clone(&one));
        names.insert(b"c", Arc::clone(&two));
        assert_eq!(names.of_statement(one.id), Some(&b"a"[..]));
        (0..3).for_each(|_| names.answered());
        names.remove(b"a");
        names.insert(b"a0", Arc::clone(&one));
        names.insert(b"c", Arc::clone(&one));
        // The message that is being answered came before these.
        assert_eq!((names.of_statement(one.id), names.of_statement(two.id)), (Some(&b"b"[..]), Some(&b"c"[..])));
        names.remove(b"b");
        assert_eq!(names.of_statement(one.id), Some(&b"a"[..]), "it is being closed");
        (0..4).for_each(|_| names.answered());
        assert_eq!((names.of_statement(one.id), names.of_statement(two.id)), (Some(&b"a0"[..]), None));
        assert!(names.remove(b"a0") && names.remove(b"c"));
        names.undo_all();
        assert_eq!((names.len(), names.synonyms.len()), (2, 2));
    }
}
