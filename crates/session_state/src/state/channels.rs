//! What a session listens to: a value that a rollback takes back, as its settings are; and what was said there that its
//! client has not been sent, because PostgreSQL sends notifications between transactions only.
//!
//! Does not do: knowing where notifications come from. That is the pool's listener, in `pooling`.
//!
//! //= pg18 sql-listen
//! //= pg18 protocol-flow#PROTOCOL-ASYNC

use std::collections::BTreeSet;
use std::sync::Arc;

use units::{Time, limits};

/// Longer names are cut by the server, at a character.
//= pg18 sql-syntax-lexical#SQL-SYNTAX-IDENTIFIERS
const NAME_LEN_MAX: usize = 63;

/// Names of channels. A copy is a pointer, until it is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Channels {
    names: Arc<BTreeSet<Box<[u8]>>>,
    /// There are more that its own server listens to.
    pub alone: bool,
}

/// What a statement does to it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum SubscriptionChange {
    Listen(Box<[u8]>),
    /// On the server at hand, and on no other.
    Alone,
    /// `None`: all.
    Unlisten(Option<Box<[u8]>>),
}

impl Channels {
    pub(super) fn apply(&mut self, change: &SubscriptionChange) {
        match change {
            SubscriptionChange::Listen(name) => self.insert(name),
            SubscriptionChange::Alone => self.alone = true,
            SubscriptionChange::Unlisten(name) => self.remove(name.as_deref()),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.names.contains(name)
    }

    pub(crate) fn insert(&mut self, name: &[u8]) {
        if !self.contains(name) {
            Arc::make_mut(&mut self.names).insert(name.into());
        }
    }

    /// `None`: all.
    pub(crate) fn remove(&mut self, name: Option<&[u8]>) {
        match name {
            Some(name) if self.contains(name) => drop(Arc::make_mut(&mut self.names).remove(name)),
            Some(_) => {}
            None => *self = Channels::default(),
        }
    }
}

/// Whether another connection knows the channel by the very same bytes.
pub fn is_portable(name: &[u8], is_utf8: bool) -> bool {
    // What lies beyond ASCII is folded as the database's locale wants it, where a character is one byte.
    name.len() <= NAME_LEN_MAX && (is_utf8 || name.is_ascii())
}

/// What a session waits for from its pool's listener.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum ListenerWait {
    #[default]
    Nothing,
    /// A message that it has not sent yet: notifications have to be received from the moment on in which it is done.
    ToSend { since: Time },
    /// Done: the message may go.
    MaySend,
    /// The ReadyForQuery of a transaction with a NOTIFY: what was said comes before it.
    ToBeReady,
}

/// A channel, and the whole message.
type Unread = (Box<[u8]>, Box<[u8]>);

/// Too much was said that the client has not read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Overflow;

/// A session that listens, or is about to.
#[derive(Debug, Default)]
pub struct Subscriptions {
    pub listener_wait: ListenerWait,
    /// What the listener listens to on its behalf: its channels, and those of LISTENs that are not committed.
    interest: BTreeSet<Box<[u8]>>,
    /// What was sent may commit its LISTENs, and whatever is said from then on may be for it: how many ReadyForQuery come before
    /// the one that tells.
    committing: Option<usize>,
    /// It listens on its own server: the listener was not to be had.
    pub alone: bool,
    /// Oldest first.
    unread: Vec<Unread>,
    unread_len: usize,
    /// Why notifications may have been lost: the client gets this as a notice between transactions, where it would get them.
    pub missed: Option<Box<str>>,
}

impl Subscriptions {
    /// There is nothing to remember.
    pub(crate) fn is_idle(&self) -> bool {
        let waits = self.alone || self.listener_wait != ListenerWait::Nothing || self.missed.is_some();
        self.interest.is_empty() && self.unread.is_empty() && !waits
    }

    pub fn interest(&self) -> impl Iterator<Item = &[u8]> {
        self.interest.iter().map(|name| &**name)
    }

    pub fn has_room(&self) -> bool {
        self.interest.len() < limits::CHANNELS_MAX
    }

    pub fn is_interested(&self, name: &[u8]) -> bool {
        self.interest.contains(name)
    }

    /// Whether it was new.
    pub fn take_interest(&mut self, name: &[u8]) -> bool {
        self.interest.insert(name.into())
    }

    /// Of what is not committed.
    pub fn has_more_than(&self, committed: &Channels) -> bool {
        self.interest.iter().any(|name| !committed.contains(name))
    }

    /// It listens to what was committed, or to what it has done since then. Returns what it does not listen to any more.
    pub fn settle(&mut self, committed: &Channels, now: &Channels) -> Vec<Box<[u8]>> {
        let listens = |name: &[u8]| committed.contains(name) || now.contains(name);
        let gone: Vec<Box<[u8]>> = self.interest.iter().filter(|name| !listens(name)).cloned().collect();
        self.interest.retain(|name| listens(name));
        gone
    }

    /// A message goes that may commit what is not committed, and so many ReadyForQuery come before the one that tells.
    pub fn commits(&mut self, awaited: usize) {
        self.committing = Some(awaited);
    }

    /// ReadyForQuery.
    pub(crate) fn ready(&mut self, idle: bool, committed: &Channels) {
        self.committing = self.committing.and_then(|awaited| awaited.checked_sub(1));
        if !idle {
            self.keep_unread(committed);
        }
    }

