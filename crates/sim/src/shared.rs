//! The state that all sessions of the model PostgreSQL share: sequences, advisory locks and their holders, channels and
//! their listeners.
//!
//! Each client uses its own sequences, keys and channels, so that no answer depends on other clients.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::book::Book;

/// A notification: process id, channel, payload.
pub type Notice = (i32, String, String);

/// A session that listens.
#[derive(Debug, Default)]
struct Subscriptions {
    channels: BTreeSet<String>,
    /// Notifications that it has not sent yet.
    notifications: Vec<Notice>,
}

#[derive(Debug, Default)]
pub struct Shared {
    sequences: BTreeMap<String, u64>,
    /// By key: the session that holds it, and how often.
    locks: BTreeMap<i64, (u64, u32)>,
    sessions: u64,
    subscriptions: BTreeMap<u64, Subscriptions>,
    /// The number of columns added to each table.
    added: BTreeMap<String, usize>,
    /// Notifications since the last call of `take_said`.
    said: Vec<(String, String)>,
    pub book: Rc<RefCell<Book>>,
}

/// A session's reference to its server.
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

    /// False: another session holds it.
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

    /// Sets the channels that a session listens to.
    pub fn listen(&mut self, session: u64, channels: &BTreeSet<String>) {
        if channels.is_empty() {
            self.subscriptions.remove(&session);
        } else {
            self.subscriptions.entry(session).or_default().channels.clone_from(channels);
        }
    }

    /// A transaction with these notifications was committed.
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

    /// Takes the channels and payloads since the last call.
    pub fn take_said(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.said)
    }

    /// The notifications that a session has to send.
    pub fn take_notifications(&mut self, session: u64) -> Vec<Notice> {
        self.subscriptions
            .get_mut(&session)
            .map(|subscriptions| std::mem::take(&mut subscriptions.notifications))
            .unwrap_or_default()
    }

    /// Whether any session has notifications to send.
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
