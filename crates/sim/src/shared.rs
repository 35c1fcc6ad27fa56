//! What all sessions of the model PostgreSQL share: sequences, and who holds which advisory lock.
//!
//! Clients use sequences and keys of their own, so that no answer depends on what others do meanwhile.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::book::Book;

#[derive(Debug, Default)]
pub struct Shared {
    sequences: BTreeMap<String, u64>,
    /// Whose it is, and how often.
    locks: BTreeMap<i64, (u64, u32)>,
    sessions: u64,
    pub book: Rc<RefCell<Book>>,
}

/// As sessions have it.
pub type Server = Rc<RefCell<Shared>>;

impl Shared {
    #[must_use]
    pub fn new(book: Rc<RefCell<Book>>) -> Server {
        Rc::new(RefCell::new(Shared { book, ..Shared::default() }))
    }

    /// A session's number.
    pub fn enrol(&mut self) -> u64 {
        self.sessions += 1;
        self.sessions
    }

    pub fn next(&mut self, sequence: &str) -> u64 {
        let value = self.sequences.entry(sequence.to_owned()).or_default();
        *value += 1;
        *value
    }

    /// False: somebody else holds it.
    pub fn lock(&mut self, session: u64, key: i64) -> bool {
        let (holder, count) = self.locks.entry(key).or_insert((session, 0));
        if *holder != session {
            return false;
        }
        *count += 1;
        true
    }

    /// False: the session does not hold it.
    pub fn unlock(&mut self, session: u64, key: i64) -> bool {
        let Some((holder, count)) = self.locks.get_mut(&key) else { return false };
        if *holder != session {
            return false;
        }
        *count -= 1;
        if *count == 0 {
            self.locks.remove(&key);
        }
        true
    }

    pub fn unlock_all(&mut self, session: u64) {
        self.locks.retain(|_, (holder, _)| *holder != session);
    }
}
