//! The other workers of this pooler.

use machine::action::Actions;
use machine::mail::ToWorker;
use units::WorkerId;

/// The ids of the other workers.
#[derive(Copy, Clone, Debug)]
pub struct OtherWorkers {
    own: WorkerId,
    workers: u16,
}

impl OtherWorkers {
    /// All but `own`, of so many workers.
    #[must_use]
    pub fn of(own: WorkerId, workers: u16) -> OtherWorkers {
        OtherWorkers { own, workers: workers.max(1) }
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = WorkerId> {
        (0..self.workers).map(WorkerId).filter(move |worker| *worker != self.own)
    }

    /// Posts the same mail to each of them.
    pub fn post(self, actions: &mut Actions, mail: impl Fn() -> ToWorker) {
        for worker in self.iter() {
            actions.post_to_worker(worker, mail());
        }
    }
}
