//! What others say on a channel that a client listens to: it hears of it, where it stays idle for long enough.
//!
//! Looked at in worlds where PostgreSQL has no trouble, since a session is told when its listener is lost. Does not look at those that
//! say UNLISTEN or leave in time, nor at session mode; nor whether something comes twice.

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

    /// `listens`: so it is by all that it has sent. `idle`: all of that has been answered.
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

    /// What should have come by now.
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
    fn what_is_said_to_somebody_who_listens_must_come() {
        let mut news = News::default();
        news.settle(0, true, false);
        news.said("early", 1);
        news.settle(2, true, true);
        news.said("a", 3);
        news.said("b", 4);
        assert!(news.arrived(b"a") && !news.arrived(b"a") && !news.arrived(b"early"));
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
