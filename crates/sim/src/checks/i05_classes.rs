//! I5, of classes and statements: over all workers, never more transactions at a time than may be, and never more events than
//! the burst and what the rate has brought since the world began.

use std::collections::BTreeMap;

use pooling::classes::{Limits, Rate};
use pooling::limiting::Kind;
use pooling::{Settings, Time};

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
    let found = exceeded(world, &active, &passed).or_else(|| {
        let limits: Option<Vec<u32>> =
            world.plan.all_settings().map(|settings| settings.statements.limit_of(0)).collect();
        let limit = limits?.into_iter().max()?;
        let (fingerprint, count) = statements.into_iter().find(|(_, count)| *count > limit)?;
        Some(format!("{count} transactions at a time begin with {fingerprint:016x}, {limit} may"))
    });
    if let Some(words) = found {
        world.fail(5, words);
    }
}

/// After a reload, what was let through before it may still be there: the highest limit that ever held counts.
fn exceeded(world: &World, active: &BTreeMap<String, u32>, passed: &BTreeMap<(Kind, String), u64>) -> Option<String> {
    for class in &world.plan.settings.classes.all {
        let name = &*class.name;
        let held = |settings: &Settings| {
            settings.classes.all.iter().find(|class| &*class.name == name).map(|class| class.limits)
        };
        // A limit that was not there for a while is none.
        let limits: Vec<Limits> = world.plan.all_settings().map(held).collect::<Option<_>>()?;
        let count = active.get(name).copied().unwrap_or(0);
        let most_active = limits.iter().map(|limits| limits.active).collect::<Option<Vec<u32>>>();
        if let Some(limit) = most_active.and_then(|all| all.into_iter().max()).filter(|limit| count > *limit) {
            return Some(format!("{count} transactions of {name} at a time, max_active is {limit}"));
        }
        let rates = [(Kind::Transactions, 0), (Kind::Queries, 1)];
        for (kind, place) in rates {
            let rate = |limits: &Limits| [limits.transactions, limits.queries][place];
            let Some(rates) = limits.iter().map(rate).collect::<Option<Vec<Rate>>>() else { continue };
            let count = passed.get(&(kind, name.to_owned())).copied().unwrap_or(0);
            let most = rates.iter().map(|rate| most(world.now, *rate)).sum::<u64>();
            if count > most {
                return Some(format!("{count} events of {} of {name} in {} us, {rates:?}", kind.name(), world.now));
            }
        }
    }
    None
}

fn most(now: u64, rate: Rate) -> u64 {
    let come = u128::from(now) * u128::from(rate.per_second) / 1_000_000;
    u64::from(rate.burst) + u64::try_from(come).unwrap_or(u64::MAX) + 1
}
