//! I12: what pools have counted is not lost when they are forgotten: of each configured database no count falls.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::Snapshot;
use machine::snapshot::Totals;

use super::WorldView;
use crate::course::Finding;

/// What each worker has shown of each database.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    seen: BTreeMap<(u16, Arc<str>), Totals>,
}

impl Statistics {
    pub(super) fn check(&mut self, view: &WorldView<'_>, worker: u16, snapshot: &Snapshot) -> Result<(), Finding> {
        if view.plan.faults.panics > 0 {
            // A worker that has panicked has lost all of its own.
            return Ok(());
        }
        let mut now: BTreeMap<Arc<str>, Totals> = BTreeMap::new();
        let there = snapshot.pools.iter().map(|pool| (&pool.key.database, &pool.totals));
        for (database, totals) in there.chain(snapshot.past.iter().map(|(database, totals)| (database, totals))) {
            now.entry(Arc::clone(database)).or_default().add(totals);
        }
        // A database that a reload has removed has lost its own.
        let is_kept = |database: &str| {
            let had = view.plan.past.iter().all(|before| before.databases.contains_key(database));
            had && view.plan.settings.databases.contains_key(database)
        };
        for ((_, database), before) in self.seen.iter().filter(|((at, _), _)| *at == worker) {
            let all = now.get(database).copied().unwrap_or_default();
            let falls = [
                (before.logins, all.logins),
                (before.queries, all.queries),
                (before.transactions, all.transactions),
                (before.received, all.received),
                (before.server_assignments, all.server_assignments),
            ];
            if is_kept(database) && falls.iter().any(|(before, now)| now < before) {
                return Err((12, format!("worker {worker}: {database} has counted {before:?}, and shows {all:?}")));
            }
        }
        for (database, totals) in now {
            self.seen.insert((worker, database), totals);
        }
        Ok(())
    }
}
