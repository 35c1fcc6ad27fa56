//! Where pools and sessions live: on the least burdened workers.

use std::collections::BTreeMap;
use std::sync::Arc;

use queueing::board::Board;
use units::{PoolId, WorkerId};

use super::{Coordinator, Entry, lower, sizing};

/// What lives on a worker.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Burden {
    sessions: u32,
    pools: u32,
}

impl Coordinator {
    /// A pool lives on as many workers as give each at least eight servers: with fewer, lending would be the normal
    /// path.
    pub(super) fn choose_homes(&mut self, entry: &Entry, id: PoolId) -> Vec<WorkerId> {
        let on_board = (id.0 as usize) < Board::POOLS_MAX;
        let size = sizing::expected(entry);
        let homes = if on_board { (size / 8).clamp(1, u32::from(self.workers)) } else { 1 };
        let mut order: Vec<(Burden, u16)> =
            self.burden.iter().zip(0..).map(|(&burden, worker)| (burden, worker)).collect();
        order.sort_unstable();
        let homes: Vec<WorkerId> = order.iter().take(homes as usize).map(|&(_, worker)| WorkerId(worker)).collect();
        for home in &homes {
            self.burden[usize::from(home.0)].pools += 1;
        }
        homes
    }

    /// A pool lives nowhere any more.
    pub(super) fn leave_homes(&mut self, pool: PoolId) {
        let entry = &self.pools[pool.0 as usize];
        for home in &entry.homes {
            self.burden[usize::from(home.0)].pools -= 1;
        }
        lower(&mut self.pools_by_database, &entry.key.database);
    }

    /// Gives a session its home: among the pool's, the worker with the fewest of its sessions.
    pub(super) fn settle(&mut self, pool: PoolId, user: Arc<str>) -> WorkerId {
        let entry = &mut self.pools[pool.0 as usize];
        let home = entry.homes.iter().copied().min_by_key(|home| entry.sessions[usize::from(home.0)]);
        let worker = home.expect("a pool has a home");
        entry.sessions[usize::from(worker.0)] += 1;
        self.burden[usize::from(worker.0)].sessions += 1;
        entry.life.comes_into_use(pool, &mut self.unused);
        self.clients += 1;
        *self.clients_by_database.entry(Arc::clone(&entry.key.database)).or_default() += 1;
        *self.clients_by_user.entry(user).or_default() += 1;
        worker
    }

    pub(super) fn departed(&mut self, pool: PoolId, worker: WorkerId, user: &Arc<str>) {
        let entry = &mut self.pools[pool.0 as usize];
        entry.sessions[usize::from(worker.0)] -= 1;
        self.burden[usize::from(worker.0)].sessions -= 1;
        self.clients -= 1;
        lower(&mut self.clients_by_database, &entry.key.database);
        lower(&mut self.clients_by_user, user);
    }

    /// What is counted as it changes, counted anew.
    pub(super) fn check_burden(&self) -> Result<(), String> {
        let mut burden = vec![Burden::default(); self.burden.len()];
        let mut databases: BTreeMap<&Arc<str>, u32> = BTreeMap::new();
        for entry in &self.pools {
            for (burden, sessions) in burden.iter_mut().zip(&entry.sessions) {
                burden.sessions += sessions;
            }
            if entry.is_live() {
                *databases.entry(&entry.key.database).or_default() += 1;
                entry.homes.iter().for_each(|home| burden[usize::from(home.0)].pools += 1);
            }
        }
        if burden != self.burden || !databases.into_iter().eq(self.pools_by_database.iter().map(|(name, &n)| (name, n)))
        {
            return Err(format!("{burden:?} lives on workers, {:?} is counted", self.burden));
        }
        Ok(())
    }
}
