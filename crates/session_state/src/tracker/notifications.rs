//! What is left to do for a session that uses LISTEN or NOTIFY: its place at its pool's listener, notifications that it has
//! not been sent yet, and what it has said itself.
//!
//! Does not know which channels the session listens to: those are part of its state.

use crate::state::channels::{Channels, ListenerWait, Overflow, Subscriptions};

/// One session's.
#[derive(Debug, Default)]
pub struct Notifications {
    /// Where it listens, or is about to.
    subscriptions: Option<Box<Subscriptions>>,
    /// It has said something on a channel: how many ReadyForQuery come before the one that may commit that.
    said: Option<usize>,
}

impl Notifications {
    pub fn subscriptions(&self) -> Option<&Subscriptions> {
        self.subscriptions.as_deref()
    }

    pub fn subscriptions_mut(&mut self) -> &mut Subscriptions {
        self.subscriptions.get_or_insert_default()
    }

    /// Where the session waits for its pool's listener.
    pub fn listener_wait(&self) -> ListenerWait {
        self.subscriptions.as_ref().map_or(ListenerWait::Nothing, |subscriptions| subscriptions.listener_wait)
    }

    /// The session says something on a channel, and so many ReadyForQuery come before the one that may commit it.
    pub fn says(&mut self, awaited: usize) {
        self.said = Some(awaited);
    }

    /// Whether its own NOTIFY may not have been committed, or has not come back to it.
    pub fn has_said(&self) -> bool {
        self.said.is_some()
    }

    /// A transaction is over: whether the session has said something.
    pub fn take_said(&mut self) -> bool {
        self.said.take().is_some()
    }

    /// The session neither listens nor has said anything.
    pub(super) fn is_silent(&self) -> bool {
        self.subscriptions.is_none() && self.said.is_none()
    }

    /// ReadyForQuery. `is_deaf`: no channel was committed, nor is about to be.
    pub(super) fn ready(&mut self, idle: bool, committed: &Channels, is_deaf: bool) {
        match &mut self.subscriptions {
            Some(subscriptions) => {
                subscriptions.ready(idle, committed);
                if idle && is_deaf {
                    // It listened to nothing after all, and the next listener receives what it says from now on.
                    subscriptions.missed = None;
                }
            }
            None if idle && self.said == Some(0) => self.said = None,
            None => {}
        }
        self.said = self.said.map(|awaited| awaited.saturating_sub(1));
    }

    /// The server is gone, and its transaction.
    pub(super) fn lost(&mut self) {
        self.said = None;
        if let Some(subscriptions) = &mut self.subscriptions {
            subscriptions.lost();
        }
    }

    /// Outside of a transaction block, nothing under way: channels that the session does not listen to any more. `alone`: it
    /// listens on its own server.
    pub(super) fn settle(&mut self, committed: &Channels, now: &Channels, alone: bool) -> Vec<Box<[u8]>> {
        let Some(subscriptions) =
            self.subscriptions.as_mut().filter(|subscriptions| subscriptions.listener_wait == ListenerWait::Nothing)
        else {
            return Vec::new();
        };
        let gone = subscriptions.settle(committed, now);
        subscriptions.alone &= alone;
        if subscriptions.is_idle() {
            self.subscriptions = None;
        }
        gone
    }

    /// Something was said on a channel: a whole NotificationResponse. False: not for this session.
    pub(super) fn deliver(&mut self, channel: &[u8], message: &[u8], committed: &Channels) -> Result<bool, Overflow> {
        match &mut self.subscriptions {
            Some(subscriptions) => subscriptions.deliver(channel, message, committed),
            None => Ok(false),
        }
    }

    /// In no transaction: the notifications on these channels that the client is to be sent.
    pub(super) fn take_unread(&mut self, now: &Channels) -> Vec<u8> {
        match self.subscriptions.as_mut().filter(|subscriptions| subscriptions.has_unread()) {
            Some(subscriptions) => subscriptions.take_unread(now),
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_over_with_the_ready_for_query_that_may_commit_it() {
        let mut notifications = Notifications::default();
        let none = Channels::default();
        notifications.says(1);
        notifications.ready(true, &none, true);
        assert!(notifications.has_said(), "this one answers what was sent before");
        notifications.ready(false, &none, true);
        assert!(notifications.has_said(), "its transaction goes on");
        notifications.ready(true, &none, true);
        assert!(notifications.is_silent());
    }

    #[test]
    fn a_place_at_the_listener_is_given_up_once_nothing_is_listened_to() {
        let mut notifications = Notifications::default();
        let none = Channels::default();
        assert!(notifications.subscriptions_mut().take_interest(b"news"));
        notifications.subscriptions_mut().listener_wait = ListenerWait::MaySend;
        assert!(notifications.settle(&none, &none, false).is_empty(), "it still waits");
        notifications.subscriptions_mut().listener_wait = ListenerWait::Nothing;
        assert_eq!(notifications.settle(&none, &none, false), [(*b"news").into()]);
        assert!(notifications.is_silent());
    }

    #[test]
    fn what_was_missed_is_not_told_to_who_listens_to_nothing() {
        let mut notifications = Notifications::default();
        let none = Channels::default();
        notifications.subscriptions_mut().missed = Some("lost".into());
        notifications.ready(false, &none, true);
        assert!(notifications.subscriptions().is_some_and(|subscriptions| subscriptions.missed.is_some()));
        notifications.ready(true, &none, true);
        assert!(notifications.subscriptions().is_some_and(|subscriptions| subscriptions.missed.is_none()));
    }
}
