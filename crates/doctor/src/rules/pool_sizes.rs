//! Sizes of pools against the cores of PostgreSQL's machine, and against what `auto` has found.

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::pooler::{FoundSize, Pooler};
use crate::words::counted;

/// Servers for each core: from here on it is found, and from there on it is pressing.
const A_CORE: u64 = 2;
const A_CORE_PRESSING: u64 = 4;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let pooler = facts.pooler.as_ref()?;
    let cores = facts.cores();
    let replicas = u64::from(facts.asked.replicas.max(1));
    let sizes = fixed(pooler);
    let sum: u64 = sizes.iter().map(|(_, size)| size).sum::<u64>() * replicas;
    let times = cores.map(|cores| sum.div_ceil(u64::from(cores)));
    let is_too_many = cores.is_some_and(|cores| sum > A_CORE * u64::from(cores));
    let bounded: Vec<&FoundSize> = pooler.sizes.iter().filter(|found| at_ceiling(found)).collect();
    if !is_too_many && bounded.is_empty() {
        return None;
    }
    let mut evidence = Vec::new();
    let mut mend = Vec::new();
    if let Some(cores) = cores.filter(|_| is_too_many) {
        evidence = super::first(sizes.iter().map(|(name, size)| format!("{name}: {size} servers, fixed")));
        evidence.push(format!(
            "{sum} servers may be busy at once over all processes, on {}",
            counted(cores.into(), "core")
        ));
        evidence.extend(
            pooler
                .sizes
                .iter()
                .take(1)
                .map(|found| format!("auto has found {} for {}/{}", found.size, found.database, found.user)),
        );
        mend.push("default_pool_size = auto -- pgweir tries which size gives the most throughput".to_owned());
        mend.push(format!(
            "default_pool_size = {} -- or so many for each pool",
            (A_CORE * u64::from(cores) / replicas / (sizes.len() as u64).max(1)).max(1)
        ));
    }
    for found in &bounded {
        evidence.push(format!(
            "{}/{}: auto has settled at its ceiling of {}: {}",
            found.database, found.user, found.ceiling, found.why
        ));
        mend.push(format!("auto_pool_size_max = {} -- lets it try more", found.ceiling.saturating_mul(2)));
    }
    mend.dedup();
    let is_pressing = times.is_some_and(|_| cores.is_some_and(|cores| sum > A_CORE_PRESSING * u64::from(cores)));
    let title = if is_too_many {
        format!("pools may keep {sum} servers busy on {} cores", cores.unwrap_or_default())
    } else {
        "auto may not try larger sizes".to_owned()
    };
    Some(Finding {
        rule: "pool-sizes",
        weight: if is_too_many && is_pressing { Weight::Warning } else { Weight::Notice },
        title,
        evidence,
        reason: "As the number of active sessions approaches twice the cores, each slows the others down more than it gets done; below that, cores may be \
                 idle while clients wait."
            .to_owned(),
        source: "Percona: Connection Queuing in PgBouncer: Is It a Magical Remedy?",
        mend,
    })
}

/// Pools with a fixed size; databases without a pool have one.
fn fixed(pooler: &Pooler) -> Vec<(String, u64)> {
    let mut sizes = Vec::new();
    for database in pooler.databases.iter().filter(|database| pooler.is_fixed(&database.name)) {
        let users: Vec<&str> =
            pooler.pools.iter().filter(|pool| pool.database == database.name).map(|pool| pool.user.as_str()).collect();
        let users = if users.is_empty() { vec![database.forced_user.as_deref().unwrap_or("each user")] } else { users };
        sizes.extend(users.into_iter().map(|user| (format!("{}/{user}", database.name), u64::from(database.size))));
    }
    sizes
}

fn at_ceiling(found: &FoundSize) -> bool {
    found.settled == Some(found.ceiling) && found.ceiling > found.floor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::example::{check, pooler};

    #[test]
    fn twice_the_cores_and_the_ceiling() {
        // Four cores.
        let fixed = |size: u32, replicas: u32| {
            move |facts: &mut Facts| {
                pooler(facts).databases[0].size = size;
                facts.asked.replicas = replicas;
            }
        };
        let asked = |facts: &mut Facts| {
            fixed(9, 1)(facts);
            facts.asked.cores = Some(8);
        };
        let unknown = |facts: &mut Facts| {
            fixed(90, 1)(facts);
            facts.machine = None;
        };
        let auto = |settled: u32, ceiling: u32| {
            move |facts: &mut Facts| {
                fixed(90, 1)(facts);
                let (database, user) = ("shop".to_owned(), "app".to_owned());
                let found = FoundSize {
                    database,
                    user,
                    size: settled,
                    settled: Some(settled),
                    floor: 2,
                    ceiling,
                    ..FoundSize::default()
                };
                pooler(facts).sizes = vec![found];
            }
        };
        check(
            find,
            &[
                ("twice", &fixed(8, 1), None),
                ("more", &fixed(9, 1), Some(Weight::Notice)),
                ("four times", &fixed(16, 1), Some(Weight::Notice)),
                ("more than four times", &fixed(17, 1), Some(Weight::Warning)),
                ("three pods of 3", &fixed(3, 3), Some(Weight::Notice)),
                ("more cores there", &asked, None),
                ("nobody knows the cores", &unknown, None),
                ("auto below its ceiling", &auto(79, 80), None),
                ("auto at its ceiling", &auto(80, 80), Some(Weight::Notice)),
            ],
        );
    }
}
