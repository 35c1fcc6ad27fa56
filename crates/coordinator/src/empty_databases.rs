//! DROP DATABASE and its like fail while anything is connected, idle servers of ours too. PostgreSQL gives connections that leave
//! five seconds, so it is enough that they are told to leave when the statement is sent. PostgreSQL manual, DROP DATABASE.
//!
//! A client can send such a statement without the right to it. So only clients connected to the same server make servers leave,
//! and that once a minute as long as none has succeeded.

use machine::Settings;
use machine::action::Actions;
use machine::mail::ToWorker;
use sql::Word;
use units::{PoolId, Time, limits};

use crate::pools::Pools;

/// Whatever pool has servers in a database that is called by one of `names`, at a server of pool `from`, is to leave it, and
/// none is opened there for min_pool_size meanwhile.
pub(crate) fn empty(
    pools: &mut Pools,
    settings: &Settings,
    now: Time,
    (from, names): (PoolId, &[Word]),
    actions: &mut Actions,
) {
    let from = pools.get(from).and_then(|from| settings.database(&from.key.database));
    // A reload may have removed it.
    let Some(hosts) = from.map(|database| database.hosts.clone()) else { return };
    for (pool, entry) in pools.iter_mut().filter(|(_, entry)| entry.is_live()) {
        let Some(database) = settings.database(&entry.key.database) else { continue };
        let is_there = database.hosts.iter().any(|host| hosts.contains(host));
        let is_again = entry.emptying.vacated_at.is_some_and(|at| now < at + limits::VACATE_AGAIN);
        if is_again || !is_there || !is_named(database.name_at_server(), names) {
            continue;
        }
        (entry.emptying.vacated_at, entry.emptying.vacant_until) = (Some(now), now + limits::VACATING);
        if entry.held.total() > 0 {
            entry.homes.iter().for_each(|home| actions.post_to_worker(*home, ToWorker::Vacate { pool }));
        }
    }
}

/// A statement has succeeded that needed these empty: the next need not wait.
pub(crate) fn emptied(pools: &mut Pools, settings: &Settings, names: &[Word]) {
    for (_, entry) in pools.iter_mut().filter(|(_, entry)| entry.emptying.vacated_at.is_some()) {
        let database = settings.database(&entry.key.database);
        if database.is_none_or(|database| is_named(database.name_at_server(), names)) {
            entry.emptying.vacated_at = None;
        }
    }
}

fn is_named(database: &str, names: &[Word]) -> bool {
    let called = Word::of(database.as_bytes());
    names.iter().any(|name| name.name() == called)
}
