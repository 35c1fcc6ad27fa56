//! Mail for the machines of one thread: from other threads, and from machines of the same thread.
//!
//! Sessions that arrive from another thread's door wait in a queue of their own. Other letters are delivered before
//! them, since they could have come earlier anyway. Only a stop is delivered after all sessions that came before it, so
//! that it reaches these too.

use std::collections::VecDeque;
use std::sync::Arc;

use machine::Mail;

use crate::connections::Parcel;
use crate::letter::{Letter, Letterbox};

/// A message to a machine of the thread, perhaps with a socket.
pub(crate) struct LocalMail {
    pub(crate) mail: Mail,
    pub(crate) parcel: Option<Parcel>,
}

/// Mail that is not delivered yet.
pub(crate) struct Inbox {
    /// Other threads put their letters here.
    mailbox: Arc<Letterbox>,
    letters: VecDeque<Letter>,
    arrivals: VecDeque<LocalMail>,
    /// Between machines of this thread.
    local: VecDeque<LocalMail>,
}

impl Inbox {
    pub(crate) fn new(mailbox: Arc<Letterbox>) -> Inbox {
        Inbox { mailbox, letters: VecDeque::new(), arrivals: VecDeque::new(), local: VecDeque::new() }
    }

    /// The mailbox for answers to this thread.
    pub(crate) fn mailbox(&self) -> &Arc<Letterbox> {
        &self.mailbox
    }

    /// The thread is about to wait. False: it must not, since there is mail.
    #[inline]
    pub(crate) fn prepare_to_wait(&self) -> bool {
        self.local.is_empty() && self.letters.is_empty() && self.arrivals.is_empty() && self.mailbox.prepare_to_wait()
    }

    /// The wait is over.
    #[inline]
    pub(crate) fn end_wait(&self) {
        self.mailbox.end_wait();
    }

    /// Takes the letters of other threads out of the mailbox.
    pub(crate) fn empty_mailbox(&mut self) {
        // After a panic some letters of the last round are left.
        if self.letters.is_empty() {
            self.mailbox.empty(&mut self.letters);
        }
    }

    pub(crate) fn next_letter(&mut self) -> Option<Letter> {
        self.letters.pop_front()
    }

    pub(crate) fn add_arrival(&mut self, arrival: LocalMail) {
        self.arrivals.push_back(arrival);
    }

    pub(crate) fn arrivals(&self) -> usize {
        self.arrivals.len()
    }

    pub(crate) fn next_arrival(&mut self) -> Option<LocalMail> {
        self.arrivals.pop_front()
    }

    pub(crate) fn add_local(&mut self, mail: LocalMail) {
        self.local.push_back(mail);
    }

    pub(crate) fn next_local(&mut self) -> Option<LocalMail> {
        self.local.pop_front()
    }

    pub(crate) fn has_local(&self) -> bool {
        !self.local.is_empty()
    }
}
