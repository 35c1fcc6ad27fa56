//! What others say on a channel that a client listens to: it hears of it, where it stays idle for long enough.
//!
//! Looked at in worlds where PostgreSQL has no trouble, since a session is told when its listener is lost. Does not look at those that
//! say UNLISTEN or leave in time, nor at session mode; nor whether something comes twice.

use wire::backend::Notification;

use super::Client;
use crate::course::Finding;

/// How long a notification takes at most to somebody who is idle, in microseconds.
const ARRIVAL_US: u64 = 2_000_000;

/// What a client is to hear on the channel that all clients of its database share.
#[derive(Debug, Default)]
pub(super) struct News {
    /// It has been told that it listens.
    listens: bool,
    /// Since when it is owed nothing, is in no transaction, and has sent all.
    idle_since: Option<u64>,
    /// Payloads, and when the transaction that said them was committed.
    owed: Vec<(String, u64)>,
}

impl News {
    /// Another session has said something.
    fn said(&mut self, payload: &str, now: u64) {
        if self.listens {
            self.owed.push((payload.to_owned(), now));
        }
    }

    /// Returns whether it was owed.
    fn heard(&mut self, payload: &[u8]) -> bool {
        let at = self.owed.iter().position(|(owed, _)| owed.as_bytes() == payload);
        at.map(|at| self.owed.remove(at)).is_some()
    }

    /// `listens`: so it is by all that it has sent. `idle`: all of that has been answered.
    fn settle(&mut self, now: u64, listens: bool, idle: bool) {
        if idle {
            self.idle_since.get_or_insert(now);
        } else {
            self.idle_since = None;
        }
        self.listens = listens && (idle || self.listens);
        if !self.listens {
            self.owed.clear();
        }
    }

    /// What should have come by now.
    fn missing(&self, now: u64) -> Option<&str> {
        let idle_since = self.idle_since?;
        let is_late = |(_, said_at): &&(String, u64)| now >= idle_since.max(*said_at) + ARRIVAL_US;
        self.owed.iter().find(is_late).map(|(payload, _)| payload.as_str())
    }
}

impl Client {
    /// Another session has committed what it said on a channel.
    pub(crate) fn is_to_hear(&mut self, channel: &str, payload: &str, now: u64) {
        let own = format!("c{}.", self.number);
        if self.habits.shares_channel && channel == self.shared_channel() && !payload.starts_with(&own) {
            self.news.said(payload, now);
        }
    }

    /// A NotificationResponse of another's. Returns whether it was owed.
    pub(super) fn hear_news(&mut self, body: &[u8]) -> bool {
        Notification::decode(body).is_ok_and(|said| self.news.heard(said.payload))
    }

    /// All that has come is read.
    ///
    /// # Errors
    /// Something has not come.
    pub(super) fn judge_news(&self, now: u64) -> Result<(), Finding> {
        match self.news.missing(now) {
            None => Ok(()),
            Some(payload) => {
                Err((9, format!("client {} has not heard {payload} on {}", self.number, self.shared_channel())))
            }
        }
    }

    /// All that is to be sent for now is sent.
    pub(super) fn settle_news(&mut self, now: u64) {
        let hears = self.followed && self.is_ready() && !self.lost && self.habits.pace == 0;
        let listens = hears && self.habits.shares_channel && self.twin.listens_to(&self.shared_channel());
        self.news.settle(now, listens, !self.is_engaged());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_to_somebody_who_listens_must_come() {
        let mut news = News::default();
        news.settle(0, true, false);
        news.said("early", 1);
        news.settle(2, true, true);
        news.said("a", 3);
        news.said("b", 4);
        assert!(news.heard(b"a") && !news.heard(b"a") && !news.heard(b"early"));
        assert_eq!(news.missing(3 + ARRIVAL_US), None);
        assert_eq!(news.missing(4 + ARRIVAL_US), Some("b"));
        // It is told between transactions only.
        news.settle(5, true, false);
        assert_eq!(news.missing(9 * ARRIVAL_US), None);
        news.settle(ARRIVAL_US, true, true);
        assert_eq!(news.missing(2 * ARRIVAL_US), Some("b"));
        news.settle(2 * ARRIVAL_US, false, false);
        assert_eq!(news.missing(9 * ARRIVAL_US), None);
    }
}
