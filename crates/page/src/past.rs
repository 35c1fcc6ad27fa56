//! One second of the last hour: who waited, for what, and behind whom; and what one client did over the hour.
//!
//! Statements, tags and blockers are for administrators.

use activity::history::{Dimension, Exact, Key, Second, Span, Who};
use activity::{At, History};
use machine::Peer;
use serde::Serialize;
use units::Serial;

use crate::Rights;

/// Of a second: pools, and groups of those that did the same.
const POOLS_MAX: usize = 100;
const GROUPS_MAX: usize = 100;

/// Changes of what a client did.
const RUNS_MAX: usize = 1000;

/// Somebody who repeats.
#[derive(Debug, Default, Serialize)]
struct Person {
    database: String,
    user: String,
    class: String,
    tags: String,
    statement: String,
}

impl Person {
    fn of(who: &Who, rights: Rights) -> Person {
        let private = |text: String| if rights == Rights::Admin { text } else { String::new() };
        Person {
            database: who.database.to_string(),
            user: who.user.to_string(),
            class: who.class.to_string(),
            tags: private(who.tags.to_string()),
            statement: private(who.statement.to_string()),
        }
    }
}

/// What was counted together.
#[derive(Debug, Serialize)]
struct Group {
    count: u32,
    wait_class: String,
    wait_event: String,
    who: Person,
    /// At the end of the chain.
    behind: Option<Person>,
}

impl Group {
    fn of(key: &Key, count: u32, rights: Rights) -> Group {
        let behind = key.blocker.as_ref().filter(|_| rights == Rights::Admin);
        Group {
            count,
            wait_class: key.class.to_string(),
            wait_event: key.event.to_string(),
            who: Person::of(&key.who, rights),
            behind: behind.map(|who| Person::of(who, rights)),
        }
    }
}

/// One with all ids; times in milliseconds.
#[derive(Debug, Serialize)]
struct One {
    #[serde(flatten)]
    group: Group,
    client: Option<i32>,
    address: Option<String>,
    application_name: String,
    pid: Option<i32>,
    all_tags: String,
    waiting: Option<u128>,
    queued: u128,
    transaction: Option<u128>,
    idle: Option<u128>,
    query: Option<u128>,
    blocker: Option<i32>,
    root: Option<i32>,
    behind_it: u32,
}

impl One {
    fn of(history: &History, exact: &Exact, rights: Rights) -> One {
        let tags = if rights == Rights::Admin { exact.tags.to_string() } else { String::new() };
        One {
            group: Group::of(history.key(exact.key), 1, rights),
            client: exact.session.map(|(serial, _)| serial.0),
            address: exact.session.map(|(_, peer)| address(peer)),
            application_name: exact.application_name.to_string(),
            pid: exact.pid,
            all_tags: tags,
            waiting: exact.waiting.map(|age| age.as_millis()),
            queued: exact.queued.as_millis(),
            transaction: exact.transaction.map(|age| age.as_millis()),
            idle: exact.idle.map(|age| age.as_millis()),
            query: exact.query.map(|age| age.as_millis()),
            blocker: exact.blocker.filter(|_| rights == Rights::Admin),
            root: exact.root.filter(|_| rights == Rights::Admin),
            behind_it: exact.behind,
        }
    }
}

fn address(peer: Peer) -> String {
    match peer {
        Peer::Tcp { from, .. } => from.to_string(),
        Peer::Unix { .. } => "unix".to_owned(),
    }
}

#[derive(Debug, Serialize)]
struct PoolThen<'h> {
    database: &'h str,
    user: &'h str,
    clients: u32,
    waiting: u32,
    longest_wait_ms: u32,
    servers_active: u32,
    servers_idle: u32,
    servers_login: u32,
    auto_size: u32,
}

#[derive(Debug, Serialize)]
struct Then<'h> {
    at: u64,
    pools: Vec<PoolThen<'h>>,
    groups: Vec<Group>,
    worst: Vec<One>,
    hosts_missing: u16,
    /// Why clients waited then, a sentence for each pool in trouble.
    verdicts: Vec<&'h str>,
}

