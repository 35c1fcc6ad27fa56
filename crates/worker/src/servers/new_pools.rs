//! Makes a pool on this worker.

use link::pool::Pool;
use units::{PoolId, PoolKey, Time};

use crate::tables::Tables;
use crate::tables::open_definitions::OpenDefinitions;

/// The pool with this id, made if this worker does not have it yet. `None`: its database is not configured.
pub(crate) fn ensure_pool<'t>(
    tables: &'t mut Tables,
    definitions: &mut OpenDefinitions,
    id: PoolId,
    key: PoolKey,
    homes: u16,
) -> Option<&'t mut Pool> {
    if tables.pools.get(id).is_none() {
        let database = tables.plan.settings.database(&key.database)?;
        tables.pools.add(id, key, homes, database, &tables.plan.settings);
        let pool = tables.pools.get_mut(id)?;
        definitions.doubt_in(pool, Time::ZERO);
    }
    tables.pools.get_mut(id)
}
