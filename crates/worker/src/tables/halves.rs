//! Incomplete messages of clients without a server. The total that is kept of them has a bound.
//!
//! A statement is kept until it is complete, so that a client that sends slowly occupies no server. At most
//! [`limits::CHUNK_LEN_MAX`](units::limits::CHUNK_LEN_MAX) is kept for one client; then the client is not read until it
//! is linked. At most [`limits::HALF_BYTES_MAX`](units::limits::HALF_BYTES_MAX) is kept for all; beyond that, the
//! clients that began their message first are refused (I10).
//!
//! A session that has ended, or whose message is complete, is not in the table. Complete and short messages are not
//! counted. The exact total is added up only when it may be too much; the caller says how much a session keeps.

use std::collections::BTreeMap;

use units::{ConnId, Time};

/// Once sessions are refused, the total is brought below the bound by this part of it, so that it need not be added up
/// again soon.
const SHED_PARTS: usize = 16;

/// Sessions that keep a large part of a message.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    /// Since when.
    halves: BTreeMap<ConnId, Time>,
    /// An upper bound of what they keep.
    half_bytes: usize,
}

impl Halves {
    /// A session keeps `bytes` of an incomplete message.
    pub(crate) fn keep(&mut self, conn: ConnId, now: Time, bytes: usize) {
        self.halves.entry(conn).or_insert(now);
        self.half_bytes += bytes;
    }

    /// A session's message is complete, or the session ends.
    #[inline]
    pub(crate) fn forget(&mut self, conn: ConnId) {
        if !self.halves.is_empty() {
            self.halves.remove(&conn);
        }
    }

    /// Takes out the sessions to refuse, those that began first, so that the others keep at most `max` bytes. `kept`:
    /// what a session keeps now.
    pub(crate) fn shed(&mut self, max: usize, kept: impl Fn(ConnId) -> usize) -> Vec<ConnId> {
        if self.half_bytes <= max {
            return Vec::new();
        }
        let mut halves: Vec<(Time, ConnId, usize)> =
            std::mem::take(&mut self.halves).into_iter().map(|(conn, since)| (since, conn, kept(conn))).collect();
        halves.retain(|&(_, _, len)| len > 0);
        halves.sort_unstable();
        self.half_bytes = halves.iter().map(|&(_, _, len)| len).sum();
        let enough = if self.half_bytes > max { max - max / SHED_PARTS } else { max };
        let mut shed = Vec::new();
        for (since, conn, len) in halves {
            if self.half_bytes <= enough {
                self.halves.insert(conn, since);
            } else {
                self.half_bytes -= len;
                shed.push(conn);
            }
        }
        shed
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use units::Kind;

    use super::*;

    const MAX: usize = 1600;

    fn session(slot: u32) -> ConnId {
        ConnId::new(Kind::Client, 0, slot, 0)
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_sessions_that_began_first_are_refused_until_the_total_is_below_the_bound() {
        let mut halves = Halves::default();
        for slot in 0..3 {
            halves.keep(session(slot), at(u64::from(9 - slot)), 500);
            assert!(halves.shed(MAX, |_| 500).is_empty());
        }
        halves.keep(session(3), at(10), 500);
        // The first of them goes on: it began when it began.
        halves.keep(session(2), at(11), 500);
        assert_eq!(
            halves.shed(MAX, |_| 500),
            [session(2)],
            "1500 bytes are left, and that is a sixteenth below the bound"
        );
        assert!(halves.shed(MAX, |_| 500).is_empty());
    }

    #[test]
    fn what_was_counted_too_often_is_counted_anew() {
        let mut halves = Halves::default();
        for second in 0..100 {
            halves.keep(session(0), at(second), 100);
            assert!(halves.shed(MAX, |_| 100).is_empty());
        }
    }

    #[test]
    fn a_session_that_ends_leaves_nothing_in_the_table() {
        let mut halves = Halves::default();
        halves.keep(session(0), at(0), MAX);
        halves.forget(session(1));
        assert_eq!(halves.halves.len(), 1);
        halves.forget(session(0));
        assert!(halves.halves.is_empty());
        halves.keep(session(2), at(1), MAX);
        assert!(halves.shed(MAX, |_| MAX).is_empty(), "only the one that is there counts");
    }
}