/// The last second up to `at` (of 1970), as JSON. `None`: it is not known any more, or not yet.
pub(crate) fn second(history: &History, at: u64, rights: Rights) -> Option<String> {
    let second: &Second = history.second(At(at.checked_mul(1000)?))?;
    let mut pools: Vec<PoolThen<'_>> = second.pools.iter().map(pool).collect();
    pools.sort_by_key(|pool| std::cmp::Reverse((pool.waiting, pool.servers_active)));
    pools.truncate(POOLS_MAX);
    let groups = second.samples.iter().take(GROUPS_MAX);
    let then = Then {
        at: second.at.second(),
        pools,
        groups: groups.map(|sample| Group::of(history.key(sample.key), sample.count, rights)).collect(),
        worst: second.worst.iter().map(|exact| One::of(history, exact, rights)).collect(),
        hosts_missing: second.hosts_missing,
        // It names who was in the way.
        verdicts: second.whys.iter().filter(|_| rights == Rights::Admin).map(|why| &*why.sentence).collect(),
    };
    Some(serde_json::to_string(&then).expect("texts and numbers are JSON"))
}

fn pool((key, pool): &(units::PoolKey, activity::history::PoolSecond)) -> PoolThen<'_> {
    PoolThen {
        database: &key.database,
        user: &key.user,
        clients: pool.clients,
        waiting: pool.waiting,
        longest_wait_ms: pool.oldest_wait_ms,
        servers_active: pool.servers_active,
        servers_idle: pool.servers_idle,
        servers_login: pool.servers_login,
        auto_size: pool.auto_size,
    }
}

/// What a client did without a break, in seconds of 1970, both included.
#[derive(Debug, Serialize)]
struct Run {
    from: u64,
    to: u64,
    #[serde(flatten)]
    group: Group,
}

#[derive(Debug, Serialize)]
struct Life {
    runs: Vec<Run>,
    /// The seconds in which it was among the worst.
    worst: Vec<(u64, One)>,
}

/// What the client of this number did, as JSON. Seconds in which it did nothing are in no run.
pub(crate) fn client(history: &History, client: i32, rights: Rights) -> String {
    let session = Serial(client);
    let mut runs: Vec<(Run, activity::history::KeyId)> = Vec::new();
    let mut worst: Vec<(u64, One)> = Vec::new();
    for second in history.seconds() {
        let at = second.at.second();
        let is_it = |exact: &&Exact| exact.session.is_some_and(|(serial, _)| serial == session);
        worst.extend(second.worst.iter().find(is_it).map(|exact| (at, One::of(history, exact, rights))));
        let Some(busy) = second.busy.iter().find(|busy| busy.session == session) else { continue };
        match runs.last_mut() {
            Some((run, key)) if *key == busy.key && run.to + 2 >= at => run.to = at,
            _ => runs.push((Run { from: at, to: at, group: Group::of(history.key(busy.key), 1, rights) }, busy.key)),
        }
    }
    // The newest count.
    let runs = runs.split_off(runs.len().saturating_sub(RUNS_MAX)).into_iter().map(|(run, _)| run).collect();
    let worst = worst.split_off(worst.len().saturating_sub(60));
    serde_json::to_string(&Life { runs, worst }).expect("texts and numbers are JSON")
}

#[derive(Debug, Serialize)]
struct Sum {
    name: String,
    samples: u64,
    most: u32,
    seconds: u32,
}

#[derive(Debug, Serialize)]
struct Sums {
    looks: usize,
    sums: Vec<Sum>,
}

/// Samples of a span, by `by`, as JSON. `None`: by something that is not known, or is not for such rights.
pub(crate) fn waits(history: &History, from: u64, to: u64, by: &str, rights: Rights) -> Option<String> {
    let by = match by {
        "event" => Dimension::Event,
        "pool" => Dimension::Pool,
        "class" => Dimension::ClientClass,
        "statement" if rights == Rights::Admin => Dimension::Statement,
        "blocker" if rights == Rights::Admin => Dimension::Blocker,
        _ => return None,
    };
    let span = Span { from: At(from.checked_mul(1000)?), to: At(to.checked_mul(1000)?.checked_add(999)?) };
    let sums = history.waits(span, &by, |_| true).into_iter().take(GROUPS_MAX);
    let sum = |sum: activity::history::WaitSum| Sum {
        name: sum.name,
        samples: sum.samples,
        most: sum.most,
        seconds: sum.seconds,
    };
    let sums = Sums { looks: history.within(span).count(), sums: sums.map(sum).collect() };
    Some(serde_json::to_string(&sums).expect("texts and numbers are JSON"))
}
