//! Processes × pools against max_connections: whether all poolers together may open more than PostgreSQL takes.

use std::collections::BTreeMap;

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::pooler::{PooledDatabase, Pooler};
use crate::words::{counted, number};

/// What one process may open, and how that comes about.
struct Demand {
    connections: u64,
    lines: Vec<String>,
    pools: u64,
}

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let (pooler, postgres) = (facts.pooler.as_ref()?, facts.postgres.as_ref()?);
    let room = postgres.connections_max()?;
    let replicas = u64::from(facts.asked.replicas.max(1));
    let demand = demand(pooler, &postgres.identity.place);
    let all = demand.connections * replicas;
    let others = super::strangers::count(facts);
    if all + others <= room {
        return None;
    }
    let weight = if all > room { Weight::Critical } else { Weight::Warning };
    let each = room.saturating_sub(others) / replicas;
    let mut evidence = demand.lines;
    evidence.push(format!(
        "{} × {} = {} connections; PostgreSQL takes {} of clients (max_connections {} less those reserved); others than this pooler have {} now",
        counted(replicas, "process").replace("processs", "processes"),
        number(demand.connections),
        number(all),
        number(room),
        postgres.setting("max_connections"),
        number(others),
    ));
    // 0 would be no limit.
    let mut mend = vec![if each > 0 {
        format!(
            "max_server_connections = {each} -- in pgweir.ini of each process: pools take turns below it, and clients wait"
        )
    } else {
        "-- there is not one connection for each process: run fewer of them, or let others connect to the pooler"
            .to_owned()
    }];
    let is_auto = pooler.setting("default_pool_size") == "auto";
    if demand.pools > 0 && each >= demand.pools && !is_auto {
        mend.push(format!("default_pool_size = {} -- or so many for each pool", each / demand.pools));
    }
    mend.push(format!(
        "ALTER SYSTEM SET max_connections = {}; -- or more room; then restart PostgreSQL",
        all + others + u64::try_from(postgres.reserved()).unwrap_or(0) + 10
    ));
    Some(Finding {
        rule: "connection-demand",
        weight,
        title: format!("the poolers may open {} connections, and PostgreSQL takes {}", number(all), number(room)),
        evidence,
        reason: "Once all pools are busy, PostgreSQL refuses the rest with \"sorry, too many clients already\", for everybody who connects. Sizes \
                 hold for each process by itself, so each further pod adds its own."
            .to_owned(),
        source: "PostgreSQL manual, Connection Settings: max_connections",
        mend,
    })
}

/// The sum over pools that are there, or one a database, below the caps.
fn demand(pooler: &Pooler, place: &str) -> Demand {
    let mut demand = Demand { connections: 0, lines: Vec::new(), pools: 0 };
    let mut users: BTreeMap<&str, u64> = BTreeMap::new();
    for database in of_server(pooler, place) {
        let mut sum = 0;
        let pools: Vec<&str> = pools(pooler, database);
        for user in &pools {
            let size = size(pooler, database, user);
            *users.entry(user).or_default() += size;
            sum += size;
        }
        demand.pools += pools.len() as u64;
        let cap = u64::from(database.connections_max);
        let is_capped = cap > 0 && cap < sum;
        let most = if is_capped { cap } else { sum };
        demand.connections += most;
        let capped = if is_capped { format!(", at most max_db_connections = {cap}") } else { String::new() };
        demand.lines.push(format!(
            "{}: {} of pool_size {} + reserve {} = {}{capped}",
            database.name,
            counted(pools.len() as u64, "pool"),
            database.size,
            database.reserve,
            number(sum),
        ));
    }
    for (user, sum) in users {
        let cap = pooler
            .users
            .iter()
            .find(|limits| limits.name == user)
            .map_or(0, |limits| u64::from(limits.connections_max));
        if cap > 0 && cap < sum {
            demand.connections = demand.connections.saturating_sub(sum - cap);
            demand.lines.push(format!("{user}: at most max_user_connections = {cap}"));
        }
    }
    let cap = pooler.number("max_server_connections");
    if cap > 0 && cap < demand.connections {
        demand.connections = cap;
        demand.lines.push(format!("all pools: at most max_server_connections = {cap}"));
    }
    let rest = demand.lines.len().saturating_sub(super::NAMED_MAX + 2);
    if rest > 0 {
        demand.lines.truncate(super::NAMED_MAX + 2);
        demand.lines.push(format!("and {rest} more"));
    }
    demand
}

/// Those at this server: by its host and port, or all if no host is written in that way.
fn of_server<'p>(pooler: &'p Pooler, place: &str) -> Vec<&'p PooledDatabase> {
    let is_there = |database: &&PooledDatabase| {
        let hosts = database.host.as_deref().unwrap_or_default().split(',');
        hosts.into_iter().any(|host| format!("{}:{}", host.trim(), database.port) == place)
    };
    let there: Vec<&PooledDatabase> = pooler.databases.iter().filter(is_there).collect();
    if there.is_empty() { pooler.databases.iter().collect() } else { there }
}

