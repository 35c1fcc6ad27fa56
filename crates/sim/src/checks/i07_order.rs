//! I7: within a pool, worker and class sessions are served in order of arrival: a session that was served began to wait
//! before all that still wait.

use std::collections::BTreeMap;

use machine::Snapshot;
use queueing::classes::ClassId;
use units::{ConnId, Time};

use crate::course::Finding;

/// The sessions that waited at the last check, and since when.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    waiting: BTreeMap<u16, BTreeMap<ConnId, (Time, PoolKeyed)>>,
}

/// A pool's number on a worker, and a class.
type PoolKeyed = (usize, ClassId);

impl Queues {
    pub(super) fn check(&mut self, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
        let mut waiting = BTreeMap::new();
        let mut linked = BTreeMap::new();
        for client in &snapshot.clients {
            let Some(pool) = snapshot.pools.iter().position(|pool| pool.key == client.key) else { continue };
            if let Some(since) = client.times.waiting_since {
                waiting.insert(client.conn, (since, (pool, client.class)));
            } else if client.link.is_some() {
                linked.insert(client.conn, (pool, client.class));
            }
        }
        let before = self.waiting.insert(worker, waiting.clone()).unwrap_or_default();
        // A session that waited before and is linked now was served. A session that still waits since an earlier time
        // was overtaken.
        let overtaken = before.iter().find_map(|(served, (since, pool))| {
            if linked.get(served) != Some(pool) {
                return None;
            }
            let passed_over = waiting.iter().find(|(_, (other, place))| place == pool && other < since)?;
            Some(format!(
                "worker {worker}: {served:?}, waiting since {}, is served before {:?}, waiting since {}",
                since.0, passed_over.0, passed_over.1.0.0
            ))
        });
        overtaken.map_or(Ok(()), |text| Err((7, text)))
    }
}
