//! The exchange of servers with the pool's other homes: what the board shows, and which waiters were served or asked for.

use std::collections::BTreeMap;

use queueing::board::Cell;
use units::{Time, WorkerId};

use crate::published::Published;

/// The exchange with the other homes of the pool.
#[derive(Debug)]
pub struct Exchange {
    pub(crate) homes: u16,
    /// What the board shows for this worker.
    pub(crate) published: Cell,
    /// What the board shows for its classes.
    pub(crate) published_classes: Published,
    /// For each worker, since when the waiter has waited that a server was lent for: the board may show that waiter a
    /// little longer.
    pub(crate) fed: BTreeMap<WorkerId, Time>,
    /// For each worker that was asked for a server, since when the waiter has waited that it was asked for.
    pub(crate) begged: BTreeMap<WorkerId, Time>,
    /// Another worker's mailbox was full: nothing is lent before this.
    pub(crate) lends_refused_until: Time,
}

impl Exchange {
    /// For a pool with so many homes that has published nothing yet.
    pub(crate) fn of(homes: u16) -> Exchange {
        Exchange {
            homes,
            published: Cell::CALM,
            published_classes: Published::default(),
            fed: BTreeMap::new(),
            begged: BTreeMap::new(),
            lends_refused_until: Time::ZERO,
        }
    }

    /// On how many workers the pool lives.
    #[inline]
    pub fn homes(&self) -> u16 {
        self.homes
    }

    /// Whether the pool lives on other workers too.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.homes > 1
    }

    /// The board shows this for the worker from now on, unless that is much like before. Whether it is to be published.
    pub fn publish(&mut self, cell: Cell) -> bool {
        let is_news = !cell.is_much_like(self.published);
        if is_news {
            self.published = cell;
        }
        is_news
    }

    /// Whether the board shows nothing of this worker.
    pub fn is_calm(&self) -> bool {
        self.published == Cell::CALM
    }

    /// Whether a server was lent to the worker for its waiter that has waited since `since`.
    pub fn has_fed(&self, worker: WorkerId, since: Time) -> bool {
        self.fed.get(&worker) == Some(&since)
    }

    /// Another worker is to be asked for a server, for the waiter that has waited since `since`. False: it was asked for this one before.
    pub fn beg(&mut self, worker: WorkerId, since: Time) -> bool {
        self.begged.insert(worker, since) != Some(since)
    }

    /// Every worker may be asked again.
    pub fn beg_anew(&mut self) {
        self.begged.clear();
    }

    /// A server has come from this worker: the worker's board is up to date again.
    pub fn received_from(&mut self, worker: WorkerId) {
        self.begged.clear();
        self.fed.remove(&worker);
    }

    /// The worker has been replaced by a new one, which knows neither of a loan nor of a question.
    pub fn worker_renewed(&mut self, worker: WorkerId) {
        self.begged.remove(&worker);
        self.fed.remove(&worker);
    }

    /// Until when nothing is lent, since another worker's mailbox was full.
    pub fn lends_refused_until(&self) -> Time {
        self.lends_refused_until
    }
}
