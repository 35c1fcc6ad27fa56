//! I6: nobody eligible waits while a server of its pool is idle: at once within a worker, within one exchange of
//! mailboxes between workers.

use std::collections::BTreeMap;

use pooling::{PoolId, Snapshot};

use crate::world::World;

/// The longest an exchange of mailboxes takes in this world: a late letter each way, late rounds, boards served late,
/// and a mailbox that was full a few times.
const EXCHANGE_US: u64 = 400_000;

/// What each worker's last look said of its pools.
#[derive(Debug, Default)]
pub struct Beside {
    pools: BTreeMap<(PoolId, u16), Seen>,
}

/// Since when somebody waits there, and since when a server was idle there.
#[derive(Copy, Clone, Debug, Default)]
struct Seen {
    waiting_since: Option<u64>,
    idle_since: Option<u64>,
}

pub fn check(world: &mut World, worker: u16, snapshot: &Snapshot) {
    let now = world.now;
    for pool in &snapshot.pools {
        if pool.cl_waiting > 0 && pool.sv_idle > 0 {
            let (waiting, idle) = (pool.cl_waiting, pool.sv_idle);
            return world.fail(6, format!("worker {worker}: {:?} has {waiting} waiting beside {idle} idle", pool.key));
        }
        let seen = world.checks.beside.pools.entry((pool.id, worker)).or_default();
        seen.waiting_since = (pool.cl_waiting > 0).then(|| now - pool.maxwait_us);
        seen.idle_since = (pool.sv_idle > 0).then(|| seen.idle_since.unwrap_or(now));
    }
    let lonely = world.checks.beside.pools.iter().find_map(|(&(pool, hungry), seen)| {
        let since = seen.waiting_since?;
        let mut others = world.checks.beside.pools.iter().filter(|((other, at), _)| *other == pool && *at != hungry);
        let (idle_at, idle_since) = others.find_map(|(&(_, at), other)| {
            let both = other.idle_since?.max(since);
            (now.saturating_sub(both) > EXCHANGE_US).then_some((at, both))
        })?;
        Some(format!("{pool:?}: worker {hungry} waits since {since} while worker {idle_at} has idle since {idle_since}"))
    });
    if let Some(text) = lonely {
        world.fail(6, text);
    }
}
