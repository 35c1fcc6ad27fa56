//! Connections past the pooler that take a large part of max_connections.

use std::collections::BTreeMap;

use observe::Backend;

use crate::facts::Facts;
use crate::finding::{Finding, Weight};
use crate::words::{number, percent};

/// From this part on they are found, and from this one on they are pressing.
const PART: f64 = 0.2;
const PART_PRESSING: f64 = 0.5;

pub(super) fn find(facts: &Facts) -> Option<Finding> {
    let room = facts.postgres.as_ref()?.connections_max()?;
    let strangers = strangers(facts);
    let part = strangers.len() as f64 / room.max(1) as f64;
    if part < PART {
        return None;
    }
    let mut kinds: BTreeMap<(&str, &str, &str), usize> = BTreeMap::new();
    for backend in &strangers {
        let kind = (word(&backend.user), word(&backend.application_name), word(&backend.client_addr));
        *kinds.entry(kind).or_default() += 1;
    }
    let mut kinds: Vec<_> = kinds.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let lines = kinds.iter().map(|((user, application, address), count)| {
        let application = if application.is_empty() { "no name" } else { application };
        let address = if address.is_empty() { "this machine or an address that is not told" } else { address };
        format!("{count}: user {user}, application_name {application}, from {address}")
    });
    Some(Finding {
        rule: "strangers",
        weight: if part >= PART_PRESSING { Weight::Warning } else { Weight::Notice },
        title: format!("{} connections go past the pooler: {} of what PostgreSQL takes", strangers.len(), percent(part)),
        evidence: super::first(lines),
        reason: format!(
            "They count in max_connections ({} for clients) and do not wait in the pooler's queue: they are where the next login is refused, and \
             no size of a pool can prevent it.",
            number(room)
        ),
        source: "PostgreSQL manual, Connection Settings: max_connections",
        mend: vec![
            "-- let them connect to the pooler; pool_mode = session, or a class of their own, suits what must keep a session".to_owned(),
            "ALTER ROLE … CONNECTION LIMIT n; -- or bound those that cannot".to_owned(),
        ],
    })
}

fn word(value: &Option<String>) -> &str {
    value.as_deref().unwrap_or_default()
}

/// How many there are now; 0 if that cannot be told.
pub(super) fn count(facts: &Facts) -> u64 {
    strangers(facts).len() as u64
}

/// Clients' backends that are none of the pooler's. Other processes of the pooler are taken for it where several are said to be there: whoever
/// has the user and the database of a pool.
fn strangers(facts: &Facts) -> Vec<&Backend> {
    let (Some(pooler), Some(postgres)) = (&facts.pooler, &facts.postgres) else { return Vec::new() };
    let pids = pooler.pids();
    let is_known = |pid: i32| pids.contains(&pid);
    let has_servers_here = postgres.clients().any(|backend| is_known(backend.pid));
    // Another pooler is between, or another server is looked at: then pids say nothing.
    if pooler.servers.is_none() || (!pids.is_empty() && !has_servers_here) {
        return Vec::new();
    }
    let is_of_a_replica = |backend: &Backend| {
        facts.asked.replicas > 1
            && pooler.pools.iter().any(|pool| {
                let names = pooler.databases.iter().find(|database| database.name == pool.database);
                let database = names.map_or(pool.database.as_str(), |names| &names.database);
                let user = names.and_then(|names| names.forced_user.as_deref()).unwrap_or(&pool.user);
                word(&backend.user) == user && word(&backend.database) == database
            })
    };
    postgres.clients().filter(|backend| !is_known(backend.pid) && !is_of_a_replica(backend)).collect()
}

#[cfg(test)]
mod tests {
    use observe::State;

    use super::*;
    use crate::rules::example::{backend, check, pooler, postgres};

    #[test]
    fn a_fifth_of_the_room_is_found() {
        // 97 for clients.
        let past = |count: i32| {
            move |facts: &mut Facts| postgres(facts).backends.extend((0..count).map(|n| backend(200 + n, State::Idle)))
        };
        let of_replicas = |facts: &mut Facts| {
            past(60)(facts);
            facts.asked.replicas = 3;
        };
        let unknown = |facts: &mut Facts| {
            past(60)(facts);
            pooler(facts).servers = None;
        };
        let elsewhere = |facts: &mut Facts| {
            past(60)(facts);
            pooler(facts).servers.iter_mut().flatten().for_each(|server| server.pid = 9999);
        };
        check(
            find,
            &[
                ("19 of 97", &past(19), None),
                ("20 of 97", &past(20), Some(Weight::Notice)),
                ("48 of 97", &past(48), Some(Weight::Notice)),
                ("49 of 97", &past(49), Some(Weight::Warning)),
                ("other pods'", &of_replicas, None),
                ("servers are not shown", &unknown, None),
                ("no server of the pooler is here", &elsewhere, None),
            ],
        );
    }
}