    /// Its server is gone, and its transaction.
    pub(crate) fn lost(&mut self) {
        self.committing = None;
    }

    /// What was said on other channels is not for it; if it may listen to them soon, that is not known yet.
    fn keep_unread(&mut self, channels: &Channels) {
        if self.committing.is_none() {
            self.unread.retain(|(channel, _)| channels.contains(channel));
        }
        self.unread_len = self.unread.iter().map(|(_, message)| message.len()).sum();
    }

    /// Something was said: a whole NotificationResponse. False: it is not for this session.
    pub(crate) fn deliver(&mut self, channel: &[u8], message: &[u8], committed: &Channels) -> Result<bool, Overflow> {
        let subscribed = committed.contains(channel) || self.committing.is_some() && self.interest.contains(channel);
        if !subscribed {
            return Ok(false);
        }
        if self.unread_len + message.len() > limits::NOTIFICATIONS_LEN_MAX {
            return Err(Overflow);
        }
        self.unread_len += message.len();
        self.unread.push((channel.into(), message.into()));
        Ok(true)
    }

    pub(crate) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Whether there is anything to tell its client between transactions.
    pub fn has_news(&self) -> bool {
        self.has_unread() || self.missed.is_some()
    }

    /// In no transaction: the messages that the client is to be sent, of the channels that it listens to.
    pub(crate) fn take_unread(&mut self, channels: &Channels) -> Vec<u8> {
        let unread = std::mem::take(&mut self.unread);
        let (due, kept) = unread.into_iter().partition(|(channel, _)| channels.contains(channel));
        self.unread = kept;
        self.keep_unread(channels);
        let due: Vec<Unread> = due;
        due.into_iter().flat_map(|(_, message)| message.into_vec()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channels(names: &[&str]) -> Channels {
        let mut channels = Channels::default();
        names.iter().for_each(|name| channels.insert(name.as_bytes()));
        channels
    }

    #[test]
    fn a_copy_is_not_changed_with_its_original() {
        let before = channels(&["a"]);
        let mut now = before.clone();
        now.insert(b"b");
        now.remove(Some(b"a"));
        now.remove(Some(b"z"));
        assert_eq!((before, now.clone()), (channels(&["a"]), channels(&["b"])));
        now.remove(None);
        assert!(now.is_empty());
    }

    #[test]
    fn what_is_said_before_the_commit_is_not_heard() {
        let (none, a) = (channels(&[]), channels(&["a"]));
        let mut subscriptions = Subscriptions::default();
        assert!(
            subscriptions.take_interest(b"a")
                && !subscriptions.take_interest(b"a")
                && subscriptions.has_more_than(&none)
        );
        assert_eq!(subscriptions.deliver(b"a", b"early", &none), Ok(false));
        subscriptions.commits(0);
        assert_eq!(subscriptions.deliver(b"a", b"1", &none), Ok(true));
        subscriptions.ready(true, &a);
        assert_eq!(subscriptions.deliver(b"a", b"2", &a), Ok(true));
        assert_eq!(subscriptions.take_unread(&a), b"12");
        assert!(
            subscriptions.settle(&a, &none).is_empty()
                && subscriptions.settle(&none, &a).is_empty()
                && !subscriptions.has_more_than(&a)
        );
        assert_eq!(subscriptions.settle(&none, &none), [Box::from(&b"a"[..])]);
        assert!(subscriptions.is_idle());
    }

    #[test]
    fn what_a_rollback_takes_back_was_not_heard() {
        let (none, b) = (channels(&[]), channels(&["b"]));
        let mut subscriptions = Subscriptions::default();
        subscriptions.take_interest(b"a");
        subscriptions.commits(0);
        assert_eq!(subscriptions.deliver(b"a", b"1", &b), Ok(true));
        assert_eq!(subscriptions.deliver(b"b", b"2", &b), Ok(true));
        // It was no commit.
        subscriptions.ready(false, &b);
        assert_eq!(subscriptions.take_unread(&b), b"2");
        assert_eq!((subscriptions.take_unread(&none), subscriptions.unread_len), (Vec::new(), 0));
    }

    #[test]
    fn what_is_not_read_is_bounded() {
        let a = channels(&["a"]);
        let mut subscriptions = Subscriptions::default();
        let long = vec![b'x'; limits::NOTIFICATIONS_LEN_MAX - 1];
        assert_eq!(subscriptions.deliver(b"a", &long, &a), Ok(true));
        assert_eq!(subscriptions.deliver(b"a", b"y", &a), Ok(true));
        assert_eq!(subscriptions.deliver(b"a", b"z", &a), Err(Overflow));
        assert_eq!(subscriptions.take_unread(&a).len(), limits::NOTIFICATIONS_LEN_MAX);
        assert_eq!(subscriptions.deliver(b"a", b"z", &a), Ok(true));
    }

    #[test]
    fn only_names_that_mean_the_same_elsewhere_are_shared() {
        assert!(is_portable(b"jobs", false) && is_portable("schön".as_bytes(), true));
        assert!(!is_portable("schön".as_bytes(), false) && !is_portable(&[b'x'; 64], true));
        assert!(is_portable(&[b'x'; 63], true));
    }
}
