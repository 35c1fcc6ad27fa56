//! One second of the last hour: who waited, for what, and behind whom; and what one client did over the hour.
//!
//! Statements, tags and blockers are for administrators.
//!
//! Roots come first. Equal victims are one line with a count. Statements of pgweir itself come last.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use activity::history::{Dimension, Exact, Key, KeyId, LockLine, LockMember, Sample, Second, Span, WaitSum, Who};
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
    /// Its statement is pgweir's own.
    own: bool,
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
            own: who.is_own(),
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

/// A row with the rows that are equal to it.
#[derive(Debug, Serialize)]
struct Fold {
    #[serde(flatten)]
    one: One,
    /// The number of sessions that did the same, this one included.
    count_alike: u32,
    /// The other sessions whose ids are kept.
    alike: Vec<One>,
}

/// The backends behind which others have their place in the lock tree.
fn parents(second: &Second) -> BTreeSet<i32> {
    let deeper = second.locks.windows(2).filter(|lines| lines[1].seen.depth > lines[0].seen.depth);
    let of_lines = deeper.filter_map(|lines| Some(lines[0].seen.members.first()?.pid));
    of_lines.chain(second.worst.iter().filter_map(|exact| exact.blocker)).collect()
}

/// The rows of a second. Those that wait and are nobody's blocker in the lock tree are one row for each key, with the count of its samples.
fn folded(history: &History, second: &Second, rights: Rights) -> Vec<Fold> {
    let mut folds: Vec<Fold> = Vec::new();
    let mut places: BTreeMap<KeyId, usize> = BTreeMap::new();
    let parents = parents(second);
    let is_victim = |exact: &Exact| exact.waiting.is_some() && !exact.pid.is_some_and(|pid| parents.contains(&pid));
    for exact in &second.worst {
        let mut one = One::of(history, exact, rights);
        let is_victim = is_victim(exact);
        if is_victim {
            // They only come after it in a queue.
            one.behind_it = 0;
        }
        if let Some(place) = places.get(&exact.key).filter(|_| is_victim) {
            folds[*place].alike.push(one);
            continue;
        }
        if is_victim {
            places.insert(exact.key, folds.len());
        }
        folds.push(Fold { one, count_alike: 1, alike: Vec::new() });
    }
    for (key, place) in places {
        let count = second.samples.iter().find(|sample| sample.key == key).map_or(1, |sample| sample.count);
        let (known, others) = (&mut folds[place], 1);
        // A blocker may do the same as its victims; it has a row of its own.
        let blockers = second.worst.iter().filter(|exact| exact.key == key && !is_victim(exact)).count();
        let kept = u32::try_from(known.alike.len() + others).unwrap_or(u32::MAX);
        known.count_alike = count.saturating_sub(u32::try_from(blockers).unwrap_or(u32::MAX)).max(kept);
    }
    folds.sort_by_key(|fold| fold.one.group.who.own);
    folds
}

/// A line of the lock tree; ages in milliseconds.
#[derive(Debug, Serialize)]
struct Locked<'h> {
    depth: u16,
    /// The number of backends.
    count: u32,
    members: Vec<Member>,
    behind_it: u32,
    server: &'h str,
    application_name: &'h str,
    who: Person,
    /// All tags, if it is a single backend.
    tags: String,
    waits_for: Option<&'h str>,
    object: Option<&'h str>,
    holds: String,
    state: &'h str,
    transaction: Option<u128>,
    note: &'h str,
}

#[derive(Debug, Serialize)]
struct Member {
    pid: i32,
    client: Option<i32>,
    waiting: u32,
}

fn locked<'h>(history: &'h History, line: &'h LockLine, rights: Rights) -> Locked<'h> {
    let seen = &line.seen;
    let member = |member: &LockMember| Member { pid: member.pid, client: member.client, waiting: member.waiting_ms };
    let holds: Vec<String> = seen.holds.iter().map(|lock| format!("{} on {}", lock.mode, lock.object)).collect();
    let tags: Vec<String> = seen.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let who = Person::of(&history.key(line.key).who, rights);
    Locked {
        depth: seen.depth,
        count: seen.count,
        members: seen.members.iter().map(member).collect(),
        behind_it: seen.behind,
        server: &seen.server,
        application_name: &seen.application_name,
        tags: if tags.is_empty() { who.tags.clone() } else { tags.join(" ") },
        who,
        waits_for: seen.waits.as_ref().map(|lock| &*lock.mode),
        object: seen.waits.as_ref().map(|lock| &*lock.object),
        holds: holds.join(", "),
        state: &seen.state,
        transaction: seen.transaction.map(|age| age.as_millis()),
        note: &seen.note,
    }
}

/// The groups of a second. Groups behind which others wait come first, statements of pgweir itself come last. Among equals the largest is first.
fn grouped(history: &History, second: &Second, rights: Rights) -> Vec<Group> {
    let key = |sample: &Sample| history.key(sample.key);
    let roots: BTreeSet<&Who> = second.samples.iter().filter_map(|sample| key(sample).blocker.as_ref()).collect();
    let mut samples: Vec<&Sample> = second.samples.iter().collect();
    let is_root = |key: &Key| key.blocker.is_none() && roots.contains(&key.who);
    samples.sort_by_key(|sample| (key(sample).who.is_own(), !is_root(key(sample)), Reverse(sample.count)));
    samples.into_iter().take(GROUPS_MAX).map(|sample| Group::of(key(sample), sample.count, rights)).collect()
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
    worst: Vec<Fold>,
    /// The lock tree, for administrators.
    locks: Vec<Locked<'h>>,
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
    let then = Then {
        at: second.at.second(),
        pools,
        groups: grouped(history, second, rights),
        worst: folded(history, second, rights),
        locks: match rights {
            Rights::Admin => second.locks.iter().map(|line| locked(history, line, rights)).collect(),
            Rights::Stats => Vec::new(),
        },
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
    /// Statements of pgweir itself.
    own: Vec<Sum>,
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
    let sums = |is_own: bool| {
        let sums = history.waits(span, &by, |key| key.who.is_own() == is_own);
        sums.into_iter().take(GROUPS_MAX).map(sum).collect()
    };
    let sums = Sums { looks: history.within(span).count(), sums: sums(false), own: sums(true) };
    Some(serde_json::to_string(&sums).expect("texts and numbers are JSON"))
}

fn sum(sum: WaitSum) -> Sum {
    Sum { name: sum.name, samples: sum.samples, most: sum.most, seconds: sum.seconds }
}

#[cfg(test)]
mod tests;
