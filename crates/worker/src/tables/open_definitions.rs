//! Definitions of transactions that may still be rolled back: on which server, in which database.

use std::collections::BTreeMap;

use link::pool::Pool;
use session_state::catalogue::{Definition, What};
use units::{ConnId, Time, WorkerId};

/// Servers whose open transactions have defined something that other pools know of, and their databases.
#[derive(Debug, Default)]
pub(crate) struct OpenDefinitions(BTreeMap<ConnId, Box<str>>);

impl OpenDefinitions {
    /// Tells the pools of a database what is defined there.
    pub(crate) fn note<'p>(&mut self, pools: impl Iterator<Item = &'p mut Pool>, now: Time, definition: &Definition) {
        for pool in pools.filter(|pool| pool.database().name_at_server() == &*definition.database) {
            pool.known_mut().learn(&definition.what, definition.server, now);
        }
        if definition.what != What::Relation {
            self.0.insert(definition.server, definition.database.clone());
        }
    }

    /// Servers of this worker with such a transaction.
    pub(crate) fn of_worker(&self, worker: WorkerId) -> Vec<ConnId> {
        self.0.keys().copied().filter(|server| server.owner() == worker.0).collect()
    }

    /// The same, and what their databases are called.
    pub(crate) fn all_of_worker(&self, worker: WorkerId) -> Vec<(ConnId, Box<str>)> {
        let open = self.0.iter().filter(|(server, _)| server.owner() == worker.0);
        open.map(|(server, database)| (*server, database.clone())).collect()
    }

    pub(crate) fn is_of(&self, server: ConnId) -> bool {
        self.0.contains_key(&server)
    }

    /// The transaction on that server is over; `lost`: the server is gone.
    pub(crate) fn settle<'p>(
        &mut self,
        pools: impl Iterator<Item = &'p mut Pool>,
        now: Time,
        server: ConnId,
        lost: bool,
    ) {
        // Nothing was noted for this server.
        let Some(database) = self.0.remove(&server) else { return };
        for pool in pools.filter(|pool| pool.database().name_at_server() == &*database) {
            pool.known_mut().settle(server, now, lost);
        }
    }

    /// A pool begins to read side effects from the catalogue: it may not see there what open transactions have defined.
    pub(crate) fn doubt_in(&self, pool: &mut Pool, now: Time) {
        for (server, database) in &self.0 {
            if pool.database().name_at_server() == &**database {
                pool.known_mut().doubt(*server, now);
            }
        }
    }
}
