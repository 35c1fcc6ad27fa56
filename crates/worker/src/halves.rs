//! Messages that are not whole, of clients that have no server: what is kept of them, for all clients together, has a bound.
//!
//! A statement is kept until all of it is there, so that a client that sends it slowly holds no server. One client can make
//! us keep [`limits::CHUNK_LEN_MAX`] of it; then it is not read until it is linked. All together may have
//! [`limits::HALF_BYTES_MAX`]; beyond it, those that began to send their message first are refused (I10).
//!
//! Nothing is counted for messages that are whole, or short: what all keep is added up when it may be too much.

use machine::Turn;
use units::{ConnId, Time, heap, limits};
use wire::sqlstate;

use crate::Worker;

/// Once sessions are refused: so much below the bound, since adding up is worth a number of them.
const SHED_PARTS: usize = 16;

impl Worker {
    /// Keeps the part of a message that is there.
    pub(super) fn keep_half(&mut self, turn: &mut Turn<'_>, conn: ConnId, bytes: &[u8]) {
        if bytes.len() <= limits::HALF_ORDINARY {
            return self.stash(turn, conn, bytes);
        }
        let Some(session) = self.sessions.get_mut(conn) else { return };
        if session.inbox.try_reserve_exact(bytes.len()).is_err() {
            return self.refuse_session(turn, conn, sqlstate::OUT_OF_MEMORY, "out of memory");
        }
        self.halves.entry(conn).or_insert(turn.now);
        self.half_bytes += heap::taken(session.inbox.capacity());
        self.stash(turn, conn, bytes);
        if self.half_bytes > self.half_bytes_max() {
            self.shed_halves(turn);
        }
    }

    fn half_bytes_max(&self) -> usize {
        limits::HALF_BYTES_MAX / usize::from(self.settings.workers.max(1))
    }

    fn shed_halves(&mut self, turn: &mut Turn<'_>) {
        let known = std::mem::take(&mut self.halves);
        let mut halves: Vec<(Time, ConnId, usize)> =
            known.into_iter().map(|(conn, since)| (since, conn, self.view().half_of(conn))).collect();
        halves.retain(|&(_, _, len)| len > 0);
        halves.sort_unstable();
        self.half_bytes = halves.iter().map(|&(_, _, len)| len).sum();
        let max = self.half_bytes_max();
        let enough = if self.half_bytes > max { max - max / SHED_PARTS } else { max };
        for (since, conn, len) in halves {
            if self.half_bytes <= enough {
                self.halves.insert(conn, since);
                continue;
            }
            self.half_bytes -= len;
            let text = "too much is kept of messages that are not whole, of all clients together";
            self.refuse_session(turn, conn, sqlstate::OUT_OF_MEMORY, text);
        }
    }

    /// A session's message is whole.
    #[inline]
    pub(super) fn forget_half(&mut self, conn: ConnId) {
        if !self.halves.is_empty() {
            self.halves.remove(&conn);
        }
    }
}
