//! A session's registration at its server: its effects that other sessions see.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::book::Book;
use crate::shared::{Notice, Server};

/// Dropping it frees the session's locks, and it listens no more.
#[derive(Debug)]
pub(super) struct Registration {
    server: Server,
    /// Which session of that server it is.
    number: u64,
    /// The process id in its notifications.
    pid: i32,
}

impl Registration {
    pub(super) fn new(server: &Server) -> Registration {
        Registration { server: Server::clone(server), number: server.borrow_mut().enrol(), pid: 0 }
    }

    /// Another one at the same server, for a session with the same process id.
    pub(super) fn another(&self) -> Registration {
        let mut seat = Registration::new(&self.server);
        seat.pid = self.pid;
        seat
    }

    pub(super) fn set_pid(&mut self, pid: i32) {
        self.pid = pid;
    }

    /// Where each session's state is compared with its twin's.
    pub(super) fn book(&self) -> Rc<RefCell<Book>> {
        Rc::clone(&self.server.borrow().book)
    }

    pub(super) fn columns(&self, table: &str) -> usize {
        self.server.borrow().columns(table)
    }

    pub(super) fn add_column(&self, table: &str) {
        self.server.borrow_mut().add_column(table);
    }

    /// A sequence's next value.
    pub(super) fn next(&self, sequence: &str) -> u64 {
        self.server.borrow_mut().next(sequence)
    }

    /// False: another session has the lock.
    pub(super) fn lock(&self, key: i64) -> bool {
        self.server.borrow_mut().lock(self.number, key)
    }

    /// False: the session does not have the lock.
    pub(super) fn unlock(&self, key: i64) -> bool {
        self.server.borrow_mut().unlock(self.number, key)
    }

    pub(super) fn unlock_all(&self) {
        self.server.borrow_mut().unlock_all(self.number);
    }

    /// Sets the channels that the session listens to.
    pub(super) fn listen(&self, channels: &BTreeSet<String>) {
        self.server.borrow_mut().listen(self.number, channels);
    }

    /// Sends a committed transaction's notifications.
    pub(super) fn notify(&self, notices: Vec<(String, String)>) {
        self.server.borrow_mut().notify(self.pid, notices);
    }

    /// Notifications for the session's client.
    pub(super) fn take_notifications(&self) -> Vec<Notice> {
        self.server.borrow_mut().take_notifications(self.number)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.server.borrow_mut().leave(self.number);
        self.unlock_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_ends_leaves_no_lock_and_hears_nothing() {
        let server = Server::default();
        let (one, other) = (Registration::new(&server), Registration::new(&server));
        one.listen(&BTreeSet::from(["news".to_owned()]));
        assert!(one.lock(7) && !other.lock(7));
        drop(one);
        assert!(other.lock(7) && other.unlock(7) && !other.unlock(7));
        other.notify(vec![("news".to_owned(), "payload".to_owned())]);
        assert!(!server.borrow().has_notifications());
    }
}
