//! What all sessions of the model PostgreSQL share: sequences, who holds which advisory lock, and who listens to what.
//!
//! Clients use sequences, keys and channels of their own, so that no answer depends on what others do meanwhile.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::book::Book;

/// Who said something, on which channel, and what.
pub type Notice = (i32, String, String);

/// A session that listens.
#[derive(Debug, Default)]
struct Subscriptions {
    channels: BTreeSet<String>,
    /// What it has not passed on.
    notifications: Vec<Notice>,
}

#[derive(Debug, Default)]
pub struct Shared {
    sequences: BTreeMap<String, u64>,
    /// Whose it is, and how often.
    locks: BTreeMap<i64, (u64, u32)>,
    sessions: u64,
    subscriptions: BTreeMap<u64, Subscriptions>,
    /// Columns that tables have beyond their first.
    added: BTreeMap<String, usize>,
    /// What was said since this was asked last.
    said: Vec<(String, String)>,
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

    /// How many columns a table has.
    #[must_use]
    pub fn columns(&self, table: &str) -> usize {
        1 + self.added.get(table).copied().unwrap_or(0)
    }

    pub fn add_column(&mut self, table: &str) {
        *self.added.entry(table.to_owned()).or_default() += 1;
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

    /// From now on a session listens to these.
    pub fn listen(&mut self, session: u64, channels: &BTreeSet<String>) {
        if channels.is_empty() {
            self.subscriptions.remove(&session);
        } else {
            self.subscriptions.entry(session).or_default().channels.clone_from(channels);
        }
    }

    /// A transaction that said this is committed.
    pub fn notify(&mut self, pid: i32, notices: Vec<(String, String)>) {
        for (channel, payload) in notices {
            self.said.push((channel.clone(), payload.clone()));
            for subscriptions in
                self.subscriptions.values_mut().filter(|subscriptions| subscriptions.channels.contains(&channel))
            {
                subscriptions.notifications.push((pid, channel.clone(), payload.clone()));
            }
        }
    }

    /// Channels and payloads, since this was asked last.
    pub fn take_said(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.said)
    }

    /// What a session has to pass on.
    pub fn take_notifications(&mut self, session: u64) -> Vec<Notice> {
        self.subscriptions
            .get_mut(&session)
            .map(|subscriptions| std::mem::take(&mut subscriptions.notifications))
            .unwrap_or_default()
    }

    /// Whether any session has something to pass on.
    #[must_use]
    pub fn has_notifications(&self) -> bool {
        self.subscriptions.values().any(|subscriptions| !subscriptions.notifications.is_empty())
    }

    /// A session is gone.
    pub fn leave(&mut self, session: u64) {
        self.subscriptions.remove(&session);
    }

    pub fn unlock_all(&mut self, session: u64) {
        self.locks.retain(|_, (holder, _)| *holder != session);
    }
}
