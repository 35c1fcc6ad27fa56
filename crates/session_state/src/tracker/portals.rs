//! The protocol's statement without a name, and portals, as far as they do more than return rows: what an Execute will do is
//! known by its portal.
//!
//! Promises a bound on what is kept. Statements with names are elsewhere ([`crate::prepared`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use units::limits;
use wire::frontend::bind_parameter;

use crate::state::{Effect, Effects, Reading};

/// A prepared statement of the protocol that is more than plain.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Marked {
    pub text: Arc<[u8]>,
    pub reading: Reading,
    pub effects: Effects,
}

impl Marked {
    /// It names a setting by a parameter.
    pub fn is_unbound(&self) -> bool {
        self.effects.iter().any(Effect::is_unbound)
    }

    /// As it is with the parameters of a Bind, of which this is the part after its names.
    pub fn bound(&self, behind_names: &[u8]) -> Marked {
        let effects = self.effects.bound(|number| bind_parameter(behind_names, number));
        Marked { text: Arc::clone(&self.text), reading: self.reading, effects }
    }
}

#[derive(Debug)]
struct Portal {
    marked: Arc<Marked>,
    /// How many ReadyForQuery come before the one that may end it.
    awaited: usize,
}

/// One session's.
#[derive(Debug, Default)]
pub struct Portals {
    /// The statement without a name.
    unnamed: Option<Arc<Marked>>,
    by_name: BTreeMap<Box<[u8]>, Portal>,
}

impl Portals {
    /// There is none.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub fn get(&self, name: &[u8]) -> Option<&Arc<Marked>> {
        self.by_name.get(name).map(|portal| &portal.marked)
    }

    /// As a tracker that comes from another process has it.
    pub(super) fn with_unnamed(unnamed: Option<Arc<Marked>>) -> Portals {
        Portals { unnamed, ..Portals::default() }
    }

    pub fn unnamed_statement(&self) -> Option<&Arc<Marked>> {
        self.unnamed.as_ref()
    }

    /// The statement without a name is this now; `None`: a plain one.
    pub fn parse_unnamed(&mut self, marked: Option<Arc<Marked>>) {
        self.unnamed = marked;
    }

    /// A portal is bound; `None`: to a plain statement. `awaited`: how many ReadyForQuery the client is still owed. False: it
    /// cannot be kept, and nobody can tell when it is executed.
    pub(super) fn bind(&mut self, name: &[u8], marked: Option<Arc<Marked>>, awaited: usize) -> bool {
        match marked {
            Some(marked) if self.has_room_for(name, &marked) => {
                self.by_name.insert(name.into(), Portal { marked, awaited });
            }
            Some(_) => return false,
            None => drop(self.by_name.remove(name)),
        }
        true
    }

    fn has_room_for(&self, name: &[u8], marked: &Marked) -> bool {
        let len = name.len() + marked.text.len();
        let kept: usize = self.by_name.iter().map(|(name, portal)| name.len() + portal.marked.text.len()).sum();
        self.by_name.len() < limits::PORTALS_MAX && kept + len <= limits::PREPARED_LEN_MAX
    }

    /// The client's ReadyForQuery. `idle`: outside of a transaction.
    pub(super) fn ready(&mut self, idle: bool) {
        if idle {
            self.by_name.retain(|_, portal| portal.awaited > 0);
        }
        for portal in self.by_name.values_mut() {
            portal.awaited = portal.awaited.saturating_sub(1);
        }
    }

    /// The server is gone, and its transaction.
    pub(super) fn lost(&mut self) {
        self.by_name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::SideEffects;

    fn marked(len: usize) -> Option<Arc<Marked>> {
        let reading = Reading { marks: sql::Marks::NONE, side_effects: SideEffects::NONE, only_reads: false };
        Some(Arc::new(Marked { text: vec![b'x'; len].into(), reading, effects: Effects::default() }))
    }

    #[test]
    fn a_portal_ends_with_the_transaction_that_it_was_bound_in() {
        let mut portals = Portals::default();
        assert!(portals.bind(b"a", marked(1), 0) && portals.bind(b"b", marked(1), 1));
        portals.ready(false);
        assert!(portals.get(b"a").is_some(), "the transaction goes on");
        assert!(portals.bind(b"c", marked(1), 1));
        portals.ready(true);
        assert!(portals.get(b"a").is_none() && portals.get(b"b").is_none() && portals.get(b"c").is_some());
        portals.ready(true);
        assert!(portals.is_empty());
    }

    #[test]
    fn a_plain_statement_takes_the_portals_name() {
        let mut portals = Portals::default();
        assert!(portals.bind(b"", marked(1), 0) && portals.bind(b"", None, 0) && portals.is_empty());
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut portals = Portals::default();
        assert!(!portals.bind(b"p", marked(limits::PREPARED_LEN_MAX), 0) && portals.is_empty());
        let count =
            (0..).take_while(|number: &usize| portals.bind(format!("{number}").as_bytes(), marked(1), 0)).count();
        assert_eq!(count, limits::PORTALS_MAX);
        portals.lost();
        assert!(portals.is_empty());
    }
}
