//! The pools that the coordinator knows, by their ids, which are dense, and by name.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use units::{PoolId, PoolKey, WorkerId, limits};

use crate::counts::ByName;
use crate::entry::{Entry, Life};

/// All pools.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    entries: Vec<Entry>,
    ids: BTreeMap<PoolKey, PoolId>,
    by_database: ByName,
    /// Ids of pools that were forgotten.
    free: Vec<PoolId>,
}

impl Pools {
    pub(crate) fn get(&self, pool: PoolId) -> Option<&Entry> {
        self.entries.get(pool.0 as usize)
    }

    pub(crate) fn get_mut(&mut self, pool: PoolId) -> Option<&mut Entry> {
        self.entries.get_mut(pool.0 as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PoolId, &Entry)> {
        self.entries.iter().enumerate().map(|(index, entry)| (PoolId(index as u32), entry))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (PoolId, &mut Entry)> {
        self.entries.iter_mut().enumerate().map(|(index, entry)| (PoolId(index as u32), entry))
    }

    /// Those that a login finds, or whose servers are not all gone.
    pub(crate) fn live(&self) -> impl Iterator<Item = (PoolId, &Entry)> {
        self.iter().filter(|(_, entry)| entry.is_live())
    }

    pub(crate) fn id_of(&self, key: &PoolKey) -> Option<PoolId> {
        self.ids.get(key).copied()
    }

    /// Live pools of each database.
    pub(crate) fn by_database(&self) -> &ByName {
        &self.by_database
    }

    /// An id for one more pool; `None`: there are as many as may be.
    pub(crate) fn next_id(&mut self) -> Option<PoolId> {
        let fresh = (self.entries.len() < limits::POOLS_MAX).then_some(PoolId(self.entries.len() as u32));
        self.free.pop().or(fresh)
    }

    pub(crate) fn add(&mut self, pool: PoolId, entry: Entry) {
        self.by_database.raise(&entry.key.database);
        self.ids.insert(entry.key.clone(), pool);
        match self.entries.get_mut(pool.0 as usize) {
            Some(free) => *free = entry,
            None => self.entries.push(entry),
        }
    }

    /// No login finds it any more. Its homes are to forget it.
    pub(crate) fn retire(&mut self, pool: PoolId) -> &[WorkerId] {
        let entry = &mut self.entries[pool.0 as usize];
        self.by_database.lower(&entry.key.database);
        self.ids.remove(&entry.key);
        entry.life = Life::Retired;
        (entry.rules.min, entry.rules.forced, entry.auto) = (0, false, None);
        &entry.homes
    }

    /// A home has nothing of this pool any more.
    pub(crate) fn forgotten(&mut self, pool: PoolId, worker: WorkerId) {
        let entry = &mut self.entries[pool.0 as usize];
        assert!(entry.is_empty(), "I12: a pool that is forgotten has neither sessions nor tokens");
        assert_eq!(entry.life, Life::Retired, "a pool is forgotten on request");
        entry.homes.retain(|home| *home != worker);
        if entry.homes.is_empty() {
            entry.life = Life::Free;
            self.free.push(pool);
        }
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.entries.len() as u32).map(PoolId)
    }
}

impl Index<PoolId> for Pools {
    type Output = Entry;

    fn index(&self, pool: PoolId) -> &Entry {
        &self.entries[pool.0 as usize]
    }
}

impl IndexMut<PoolId> for Pools {
    fn index_mut(&mut self, pool: PoolId) -> &mut Entry {
        &mut self.entries[pool.0 as usize]
    }
}
