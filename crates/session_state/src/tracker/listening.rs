//! What a session listens to, and the notifications for it.

use super::Tracker;
use crate::state::channels::{self, Overflow};
use crate::state::{Effect, Pins, SettingChange, base};

impl Tracker {
    /// LISTEN or UNLISTEN has run. `listens`: its server has listened to something, until it is known that it no longer does.
    pub(super) fn listen(&mut self, effect: Effect, listens: &mut bool) {
        let change = match effect {
            Effect::Listen(name) => channels::SubscriptionChange::Listen(name),
            Effect::Unlisten(name) => channels::SubscriptionChange::Unlisten(name),
            _ => channels::SubscriptionChange::Alone,
        };
        *listens |= !matches!(change, channels::SubscriptionChange::Unlisten(_));
        self.journal.change(&SettingChange::Channels(change), &base::LOGIN);
    }

    /// A text that may leave these pins is about to run. If LISTEN is one of its side effects, the channel is unknown.
    pub(super) fn suspect_listening(&mut self, pins: Pins) {
        if pins.any(Pins::LISTEN) {
            self.journal.change(&SettingChange::Channels(channels::SubscriptionChange::Alone), &base::LOGIN);
            self.pin_listener();
        }
    }

    /// Outside a transaction block with nothing under way: channels that it no longer listens to. What a batch without
    /// Sync has ended may come back.
    pub fn settle_channels(&mut self) -> Vec<Box<[u8]>> {
        if !self.under_way.is_empty() {
            return Vec::new();
        }
        let alone = self.journal.listens_alone();
        self.notifications.settle(self.journal.channels(), self.journal.now().channels(), alone)
    }

    /// Whether the session's own server may send notifications for it: the session listens there, or an unknown statement, because of
    /// which it keeps the server, may have run LISTEN.
    pub fn listens_on_server(&self) -> bool {
        self.journal.listens_alone() || self.pinning.pins().any(Pins::UNKNOWN)
    }

    /// As [`Tracker::listens_on_server`], also once the answers under way have come.
    pub fn may_listen_on_server(&self) -> bool {
        let may_listen = |effect: &Effect| matches!(effect, Effect::ListenAlone | Effect::Unknown);
        self.listens_on_server() || self.under_way.any(may_listen)
    }

    /// A complete NotificationResponse on a channel has come. False: it is not for this session.
    pub fn deliver(&mut self, channel: &[u8], message: &[u8]) -> Result<bool, Overflow> {
        self.notifications.deliver(channel, message, self.journal.channels())
    }

    /// Why notifications for it may be lost, since its listener was.
    pub fn missed(&self) -> Option<&str> {
        self.notifications
            .subscriptions()
            .and_then(|subscriptions| subscriptions.missed.as_deref())
            .filter(|_| !self.journal.is_deaf())
    }

    /// Outside a transaction: the notifications to send to the client.
    pub fn take_unread(&mut self) -> Vec<u8> {
        self.notifications.take_unread(self.journal.now().channels())
    }

    /// Listening on its own server pins it there.
    pub(super) fn pin_listener(&mut self) {
        let pin = if self.journal.listens_alone() { Pins::LISTEN } else { Pins::NONE };
        self.pinning.replace(Pins::LISTEN, pin);
    }
}
