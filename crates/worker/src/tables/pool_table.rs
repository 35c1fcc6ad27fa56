//! The pools of a worker, by their ids, which are dense.
//!
//! `get` is for an id that came with a message or a deadline: the pool may have been forgotten meanwhile. `pools[id]` is for the
//! pool of a server, of a cancel, or of a session that is neither at the console nor leaving: a pool with one of these is not
//! forgotten.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use connections::databases::Database;
use link::pool::Pool;
use machine::Settings;
use machine::snapshot::Totals;
use units::{PoolId, PoolKey};

/// The pools of this worker.
#[derive(Debug, Default)]
pub(crate) struct PoolTable {
    by_id: Vec<Option<Box<Pool>>>,
    /// The pools that live on other workers too.
    shared: Vec<PoolId>,
    /// What forgotten pools of configured databases had come to, by database: as many as there are of these at most.
    past: BTreeMap<Arc<str>, Totals>,
}

impl PoolTable {
    #[inline]
    pub(crate) fn get(&self, id: PoolId) -> Option<&Pool> {
        self.by_id.get(id.0 as usize)?.as_deref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PoolId) -> Option<&mut Pool> {
        self.by_id.get_mut(id.0 as usize)?.as_deref_mut()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.by_id.iter().flatten().map(|pool| &**pool)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Pool> {
        self.by_id.iter_mut().flatten().map(|pool| &mut **pool)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = PoolId> + use<> {
        (0..self.by_id.len() as u32).map(PoolId)
    }

    /// Ids are below this.
    pub(crate) fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Makes a pool that is not here yet.
    pub(crate) fn add(&mut self, id: PoolId, key: PoolKey, homes: u16, database: Arc<Database>, settings: &Settings) {
        let index = id.0 as usize;
        if self.by_id.len() <= index {
            self.by_id.resize_with(index + 1, || None);
        }
        debug_assert!(self.by_id[index].is_none(), "a pool is made once");
        self.by_id[index] = Some(Box::new(Pool::new(id, key, homes, database, settings)));
        if homes > 1 {
            self.shared.push(id);
        }
    }

    /// Forgets a pool. Its statistics go on to count for its database, if that is configured by name.
    pub(crate) fn remove(&mut self, id: PoolId, settings: &Settings) {
        let pool = self.by_id.get_mut(id.0 as usize).and_then(Option::take);
        if let Some(pool) = pool.filter(|pool| settings.databases.contains_key(&*pool.key().database)) {
            self.past.entry(Arc::clone(&pool.key().database)).or_default().add(pool.counts().totals());
        }
        self.shared.retain(|&shared| shared != id);
    }

    /// What forgotten pools had come to.
    pub(crate) fn past(&self) -> impl Iterator<Item = (Arc<str>, Totals)> {
        self.past.iter().map(|(database, totals)| (Arc::clone(database), *totals))
    }

    /// Databases may have been removed.
    pub(crate) fn forget_past_but_of(&mut self, settings: &Settings) {
        self.past.retain(|database, _| settings.databases.contains_key(&**database));
    }

    /// The pools that live on other workers too.
    pub(crate) fn shared(&self) -> &[PoolId] {
        &self.shared
    }
}

impl Index<PoolId> for PoolTable {
    type Output = Pool;

    #[inline]
    #[track_caller]
    fn index(&self, id: PoolId) -> &Pool {
        self.get(id).expect("a pool is forgotten only when nothing of it is left")
    }
}

impl IndexMut<PoolId> for PoolTable {
    #[inline]
    #[track_caller]
    fn index_mut(&mut self, id: PoolId) -> &mut Pool {
        self.get_mut(id).expect("a pool is forgotten only when nothing of it is left")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_of_several_homes_is_shared_until_it_is_forgotten() {
        let (mut pools, settings) = (PoolTable::default(), Settings::default());
        for (id, homes) in [(2, 1), (0, 3)] {
            let key = PoolKey { database: "d".into(), user: "u".into() };
            let database = Arc::new(Database::new("d", Vec::new()));
            pools.add(PoolId(id), key, homes, database, &settings);
        }
        assert_eq!(pools.iter().map(|pool| pool.id()).collect::<Vec<_>>(), [PoolId(0), PoolId(2)]);
        assert_eq!(pools.shared(), [PoolId(0)]);
        pools[PoolId(0)].counts_mut().count_received(5);
        pools.remove(PoolId(0), &settings);
        assert_eq!(pools.past().count(), 0, "nobody has configured it");
        assert!(pools.get(PoolId(0)).is_none() && pools.get(PoolId(9)).is_none());
        assert!(pools.shared().is_empty());
        let mut settings = settings;
        settings.databases.insert("d".to_owned(), Arc::new(Database::new("d", Vec::new())));
        pools[PoolId(2)].counts_mut().count_received(7);
        pools.remove(PoolId(2), &settings);
        let past = |pools: &PoolTable| {
            pools.past().map(|(name, totals)| (name.to_string(), totals.received)).collect::<Vec<_>>()
        };
        assert_eq!(past(&pools), [("d".to_owned(), 7)]);
        pools.forget_past_but_of(&Settings::default());
        assert_eq!(past(&pools), []);
    }
}
