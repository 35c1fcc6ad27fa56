//! Mail for the machines of one thread: from other threads, and from neighbours on the same one.
//!
//! Sessions from another thread's door wait apart. Other letters go before them, as they may have come before anyway; but a
//! worker is not told to stop before it knows of all who are to be told of that.

use std::collections::VecDeque;
use std::sync::Arc;

use machine::Mail;

use crate::connections::Parcel;
use crate::letter::{Letter, Letterbox};

/// A message to a machine of the thread, and perhaps a socket with it.
pub(crate) struct LocalMail {
    pub(crate) mail: Mail,
    pub(crate) parcel: Option<Parcel>,
}

/// What was not delivered yet.
pub(crate) struct Inbox {
    /// Where other threads put their letters.
    mailbox: Arc<Letterbox>,
    letters: VecDeque<Letter>,
    arrivals: VecDeque<LocalMail>,
    /// Between neighbours.
    local: VecDeque<LocalMail>,
}

impl Inbox {
    pub(crate) fn new(mailbox: Arc<Letterbox>) -> Inbox {
        Inbox { mailbox, letters: VecDeque::new(), arrivals: VecDeque::new(), local: VecDeque::new() }
    }

    /// Where answers to this thread go.
    pub(crate) fn mailbox(&self) -> &Arc<Letterbox> {
        &self.mailbox
    }

    /// The thread is about to wait; false: it must not, since there is mail.
    #[inline]
    pub(crate) fn lie_down(&self) -> bool {
        self.local.is_empty() && self.letters.is_empty() && self.arrivals.is_empty() && self.mailbox.lie_down()
    }

    /// The wait is over.
    #[inline]
    pub(crate) fn get_up(&self) {
        self.mailbox.get_up();
    }

    /// Takes in what other threads have written.
    pub(crate) fn empty_mailbox(&mut self) {
        // After a panic some of the last round's are left.
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
