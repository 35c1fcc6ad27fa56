//! One class's waiters, first in, first out. Leaving from the middle costs nothing: such entries are passed over later.

use std::collections::VecDeque;

use units::{ConnId, Time};

#[derive(Debug, Default)]
pub struct ClassQueue {
    entries: VecDeque<Waiter>,
    next_ticket: u64,
    len: u32,
}

/// A session in the queue.
#[derive(Copy, Clone, Debug)]
pub struct Waiter {
    pub session: ConnId,
    pub since: Time,
    /// Tells this wait from the session's other ones.
    pub ticket: u64,
    gone: bool,
}

impl ClassQueue {
    /// How many wait now.
    pub fn len(&self) -> u32 {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn push(&mut self, session: ConnId, since: Time) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.entries.push_back(Waiter { session, since, ticket, gone: false });
        self.len += 1;
        ticket
    }

    /// The oldest waiter.
    pub fn front(&self) -> Option<Waiter> {
        self.entries.front().copied()
    }

    pub fn pop(&mut self) -> Option<Waiter> {
        let waiter = self.entries.pop_front()?;
        debug_assert!(!waiter.gone, "the front is always somebody who waits");
        self.len -= 1;
        self.trim();
        Some(waiter)
    }

    /// Serves the newest first: a deliberate fault, for showing that the simulator sees it.
    #[cfg(debug_assertions)]
    pub(crate) fn pop_newest(&mut self) -> Option<Waiter> {
        while self.entries.back().is_some_and(|waiter| waiter.gone) {
            self.entries.pop_back();
        }
        let waiter = self.entries.pop_back()?;
        self.len -= 1;
        self.trim();
        Some(waiter)
    }

    /// A session stops waiting without having been served.
    pub fn leave(&mut self, ticket: u64) {
        // Tickets rise along the queue, so the place is found by bisection.
        let Ok(index) = self.entries.binary_search_by_key(&ticket, |waiter| waiter.ticket) else {
            debug_assert!(false, "a waiting session is in its line");
            return;
        };
        self.entries[index].gone = true;
        self.len -= 1;
        self.trim();
    }

    /// How many are served until it is this one's turn, itself included.
    pub fn place(&self, ticket: u64) -> Option<u32> {
        let index = self.entries.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()?;
        let is_whole = self.entries.len() == self.len as usize;
        let gone = if is_whole { 0 } else { self.entries.range(..index).filter(|waiter| waiter.gone).count() };
        Some((index - gone) as u32 + 1)
    }

    fn trim(&mut self) {
        while self.entries.front().is_some_and(|waiter| waiter.gone) {
            self.entries.pop_front();
        }
    }

    /// Everybody, oldest first.
    pub(crate) fn waiters(&self) -> impl Iterator<Item = Waiter> {
        self.entries.iter().filter(|waiter| !waiter.gone).copied()
    }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    fn session(slot: u32) -> ConnId {
        ConnId::new(Kind::Client, 0, slot, 0)
    }

    #[test]
    fn the_line_keeps_the_order_of_arrival_when_people_leave() {
        let mut line = ClassQueue::default();
        let tickets: Vec<u64> = (0..5).map(|slot| line.push(session(slot), Time(u64::from(slot)))).collect();
        line.leave(tickets[0]);
        line.leave(tickets[2]);
        assert_eq!((line.len(), line.front().map(|waiter| waiter.since)), (3, Some(Time(1))));
        assert_eq!(line.waiters().count(), 3);
        assert_eq!([1, 3, 4].map(|index| line.place(tickets[index])), [Some(1), Some(2), Some(3)]);
        let served: Vec<ConnId> = std::iter::from_fn(|| line.pop()).map(|waiter| waiter.session).collect();
        assert_eq!(served, [session(1), session(3), session(4)]);
        assert!(line.is_empty() && line.front().is_none());
    }
}
