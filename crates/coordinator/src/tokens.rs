//! All tokens that are out, and the caps on their number that pools share.

use std::collections::BTreeSet;
use std::sync::Arc;

use machine::Settings;
use units::{PoolId, PoolKey};

use crate::counts::Counts;
use crate::entry::Entry;

/// What pools may share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cap {
    Database(Arc<str>),
    User(Arc<str>),
    Process,
}

impl Cap {
    /// The caps that a pool is under.
    pub(crate) fn of(key: &PoolKey) -> [Cap; 3] {
        [Cap::Database(Arc::clone(&key.database)), Cap::User(Arc::clone(&key.user)), Cap::Process]
    }
}

/// What stands in the way of one more server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    None,
    PoolSize,
    /// As many log in at its host as may at once.
    Ramp,
    Full(Cap),
}

/// The tokens of all pools.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    out: Counts,
    /// Pools that have some.
    holders: BTreeSet<PoolId>,
}

impl Tokens {
    /// One is out: it was granted, or is of a server in another process or come back from there.
    pub(crate) fn taken(&mut self, pool: PoolId, key: &PoolKey) {
        self.holders.insert(pool);
        self.out.raise(&key.database, &key.user);
    }

    /// One has come back; `left`: what the pool still has.
    pub(crate) fn freed(&mut self, pool: PoolId, key: &PoolKey, left: u32) {
        if left == 0 {
            self.holders.remove(&pool);
        }
        self.out.lower(&key.database, &key.user);
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = PoolId> {
        self.holders.iter().copied()
    }

    /// All, and those of a database.
    pub(crate) fn count(&self) -> u32 {
        self.out.all()
    }

    pub(crate) fn of_database(&self, name: &str) -> u32 {
        self.out.of_database(name)
    }

    /// Whether one more server may be opened in a pool.
    pub(crate) fn has_room(&self, settings: &Settings, entry: &Entry) -> bool {
        self.obstacle(settings, entry, false) == Obstacle::None
    }

    pub(crate) fn obstacle(&self, settings: &Settings, entry: &Entry, reserve: bool) -> Obstacle {
        let size = if reserve { entry.most() } else { entry.size };
        if entry.held.total() >= size {
            return Obstacle::PoolSize;
        }
        let full = Cap::of(&entry.key).into_iter().find(|cap| {
            let (limit, count) = self.level(settings, entry, cap);
            limit > 0 && count >= limit
        });
        full.map_or(Obstacle::None, Obstacle::Full)
    }

    /// A cap, as this pool's settings say it, and how many tokens are out under it. 0 is no cap.
    pub(crate) fn level(&self, settings: &Settings, entry: &Entry, cap: &Cap) -> (u32, u32) {
        match cap {
            Cap::Database(name) => (entry.rules.max_db, self.out.of_database(name)),
            Cap::User(name) => (entry.rules.max_user, self.out.of_user(name)),
            Cap::Process => (settings.global.pools.max_server_connections, self.out.all()),
        }
    }
}
