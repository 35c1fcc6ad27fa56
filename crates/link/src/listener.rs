//! The listener of a pool on one worker: one connection that listens for all of the pool's sessions. This value holds
//! which session listens to which channel, what the connection still has to be sent, and which sessions wait for it.
//!
//! ```text
//!   session ─ LISTEN jobs ─► the connection listens to jobs? ─ no ─► round: LISTEN "jobs"; ─┐
//!                                     └─ yes ─► round: an empty query ──────────────────────┴─► answered: the session goes on
//! NOTIFY jobs ─► NotificationResponse ─► every session that listens to jobs
//! ```
//!
//! A round is one query. The next one is sent when it has been answered, so that a thousand sessions cost two rounds.
//! When it is answered, this connection has received all notifications that were committed before the query was sent.
//!
//! It sends nothing itself.
//!
//! //= pg18 sql-listen
//! //= pg18 sql-notify

use std::collections::{BTreeMap, BTreeSet};

use session_state::state::write_identifier;
use units::{ConnId, limits};

/// The listener of one pool on one worker.
#[derive(Debug, Default)]
pub struct Listener {
    /// The connection, if there is one.
    server: Option<ConnId>,
    /// The sessions that listen to each channel. The connection listens to these channels, or will with the next rounds.
    channels: BTreeMap<Box<[u8]>, BTreeSet<ConnId>>,
    /// LISTENs (true) and UNLISTENs that are still to be sent, oldest first.
    unsent: Vec<(bool, Box<[u8]>)>,
    /// Sessions that wait for a round that has not begun.
    waiting: Vec<ConnId>,
    /// Sessions that wait for the round under way.
    served: Vec<ConnId>,
}

impl Listener {
    /// The connection, if there is one.
    pub fn server(&self) -> Option<ConnId> {
        self.server
    }

    /// It has a connection.
    pub fn connected(&mut self, server: ConnId) {
        debug_assert!(self.server.is_none(), "a pool has one listener on a worker");
        self.server = Some(server);
    }

    /// A session listens to a channel.
    pub(crate) fn listen(&mut self, name: &[u8], session: ConnId) {
        let sessions = self.channels.entry(name.into()).or_default();
        if sessions.is_empty() {
            self.unsent.push((true, name.into()));
        }
        sessions.insert(session);
    }

    /// A session no longer listens to a channel.
    pub fn leave(&mut self, name: &[u8], session: ConnId) {
        // No session listens to it any more.
        let Some(sessions) = self.channels.get_mut(name) else { return };
        sessions.remove(&session);
        if sessions.is_empty() {
            self.channels.remove(name);
            self.unsent.push((false, name.into()));
        }
    }

    /// A session waits until everything up to now has been sent and answered.
    pub fn join_next_round(&mut self, session: ConnId) {
        let waits = self.waiting.contains(&session) || self.served.contains(&session);
        debug_assert!(!waits, "a session waits for one round at a time");
        self.waiting.push(session);
    }

    /// A session no longer waits for a round.
    pub fn leave_round(&mut self, session: ConnId) {
        self.waiting.retain(|&waiting| waiting != session);
        self.served.retain(|&served| served != session);
    }

    /// There are sessions to serve and no connection.
    pub fn needs_connection(&self) -> bool {
        self.server.is_none() && !self.waiting.is_empty()
    }

    /// No session listens or is about to.
    pub fn is_unused(&self) -> bool {
        self.channels.is_empty() && self.waiting.is_empty() && self.served.is_empty()
    }

    /// The sessions that listen to a channel.
    pub fn audience(&self, name: &[u8]) -> impl Iterator<Item = ConnId> {
        self.channels.get(name).into_iter().flatten().copied()
    }

    /// All sessions that listen or wait.
    pub fn all_sessions(&self) -> BTreeSet<ConnId> {
        self.channels.values().flatten().chain(&self.waiting).chain(&self.served).copied().collect()
    }

    /// The next query for the connection, when none is under way: appends its text, which may be empty. False: there is
    /// none.
    pub fn next_round(&mut self, out: &mut Vec<u8>) -> bool {
        debug_assert!(self.served.is_empty(), "one round at a time");
        if self.unsent.is_empty() && self.waiting.is_empty() {
            return false;
        }
        let count = self.unsent.len().min(limits::CHANNELS_PER_ROUND_MAX);
        for (listens, name) in self.unsent.drain(..count) {
            out.extend_from_slice(if listens { b"LISTEN " } else { b"UNLISTEN " });
            write_identifier(&name, out);
            out.push(b';');
        }
        if self.unsent.is_empty() {
            self.served = std::mem::take(&mut self.waiting);
        }
        true
    }

    /// The round has been answered: returns the sessions that waited for it.
    pub fn answered(&mut self) -> Vec<ConnId> {
        std::mem::take(&mut self.served)
    }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    fn session(slot: u32) -> ConnId {
        ConnId::new(Kind::Client, 0, slot, 0)
    }

    fn round(listener: &mut Listener) -> Option<String> {
        let mut out = Vec::new();
        listener.next_round(&mut out).then(|| String::from_utf8(out).expect("ASCII"))
    }

    #[test]
    fn a_channel_is_listened_to_once_and_left_with_its_last_session() {
        let mut listener = Listener::default();
        listener.listen(b"a", session(1));
        listener.join_next_round(session(1));
        listener.listen(b"a", session(2));
        listener.join_next_round(session(2));
        assert!(listener.needs_connection());
        assert_eq!(round(&mut listener).as_deref(), Some("LISTEN \"a\";"));
        assert_eq!(listener.answered(), [session(1), session(2)]);
        assert_eq!(round(&mut listener), None);
        listener.leave(b"a", session(1));
        assert_eq!((round(&mut listener), listener.audience(b"a").count()), (None, 1));
        listener.leave(b"a", session(2));
        listener.listen(b"a", session(1));
        assert_eq!(round(&mut listener).as_deref(), Some("UNLISTEN \"a\";LISTEN \"a\";"));
    }

    #[test]
    fn a_session_that_comes_during_a_round_waits_for_the_next() {
        let mut listener = Listener::default();
        listener.join_next_round(session(1));
        assert_eq!(round(&mut listener).as_deref(), Some(""));
        listener.join_next_round(session(2));
        assert_eq!(listener.answered(), [session(1)]);
        assert_eq!(round(&mut listener).as_deref(), Some(""));
        listener.leave_round(session(2));
        assert!(listener.answered().is_empty() && listener.is_unused());
    }

    #[test]
    fn a_round_is_bounded_and_a_session_waits_for_all_its_channels() {
        let mut listener = Listener::default();
        for number in 0..=limits::CHANNELS_PER_ROUND_MAX {
            listener.listen(format!("c{number}").as_bytes(), session(1));
        }
        listener.join_next_round(session(1));
        assert!(round(&mut listener).is_some() && listener.answered().is_empty());
        let last = format!("LISTEN \"c{}\";", limits::CHANNELS_PER_ROUND_MAX);
        assert_eq!(round(&mut listener), Some(last));
        assert_eq!(listener.answered(), [session(1)]);
    }
}
