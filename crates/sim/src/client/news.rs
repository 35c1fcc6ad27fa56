//! Notifications from other clients on a channel that a client listens to: they must come if the client stays idle for
//! long enough.
//!
//! Checked in worlds without failures at PostgreSQL, since a session gets an error when its listener is lost. Not
//! checked: sessions that UNLISTEN or leave in time, session mode, and whether a notification comes twice.

/// The longest time of a notification to an idle client, in microseconds.
const ARRIVAL_US: u64 = 2_000_000;

/// The notifications that a client must get on the channel that all clients of its database share.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Its LISTEN was answered.
    listens: bool,
    /// Since when it is owed nothing, is in no transaction, and has sent everything.
    idle_since: Option<u64>,
    /// Payloads, and the commit time of the transaction that sent them.
    owed: Vec<(String, u64)>,
}

impl News {
    /// Another session has sent a notification.
    pub(super) fn said(&mut self, payload: &str, now: u64) {
        if self.listens {
            self.owed.push((payload.to_owned(), now));
        }
    }

    /// Returns whether it was owed.
    pub(super) fn arrived(&mut self, payload: &[u8]) -> bool {
        let at = self.owed.iter().position(|(owed, _)| owed.as_bytes() == payload);
        at.map(|at| self.owed.remove(at)).is_some()
    }

    /// `listens`: it listens after all that it has sent. `idle`: all of that was answered.
    pub(super) fn settle(&mut self, now: u64, listens: bool, idle: bool) {
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

    /// A payload that should have come by now.
    pub(super) fn missing(&self, now: u64) -> Option<&str> {
        let idle_since = self.idle_since?;
        let is_late = |(_, said_at): &&(String, u64)| now >= idle_since.max(*said_at) + ARRIVAL_US;
        self.owed.iter().find(is_late).map(|(payload, _)| payload.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_to_a_listening_client_must_come() {
        let mut news = News::default();
        news.settle(0, true, false);
        news.said("early", 1);
        news.settle(2, true, true);
        news.said("a", 3);
        news.said("b", 4);
        assert!(news.arrived(b"a") && !news.arrived(b"a") && !news.arrived(b"early"));
        assert_eq!(news.missing(3 + ARRIVAL_US), None);
        assert_eq!(news.missing(4 + ARRIVAL_US), Some("b"));
        // Notifications come only between transactions.
        news.settle(5, true, false);
        assert_eq!(news.missing(9 * ARRIVAL_US), None);
        news.settle(ARRIVAL_US, true, true);
        assert_eq!(news.missing(2 * ARRIVAL_US), Some("b"));
        news.settle(2 * ARRIVAL_US, false, false);
        assert_eq!(news.missing(9 * ARRIVAL_US), None);
    }
}
