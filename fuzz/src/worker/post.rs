//! Mail on its way between machines, some of it with a connection, and what full mailboxes have refused.

use std::collections::VecDeque;

use machine::{Mail, Place};

/// Mail, and which socket travels with it.
type Letter = (Mail, Option<usize>);

#[derive(Default)]
pub(super) struct Post {
    letters: VecDeque<Letter>,
    refused: VecDeque<(Place, Letter)>,
    /// The socket whose mail a machine reads now.
    in_hand: Option<usize>,
    /// Mailboxes of workers refuse what they may.
    full: bool,
}

impl Post {
    pub(super) fn set_full(&mut self, full: bool) {
        self.full = full;
    }

    pub(super) fn send(&mut self, from: Place, mail: Mail, socket: Option<usize>) {
        if self.full && mail.may_be_returned() {
            self.refused.push_back((from, (mail, socket)));
        } else {
            self.letters.push_back((mail, socket));
        }
    }

    /// Mail from outside of the machines.
    pub(super) fn put(&mut self, mail: Mail) {
        self.letters.push_back((mail, None));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.letters.is_empty()
    }

    /// The next mail to be read.
    pub(super) fn take(&mut self) -> Option<Mail> {
        let (mail, socket) = self.letters.pop_front()?;
        self.in_hand = socket;
        Some(mail)
    }

    /// The next mail that goes back to its sender.
    pub(super) fn take_refused(&mut self) -> Option<(Place, Mail)> {
        let (place, (mail, socket)) = self.refused.pop_front()?;
        self.in_hand = socket;
        Some((place, mail))
    }

    /// The socket that came with the mail being read.
    pub(super) fn adopt(&mut self) -> usize {
        self.in_hand.take().expect("a connection is adopted from the mail that carries it")
    }

    /// The mail was read.
    pub(super) fn check_adopted(&self) {
        assert!(self.in_hand.is_none(), "a connection that comes with mail is adopted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::ToWorker;
    use machine::mail::Exchange;
    use units::{PoolId, WorkerId};

    #[test]
    fn a_full_mailbox_refuses_only_what_can_go_back() {
        let (here, there) = (Place::Worker(WorkerId(0)), WorkerId(1));
        let beg = || Mail::ToWorker(there, ToWorker::Exchange(Exchange::Beg { pool: PoolId(0), from: WorkerId(0) }));
        let mut post = Post::default();
        post.send(here, beg(), None);
        post.set_full(true);
        post.send(here, beg(), None);
        post.send(
            here,
            Mail::ToWorker(there, ToWorker::Cancel { pid: 1, secret: [0, 0, 0, 2].into(), ticket: None }),
            None,
        );
        assert_eq!(post.take_refused().map(|(place, _)| place), Some(here));
        assert!(post.take_refused().is_none());
        assert!(post.take().is_some() && post.take().is_some() && post.is_empty());
    }

    #[test]
    fn a_socket_that_travels_is_adopted_once() {
        let mut post = Post::default();
        let mail =
            Mail::ToWorker(WorkerId(1), ToWorker::Exchange(Exchange::Beg { pool: PoolId(0), from: WorkerId(0) }));
        post.send(Place::Worker(WorkerId(0)), mail, Some(7));
        assert!(post.take().is_some());
        assert_eq!(post.adopt(), 7);
        post.check_adopted();
    }
}
