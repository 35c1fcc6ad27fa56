//! Makes a pool on this worker.

use link::pool::Pool;
use units::{PoolId, PoolKey, Time};

use crate::tables::owners::{Plan, Pools};

/// The pool with this id, made if this worker does not have it yet. `None`: its database is not configured.
pub(crate) fn ensure_pool<'t>(
    pools: &'t mut Pools,
    plan: &Plan,
    id: PoolId,
    key: PoolKey,
    homes: u16,
) -> Option<&'t mut Pool> {
    if pools.get(id).is_none() {
        let database = plan.settings.database(&key.database)?;
        pools.add(id, key, homes, database, &plan.settings);
        pools.definitions.doubt_in(pools.table.get_mut(id)?, Time::ZERO);
    }
    pools.get_mut(id)
}