/// The users that have a pool; a database that nobody has used yet will have one.
fn pools<'p>(pooler: &'p Pooler, database: &'p PooledDatabase) -> Vec<&'p str> {
    let users = pooler.pools.iter().filter(|pool| pool.database == database.name).map(|pool| pool.user.as_str());
    let users: Vec<&str> = users.collect();
    if users.is_empty() { vec![database.forced_user.as_deref().unwrap_or("")] } else { users }
}

fn size(pooler: &Pooler, database: &PooledDatabase, user: &str) -> u64 {
    let own = pooler.users.iter().find(|limits| limits.name == user).and_then(|limits| limits.size);
    u64::from(own.unwrap_or(database.size)) + u64::from(database.reserve)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pooler::{Pool, UserLimits};
    use crate::rules::example::{check, pooler, postgres};

    #[test]
    fn poolers_may_open_as_many_as_there_are() {
        let pods = |replicas: u32, size: u32| {
            move |facts: &mut Facts| {
                facts.asked.replicas = replicas;
                pooler(facts).databases[0].size = size;
            }
        };
        let capped = |facts: &mut Facts| {
            pods(3, 50)(facts);
            pooler(facts).settings.insert("max_server_connections".to_owned(), "32".to_owned());
        };
        let by_database = |facts: &mut Facts| {
            pods(3, 50)(facts);
            pooler(facts).databases[0].connections_max = 32;
        };
        let by_user = |facts: &mut Facts| {
            pods(3, 50)(facts);
            pooler(facts).users = vec![UserLimits { name: "app".to_owned(), size: None, connections_max: 32 }];
        };
        let two_users = |facts: &mut Facts| {
            pods(1, 49)(facts);
            let pool = Pool { user: "batch".to_owned(), ..pooler(facts).pools[0].clone() };
            pooler(facts).pools.push(pool);
        };
        let reserved = |facts: &mut Facts| {
            pods(1, 97)(facts);
            postgres(facts).settings.insert("reserved_connections".to_owned(), "1".to_owned());
        };
        check(
            find,
            &[
                ("as many as there are", &pods(1, 97), None),
                ("one more", &pods(1, 98), Some(Weight::Critical)),
                ("three of 32 are 96", &pods(3, 32), None),
                ("three of 33 are 99", &pods(3, 33), Some(Weight::Critical)),
                ("a cap of all pools", &capped, None),
                ("a cap of the database", &by_database, None),
                ("a cap of the user", &by_user, None),
                ("a pool for each user", &two_users, Some(Weight::Critical)),
                ("reserved for a role", &reserved, Some(Weight::Critical)),
            ],
        );
    }

    #[test]
    fn the_published_sizes_of_three_pods_are_seen() {
        // CERN: default_pool_size 140 and reserve 18, three replicas: 474.
        let mut facts = crate::rules::example::healthy();
        facts.asked.replicas = 3;
        pooler(&mut facts).databases[0].size = 140;
        pooler(&mut facts).databases[0].reserve = 18;
        let found = find(&facts).expect("474 of 97");
        assert!(found.title.contains("474"), "{found:?}");
        assert_eq!(found.mend[0].split(" --").next(), Some("max_server_connections = 32"));
    }

    #[test]
    fn a_process_without_a_connection_is_not_told_to_have_no_limit() {
        let mut facts = crate::rules::example::healthy();
        facts.asked.replicas = 98;
        let found = find(&facts).expect("98 of 97");
        assert!(found.mend.iter().all(|line| !line.contains("= 0")), "{found:?}");
        assert!(found.mend[0].contains("run fewer of them"), "{found:?}");
        facts.asked.replicas = 97;
        assert!(find(&facts).expect("97 × 4").mend[0].starts_with("max_server_connections = 1 "));
    }

    #[test]
    fn more_room_is_beside_what_is_reserved() {
        let mut facts = crate::rules::example::healthy();
        facts.asked.replicas = 30;
        postgres(&mut facts).settings.insert("reserved_connections".to_owned(), "5".to_owned());
        let found = find(&facts).expect("120 of 92");
        // 30 × 4, 3 and 5 that are reserved, and 10 to spare.
        assert!(found.mend.iter().any(|line| line.starts_with("ALTER SYSTEM SET max_connections = 138;")), "{found:?}");
    }

    #[test]
    fn databases_elsewhere_do_not_count() {
        let mut facts = crate::rules::example::healthy();
        let place = "10.0.0.9:5432";
        postgres(&mut facts).identity.place = place.to_owned();
        let other = PooledDatabase {
            name: "logs".to_owned(),
            host: Some("10.0.0.8".to_owned()),
            size: 200,
            ..pooler(&mut facts).databases[0].clone()
        };
        pooler(&mut facts).databases.push(other);
        assert_eq!(find(&facts), None);
        postgres(&mut facts).identity.place = "db:5432".to_owned();
        assert!(find(&facts).is_some(), "not told apart, all of them count");
    }
}
