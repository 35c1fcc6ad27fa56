//! I5, of classes and statements: over all workers, never more transactions at a time than may be, and never more events than
//! the burst and what the rate has brought since the world began.

use std::collections::BTreeMap;

use pooling::Time;
use pooling::classes::Rate;
use pooling::limiting::Kind;

use crate::world::World;

/// All workers are looked at in the same moment: whoever gives a slot up does it before another gets it.
pub fn check(world: &mut World) {
    let workers = world.nodes.iter().filter_map(|node| node.worker());
    let (mut active, mut passed): (BTreeMap<String, u32>, BTreeMap<(Kind, String), u64>) = Default::default();
    let mut statements: BTreeMap<u64, u32> = BTreeMap::new();
    for snapshot in workers.map(|worker| worker.snapshot(Time(world.now), false)) {
        for row in snapshot.limits {
            *active.entry(row.class.to_string()).or_default() += if row.kind == Kind::Active { row.active } else { 0 };
            *passed.entry((row.kind, row.class.to_string())).or_default() += row.passed;
        }
        for row in snapshot.statements {
            *statements.entry(row.fingerprint).or_default() += row.active;
        }
    }
    let settings = std::sync::Arc::clone(&world.plan.settings);
    for class in &settings.classes.all {
        let count = active.get(&*class.name).copied().unwrap_or(0);
        if let Some(limit) = class.limits.active.filter(|limit| count > *limit) {
            return world.fail(5, format!("{count} transactions of {} at a time, max_active is {limit}", class.name));
        }
        for (kind, rate) in [(Kind::Transactions, class.limits.transactions), (Kind::Queries, class.limits.queries)] {
            let count = passed.get(&(kind, class.name.to_string())).copied().unwrap_or(0);
            if let Some(rate) = rate.filter(|rate| count > most(world.now, *rate)) {
                let (name, now) = (kind.name(), world.now);
                return world.fail(5, format!("{count} events of {name} of {} in {now} us, {rate:?}", class.name));
            }
        }
    }
    let over = |(fingerprint, count): &(u64, u32)| {
        settings.statements.limit_of(*fingerprint).is_some_and(|limit| *count > limit)
    };
    if let Some((fingerprint, count)) = statements.into_iter().find(over) {
        world.fail(5, format!("{count} transactions at a time begin with {fingerprint:016x}"));
    }
}

fn most(now: u64, rate: Rate) -> u64 {
    let come = u128::from(now) * u128::from(rate.per_second) / 1_000_000;
    u64::from(rate.burst) + u64::try_from(come).unwrap_or(u64::MAX) + 1
}
