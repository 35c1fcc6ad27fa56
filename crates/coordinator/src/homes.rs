//! Where pools and sessions live: on the least burdened workers.

use queueing::board::Board;
use units::{PoolId, WorkerId};

/// What lives on a worker.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Burden {
    pub(crate) sessions: u32,
    pub(crate) pools: u32,
}

/// What lives on all workers.
#[derive(Debug)]
pub(crate) struct Homes {
    /// By worker.
    burden: Vec<Burden>,
}

impl Homes {
    pub(crate) fn new(workers: u16) -> Homes {
        Homes { burden: vec![Burden::default(); usize::from(workers)] }
    }

    pub(crate) fn workers(&self) -> u16 {
        u16::try_from(self.burden.len()).expect("it began with a number of workers")
    }

    /// The homes of a pool that is to have so many servers: as many as give each at least eight. With fewer, lending would be
    /// the normal path.
    pub(crate) fn choose(&mut self, id: PoolId, size: u32) -> Vec<WorkerId> {
        let on_board = (id.0 as usize) < Board::POOLS_MAX;
        let homes = if on_board { (size / 8).clamp(1, u32::from(self.workers())) } else { 1 };
        let mut order: Vec<(Burden, u16)> =
            self.burden.iter().zip(0..).map(|(&burden, worker)| (burden, worker)).collect();
        order.sort_unstable();
        let homes: Vec<WorkerId> = order.iter().take(homes as usize).map(|&(_, worker)| WorkerId(worker)).collect();
        for home in &homes {
            self.burden[usize::from(home.0)].pools += 1;
        }
        homes
    }

    /// A pool lives there no more.
    pub(crate) fn leave(&mut self, homes: &[WorkerId]) {
        for home in homes {
            self.burden[usize::from(home.0)].pools -= 1;
        }
    }

    pub(crate) fn session_came(&mut self, worker: WorkerId) {
        self.burden[usize::from(worker.0)].sessions += 1;
    }

    pub(crate) fn session_left(&mut self, worker: WorkerId) {
        self.burden[usize::from(worker.0)].sessions -= 1;
    }

    pub(crate) fn burden(&self) -> &[Burden] {
        &self.burden
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_lives_on_as_many_workers_as_give_each_eight_servers() {
        let mut homes = Homes::new(4);
        assert_eq!(homes.choose(PoolId(1), 7), [WorkerId(0)]);
        assert_eq!(homes.choose(PoolId(2), 16), [WorkerId(1), WorkerId(2)]);
        assert_eq!(homes.choose(PoolId(3), 1000).len(), 4);
    }
}
