//! Workers that have panicked, and others in their place. What one that panicked had is free again, but for servers that it had
//! lent: those are on their way still, each with its token.
//!
//! ```text
//!   Renewed ──► its sessions, requests, permits: gone      its tokens: lapse ──► those of servers that arrive elsewhere are held there
//!          └──(worker to worker)──► each other worker ──► LoansArrived ──► once all have said so, what is left is free
//! ```
//!
//! Promises: a token that lapses counts as out until it is certain that its server is closed (I5), and then no more (I12). Mail of
//! one sender to one receiver keeps its order; that is enough.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use units::{Holder, Life, WorkerId};

/// Which life of each worker is known here, and what others know.
#[derive(Debug)]
pub(crate) struct Renewals {
    /// By worker.
    lives: Vec<Life>,
    /// From a worker to another: of which life the first is whose servers still arrive there.
    heard: BTreeMap<(WorkerId, WorkerId), Life>,
}

/// Whose a server was that has arrived elsewhere.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lender {
    /// A worker that has panicked: its token lapses until now.
    Before,
    Present,
    /// One that is not known here yet: what it tells itself is on its way.
    Later(Life),
}

impl Renewals {
    pub(crate) fn new(workers: u16) -> Renewals {
        Renewals { lives: vec![Life::default(); usize::from(workers)], heard: BTreeMap::new() }
    }

    /// The life of a worker that clients are sent to. Another process has but one.
    pub(crate) fn life(&self, holder: impl Into<Holder>) -> Life {
        match holder.into() {
            Holder::Worker(worker) => self.lives[usize::from(worker.0)],
            Holder::Process(_) => Life::default(),
        }
    }

    /// A worker is another one: what the one before had lapses.
    pub(crate) fn begin(&mut self, worker: WorkerId, life: Life) {
        self.lives[usize::from(worker.0)] = life;
    }

    /// All that was lent before this life of `from` has arrived at `to`.
    pub(crate) fn arrived(&mut self, from: WorkerId, life: Life, to: WorkerId) {
        self.heard.insert((from, to), life);
    }

    fn heard(&self, from: WorkerId, to: WorkerId) -> Life {
        self.heard.get(&(from, to)).copied().unwrap_or_default()
    }

    /// No server is on its way any more that a worker before this one has lent.
    pub(crate) fn has_all_arrived(&self, from: WorkerId) -> bool {
        let mut others = (0..self.lives.len() as u16).map(WorkerId).filter(|other| *other != from);
        others.all(|other| self.heard(from, other) >= self.life(from))
    }

    /// Who has lent a server that has arrived at `to`.
    pub(crate) fn lender(&self, from: WorkerId, to: WorkerId) -> Lender {
        let lender = self.heard(from, to);
        match lender.cmp(&self.life(from)) {
            Ordering::Less => Lender::Before,
            Ordering::Equal => Lender::Present,
            Ordering::Greater => Lender::Later(lender),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: WorkerId = WorkerId(0);
    const B: WorkerId = WorkerId(1);
    const C: WorkerId = WorkerId(2);

    #[test]
    fn tokens_lapse_until_all_others_have_what_was_on_its_way() {
        let mut renewals = Renewals::new(3);
        let life = Life::default().next();
        assert!(renewals.has_all_arrived(A) && renewals.lender(A, B) == Lender::Present);
        renewals.begin(A, life);
        assert_eq!((renewals.lender(A, B), renewals.lender(A, C)), (Lender::Before, Lender::Before));
        renewals.arrived(A, life, B);
        assert_eq!((renewals.lender(A, B), renewals.lender(A, C)), (Lender::Present, Lender::Before));
        assert!(!renewals.has_all_arrived(A));
        renewals.arrived(A, life, C);
        assert!(renewals.has_all_arrived(A) && renewals.lender(A, C) == Lender::Present);
    }

    #[test]
    fn others_may_know_of_a_worker_before_it_is_known_here() {
        let mut renewals = Renewals::new(2);
        let life = Life::default().next();
        renewals.arrived(A, life, B);
        assert_eq!(renewals.lender(A, B), Lender::Later(life));
        renewals.begin(A, life);
        assert!(renewals.has_all_arrived(A) && renewals.lender(A, B) == Lender::Present);
    }

    #[test]
    fn what_is_said_of_an_earlier_life_is_not_enough() {
        let mut renewals = Renewals::new(2);
        let (first, second) = (Life::default().next(), Life::default().next().next());
        renewals.begin(A, first);
        renewals.begin(A, second);
        renewals.arrived(A, first, B);
        assert!(!renewals.has_all_arrived(A) && renewals.lender(A, B) == Lender::Before);
        renewals.arrived(A, second, B);
        assert!(renewals.has_all_arrived(A));
    }

    #[test]
    fn one_worker_alone_has_lent_nothing() {
        let mut renewals = Renewals::new(1);
        renewals.begin(A, Life::default().next());
        assert!(renewals.has_all_arrived(A));
    }
}
