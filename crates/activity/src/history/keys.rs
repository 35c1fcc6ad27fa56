//! What samples are of: each kept once, for as long as a second has samples of it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::tags::Tags;

/// Who does what: all of it repeats from one transaction to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Who {
    /// Of the pool; of a stranger, as PostgreSQL says; empty: of several.
    pub database: Arc<str>,
    pub user: Arc<str>,
    /// Empty: it is not the pooler's. [`OWN_CLASS`]: its statement is pgweir's own.
    pub class: Arc<str>,
    /// Those that are kept.
    pub tags: Tags,
    pub fingerprint: Option<u64>,
    /// Its beginning; empty: it is not known.
    pub statement: Box<str>,
}

/// The class of statements of pgweir's own. No class of the configuration has parentheses in its name.
pub const OWN_CLASS: &str = "(pgweir)";

impl Who {
    /// Whether the statement is pgweir's own: no application has sent it.
    #[must_use]
    pub fn is_own(&self) -> bool {
        &*self.class == OWN_CLASS
    }
}

/// In one line: pool, tags, statement.
impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gap = if self.tags.is_empty() { "" } else { " " };
        write!(f, "{}/{}{gap}{}: {}", self.database, self.user, self.tags, self.statement)
    }
}

/// Who waits, for what, and behind whom.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub who: Who,
    /// `Lock`, and so on.
    pub class: Arc<str>,
    /// `relation`, and so on.
    pub event: Arc<str>,
    /// At the end of the chain of those in its way.
    pub blocker: Option<Who>,
}

/// A key's place.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyId(u32);

#[derive(Debug, Default)]
pub(super) struct Keys {
    ids: BTreeMap<Arc<Key>, KeyId>,
    slots: Vec<Option<Slot>>,
    free: Vec<KeyId>,
    weight: usize,
}

#[derive(Debug)]
struct Slot {
    key: Arc<Key>,
    uses: u32,
}

impl Keys {
    /// Counts a use.
    pub(super) fn take(&mut self, key: Key) -> KeyId {
        if let Some(id) = self.ids.get(&key) {
            let slot = self.slots[id.0 as usize].as_mut().expect("it is in use");
            slot.uses += 1;
            return *id;
        }
        self.weight += weight(&key);
        let key = Arc::new(key);
        let slot = Some(Slot { key: Arc::clone(&key), uses: 1 });
        let id = if let Some(id) = self.free.pop() {
            self.slots[id.0 as usize] = slot;
            id
        } else {
            self.slots.push(slot);
            KeyId(u32::try_from(self.slots.len() - 1).expect("memory has a bound"))
        };
        self.ids.insert(key, id);
        id
    }

    /// One more use of the same.
    pub(super) fn take_again(&mut self, id: KeyId) {
        self.slots[id.0 as usize].as_mut().expect("it is in use").uses += 1;
    }

    pub(super) fn give_back(&mut self, id: KeyId) {
        let slot = &mut self.slots[id.0 as usize];
        let used = slot.as_mut().expect("it is in use");
        used.uses -= 1;
        if used.uses == 0 {
            self.weight -= weight(&used.key);
            self.ids.remove(&used.key);
            (*slot, _) = (None, self.free.push(id));
        }
    }

    pub(super) fn get(&self, id: KeyId) -> &Key {
        &self.slots[id.0 as usize].as_ref().expect("it is in use").key
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }
}

/// Of a key and its places in both tables.
fn weight(key: &Key) -> usize {
    // Names are mostly shared, and few; of a file they may be anything.
    let names = |who: &Who| who.database.len() + who.user.len() + who.class.len();
    let who = |who: &Who| who.tags.weight() + who.statement.len() + names(who);
    let event = key.class.len() + key.event.len();
    event
        + size_of::<Key>()
        + size_of::<Slot>()
        + 4 * size_of::<usize>()
        + who(&key.who)
        + key.blocker.as_ref().map_or(0, who)
}
