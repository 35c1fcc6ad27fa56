//! Servers that are on their way to other workers, and what the board shows of a pool.

use queueing::queue::Waiter;
use units::{Time, WorkerId};

use super::Pool;
use crate::server::Group;

impl Pool {
    /// A server is on its way to another worker, for the waiter there that has waited since `since`. It counts here until it has arrived (I5).
    pub fn lend_to(&mut self, worker: WorkerId, since: Time) {
        self.exchange.fed.insert(worker, since);
        self.servers.lent += 1;
        let counted = self.servers.count(Group::Recovering);
        debug_assert!(self.servers.lent <= counted, "I5: a lent server counts here until it has arrived");
    }

    /// A lent server has arrived. False: the pool was forgotten meanwhile, and is another one.
    pub fn lend_arrived(&mut self) -> bool {
        if self.servers.lent == 0 {
            return false;
        }
        self.servers.leave(Group::Recovering);
        self.servers.lent -= 1;
        if self.servers.lent == 0 {
            // A session that waits from now on is another waiter, even if its time is the same.
            self.exchange.fed.clear();
        }
        true
    }

    /// A lent server comes back, because the other worker's mailbox was full. Nothing is lent before `until`.
    pub fn lend_returned(&mut self, worker: WorkerId, until: Time) {
        debug_assert!(self.servers.lent > 0, "a server that comes back was lent");
        self.servers.leave(Group::Recovering);
        self.servers.lent -= 1;
        self.exchange.fed.remove(&worker);
        self.exchange.lends_refused_until = until;
    }

    /// Whether the board shows another number of servers that the pool can do without than it has.
    pub fn has_other_excess(&self) -> bool {
        self.exchange.is_shared() && self.excess() != self.exchange.published.excess
    }

    /// Whether one more session may be pinned.
    pub fn may_pin(&self) -> bool {
        self.pinned_max().is_none_or(|max| self.pins.count < max)
    }

    /// Takes the session out of its queue that may be pinned next, if one may be.
    pub fn next_to_pin(&mut self) -> Option<Waiter> {
        if self.may_pin() { self.pins.queue.pop() } else { None }
    }
}
