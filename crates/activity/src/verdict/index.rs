//! The rows of a moment by pool and by backend: hundreds of pools may be in trouble at once, and each asks for its own.

use std::collections::BTreeMap;

use units::PoolKey;

use crate::moment::{Moment, Row};

pub(super) struct Index<'m> {
    pub(super) moment: &'m Moment,
    /// Rows of clients that have a server.
    by_pool: BTreeMap<&'m PoolKey, Vec<&'m Row>>,
    /// By their host's place in [`Moment::hosts`] and their pid.
    by_backend: BTreeMap<(u16, i32), &'m Row>,
}

impl<'m> Index<'m> {
    pub(super) fn of(moment: &'m Moment) -> Index<'m> {
        let mut index = Index { moment, by_pool: BTreeMap::new(), by_backend: BTreeMap::new() };
        for row in &moment.rows {
            if let Some(session) = row.session.as_ref().filter(|session| session.times.waiting.is_none()) {
                index.by_pool.entry(&session.pool).or_default().push(row);
            }
            if let Some(place) = row.host.zip(row.pid()) {
                index.by_backend.insert(place, row);
            }
        }
        index
    }

    /// The clients of a pool that have a server.
    pub(super) fn with_server(&self, key: &PoolKey) -> &[&'m Row] {
        self.by_pool.get(key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn backend(&self, host: u16, pid: i32) -> Option<&'m Row> {
        self.by_backend.get(&(host, pid)).copied()
    }
}
