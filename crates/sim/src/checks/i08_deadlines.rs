//! I8: nobody waits past its deadline.

use pooling::Snapshot;

use crate::world::World;

/// A round may be that late.
const SLACK_US: u64 = 100_000;

pub fn check(world: &mut World, snapshot: &Snapshot) {
    let Some(timeout) = world.plan.settings.global.waiting.query_wait_timeout else { return };
    let limit = timeout.as_micros() as u64 + SLACK_US;
    let late = snapshot.pools.iter().find(|pool| pool.maxwait_us > limit);
    if let Some(pool) = late {
        let text =
            format!("{:?}: somebody waits for {} µs, query_wait_timeout is {timeout:?}", pool.key, pool.maxwait_us);
        world.fail(8, text);
    }
}
