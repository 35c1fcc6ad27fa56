//! What a session listens to, and what it says.

use super::Tracker;
use crate::state::channels::{self, Channels, Ears, Overflow, Wait};
use crate::state::{Change, Effect, Pins};

impl Tracker {
    /// LISTEN or UNLISTEN has run. `listens`: its server has listened to something, until that is told otherwise.
    pub(super) fn listen(&mut self, effect: Effect, listens: &mut bool) {
        let change = match effect {
            Effect::Listen(name) => channels::Change::Listen(name),
            Effect::Unlisten(name) => channels::Change::Unlisten(name),
            _ => channels::Change::Alone,
        };
        *listens |= !matches!(change, channels::Change::Unlisten(_));
        self.journal.change(&Change::Channels(change));
    }

    /// Something is about to run that may leave these. If it hides a LISTEN, nobody knows of which channel.
    pub(super) fn suspect_listening(&mut self, pins: Pins) {
        if pins.any(Pins::LISTEN) {
            self.journal.change(&Change::Channels(channels::Change::Alone));
            self.pin_listener();
        }
    }

    /// It says something on a channel, and so many ReadyForQuery come before the one that may commit it.
    pub fn says(&mut self, awaited: usize) {
        self.said = Some(awaited);
    }

    /// ReadyForQuery.
    pub(super) fn hear_ready(&mut self, idle: bool) {
        let is_deaf = idle && self.is_deaf();
        match &mut self.ears {
            Some(ears) => {
                ears.ready(idle, self.journal.before().channels());
                if is_deaf {
                    // It listened to nothing after all, and what it says from now on the next listener hears.
                    ears.missed = None;
                }
            }
            None if idle && self.said == Some(0) => self.said = None,
            None => {}
        }
        self.said = self.said.map(|awaited| awaited.saturating_sub(1));
    }

    /// Its server is gone, and its transaction.
    pub(super) fn hear_no_end(&mut self) {
        self.said = None;
        if let Some(ears) = &mut self.ears {
            ears.lost();
        }
    }

    /// Whether what it has said may not have been committed, or heard by itself.
    pub fn has_said(&self) -> bool {
        self.said.is_some()
    }

    /// A transaction is over: whether it has said something.
    pub fn take_said(&mut self) -> bool {
        self.said.take().is_some()
    }

    /// It neither listens nor has said anything.
    pub(super) fn is_silent(&self) -> bool {
        self.ears.is_none() && self.said.is_none()
    }

    /// What it listens to as far as that is committed.
    pub fn channels(&self) -> &Channels {
        self.journal.before().channels()
    }

    /// It listens to something on its own server, or has until its transaction ends.
    pub fn listens_alone(&self) -> bool {
        self.channels().alone || self.state().channels().alone
    }

    /// Nothing of it was committed, nor is it about to be.
    pub fn is_deaf(&self) -> bool {
        self.channels().is_empty() && self.state().channels().is_empty()
    }

    /// What is under way ends some of what it listens to.
    pub fn is_unlistening(&self) -> bool {
        let ends = |effect: &Effect| matches!(effect, Effect::Unlisten(_) | Effect::DiscardAll);
        self.sent.any(ends)
    }

    pub fn ears(&self) -> Option<&Ears> {
        self.ears.as_deref()
    }

    pub fn ears_mut(&mut self) -> &mut Ears {
        self.ears.get_or_insert_default()
    }

    /// Where it waits for its pool's listener.
    pub fn wait(&self) -> Wait {
        self.ears.as_ref().map_or(Wait::Nothing, |ears| ears.wait)
    }

    /// Outside of a transaction block, nothing under way: channels that it does not listen to any more. What an extended batch
    /// without its Sync has taken away may come back.
    pub fn settle_channels(&mut self) -> Vec<Box<[u8]>> {
        let alone = self.listens_alone();
        let Some(ears) = self.ears.as_mut().filter(|ears| self.sent.is_empty() && ears.wait == Wait::Nothing) else {
            return Vec::new();
        };
        let gone = ears.settle(self.journal.before().channels(), self.journal.now().channels());
        ears.alone &= alone;
        if ears.is_idle() {
            self.ears = None;
        }
        gone
    }

    /// Something was said on a channel: a whole NotificationResponse. False: not for this session.
    pub fn hear(&mut self, channel: &[u8], message: &[u8]) -> Result<bool, Overflow> {
        match &mut self.ears {
            Some(ears) => ears.hear(channel, message, self.journal.before().channels()),
            None => Ok(false),
        }
    }

    /// Nobody knows what was said to it, since its listener was lost: why.
    pub fn missed(&self) -> Option<&str> {
        self.ears.as_ref().and_then(|ears| ears.missed.as_deref()).filter(|_| !self.is_deaf())
    }

    /// In no transaction: what the client is to be told of what was said.
    pub fn take_unread(&mut self) -> Vec<u8> {
        match self.ears.as_mut().filter(|ears| ears.has_unread()) {
            Some(ears) => ears.take_unread(self.journal.now().channels()),
            None => Vec::new(),
        }
    }

    /// What it listens to on its own server keeps it there.
    pub(super) fn pin_listener(&mut self) {
        let pin = if self.listens_alone() { Pins::LISTEN } else { Pins::NONE };
        self.pins = self.pins & !Pins::LISTEN | pin;
    }
}
