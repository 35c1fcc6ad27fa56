//! A moment as it is kept.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use machine::Peer;
use observe::{is_prepared, pid_shown};
use sql::redacted_by_any_rules;
use units::{PoolKey, Serial};

use super::Options;
use super::keys::{Key, KeyId, Keys, OWN_CLASS, Who};
use super::locks::{self, LockLine};
use crate::moment::{At, Moment, Origin, POOL_WAIT, Row, View};
use crate::tags::Tags;
use crate::tree::tree;
use crate::verdict::{Detail, Queue, Trouble, Verdict};

/// Of the samples of a second, so many have a key of their own: those with the most. The rest is counted by what it waits for.
const SAMPLES_MAX: usize = 256;

/// Rows of which all is kept, and sessions of which is kept what they were counted as.
const WORST_MAX: usize = 32;
const BUSY_MAX: usize = 256;

/// The beginning of a statement that is kept, in bytes.
const STATEMENT_LEN_MAX: usize = 200;

/// What was seen in one second.
#[derive(Debug)]
pub struct Second {
    pub at: At,
    pub samples: Box<[Sample]>,
    pub worst: Box<[Exact]>,
    pub busy: Box<[Busy]>,
    pub pools: Box<[(PoolKey, PoolSecond)]>,
    /// The pools in trouble. The pool with most waiting clients comes first.
    pub whys: Box<[WhySecond]>,
    /// Hosts that have not answered: their backends are missing.
    pub hosts_missing: u16,
    /// The lock tree, the root with the most behind it first.
    pub locks: Box<[LockLine]>,
}

/// How many did one thing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    pub key: KeyId,
    pub count: u32,
}

/// What a session was counted as.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// `id` of SHOW CLIENTS.
    pub session: Serial,
    pub key: KeyId,
}

/// A row with all its ids.
#[derive(Clone, Debug)]
pub struct Exact {
    pub key: KeyId,
    /// `id` of SHOW CLIENTS, and where it comes from; `None`: a stranger.
    pub session: Option<(Serial, Peer)>,
    pub application_name: Box<str>,
    pub pid: Option<i32>,
    /// All of them.
    pub tags: Tags,
    /// For the server, or for the lock.
    pub waiting: Option<Duration>,
    /// Before its transaction had a server.
    pub queued: Duration,
    pub transaction: Option<Duration>,
    pub idle: Option<Duration>,
    pub query: Option<Duration>,
    /// The one that it stands behind, and the one at the end of the chain.
    pub blocker: Option<i32>,
    pub root: Option<i32>,
    /// How many wait behind it.
    pub behind: u32,
}

/// The verdict on one pool in trouble, in the words of that second.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct WhySecond {
    pub pool: PoolKey,
    /// Clients that waited for a server.
    pub waiting: u32,
    /// [`Trouble::queue`] as a word; empty: there was no queue, or nobody knew.
    pub queue: Box<str>,
    /// The name of the root; empty: there was none.
    pub root: Box<str>,
    pub sentence: Box<str>,
}

/// Verdicts that are kept of a second. Pools beyond them have fewer waiting clients, and most often the same root.
const WHYS_MAX: usize = 8;

/// A pool in one second.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PoolSecond {
    pub clients: u32,
    pub waiting: u32,
    pub oldest_wait_ms: u32,
    pub servers_active: u32,
    pub servers_idle: u32,
    pub servers_login: u32,
    /// 0: it is not asked for.
    pub auto_size: u32,
    /// Since the start.
    pub transactions: u64,
    pub queries: u64,
    pub received: u64,
    pub sent: u64,
    pub wait_us: u64,
    /// Microseconds that the clients that waited then had waited, summed.
    pub waiting_us: u64,
}

/// A row, and the key that it is counted by.
struct Counted<'m> {
    row: &'m Row,
    key: Key,
    blocker: Option<i32>,
    root: Option<i32>,
}

impl Second {
    pub(super) fn of(moment: &Moment, verdicts: &[Verdict], keys: &mut Keys, options: &Options) -> Second {
        let counted = counted(moment, options);
        let mut counts: BTreeMap<&Key, u32> = BTreeMap::new();
        counted.iter().for_each(|counted| *counts.entry(&counted.key).or_default() += 1);
        let unlisted = unlisted(moment);
        unlisted.iter().for_each(|(key, count)| *counts.entry(key).or_default() += count);
        let (samples, ids) = samples(counts, keys);
        // What was put together with others has no key of its own.
        let mut own = |key: &Key| {
            let id = ids.get(key).copied();
            id.inspect(|id| keys.take_again(*id))
        };
        let mut by_weight: Vec<&Counted<'_>> = counted.iter().collect();
        by_weight.sort_by_key(|counted| Reverse(weight(counted.row)));
        let worst = by_weight.iter().filter_map(|counted| Some(exact(counted, own(&counted.key)?)));
        let worst: Box<[Exact]> = worst.take(WORST_MAX).collect();
        let busy = by_weight.iter().filter_map(|counted| {
            let session = counted.row.session.as_ref()?.id.serial;
            Some(Busy { session, key: own(&counted.key)? })
        });
        let busy = busy.take(BUSY_MAX).collect();
        let lines = locks::lines(moment, |row| who(row, options)).into_iter();
        let locks: Vec<LockLine> =
            lines.map(|(who, seen)| LockLine { key: keys.take(locks::key(who)), seen }).collect();
        let missing = moment.hosts.iter().filter(|host| matches!(host.view, View::None(_))).count();
        Second {
            at: moment.at,
            samples,
            worst,
            busy,
            pools: moment.pools.iter().map(|(key, pool)| (key.clone(), pool_second(pool))).collect(),
            whys: whys(verdicts),
            hosts_missing: u16::try_from(missing).unwrap_or(u16::MAX),
            locks: locks.into(),
        }
    }

    /// Each as often as it is used.
    pub(super) fn keys(&self) -> impl Iterator<Item = KeyId> {
        let samples = self.samples.iter().map(|sample| sample.key);
        let busy = self.busy.iter().map(|busy| busy.key);
        let locks = self.locks.iter().map(|line| line.key);
        samples.chain(self.worst.iter().map(|exact| exact.key)).chain(busy).chain(locks)
    }

    /// Bytes.
    pub(super) fn weight(&self) -> usize {
        let worst =
            self.worst.iter().map(|exact| size_of::<Exact>() + exact.tags.weight() + exact.application_name.len());
        let texts = |why: &WhySecond| why.root.len() + why.sentence.len() + why.queue.len();
        let whys = self.whys.iter().map(|why| size_of::<WhySecond>() + texts(why));
        size_of::<Second>()
            + size_of_val(&*self.samples)
            + size_of_val(&*self.busy)
            + size_of_val(&*self.pools)
            + worst.sum::<usize>()
            + whys.sum::<usize>()
            + self.locks.iter().map(|line| size_of::<LockLine>() + line.seen.weight()).sum::<usize>()
    }
}

fn whys(verdicts: &[Verdict]) -> Box<[WhySecond]> {
    let one = |trouble: &Trouble, verdict: &Verdict| WhySecond {
        pool: trouble.pool.clone(),
        waiting: trouble.waiting,
        queue: trouble.queue().map_or("", Queue::word).into(),
        root: trouble.root(Detail::WithoutStatements).unwrap_or_default().into(),
        sentence: verdict.past_sentence(Detail::Full).into(),
    };
    verdicts.iter().filter_map(|verdict| Some(one(verdict.trouble()?, verdict))).take(WHYS_MAX).collect()
}

/// The rows that do something, or stand in somebody's way.
fn counted<'m>(moment: &'m Moment, options: &Options) -> Vec<Counted<'m>> {
    let chains = chains(moment);
    let who = |row: &Row| who(row, options);
    let roots: BTreeSet<Place> = chains.iter().map(|((host, _), chain)| (*host, chain.root)).collect();
    let blockers: BTreeMap<Place, Who> =
        roots.into_iter().filter_map(|place| Some((place, who(moment.row(place.0, place.1)?)))).collect();
    let mut counted = Vec::new();
    for row in &moment.rows {
        let Some((class, event)) = row.wait() else { continue };
        let chain = row.host.zip(row.pid()).and_then(|place| chains.get(&place));
        let (root, blocker) = (chain.map(|chain| chain.root), chain.and_then(|chain| chain.behind));
        let key = Key {
            who: who(row),
            class: class.into(),
            event: event.into(),
            blocker: row.host.zip(root).and_then(|place| blockers.get(&place)).cloned(),
        };
        counted.push(Counted { row, key, blocker, root });
    }
    counted
}

/// A backend, by its host's place and its pid.
type Place = (u16, i32);

/// Whom one that waits for a lock waits for.
struct Chain {
    /// The end of it.
    root: i32,
    /// The one that it stands behind.
    behind: Option<i32>,
}

/// Of each that waits for a lock.
fn chains(moment: &Moment) -> BTreeMap<Place, Chain> {
    let mut chains = BTreeMap::new();
    let mut root = 0;
    for branch in tree(moment) {
        if branch.depth == 0 {
            root = branch.pid;
        } else {
            chains.insert((branch.host, branch.pid), Chain { root, behind: branch.behind });
        }
    }
    chains
}

fn who(row: &Row, options: &Options) -> Who {
    let statement = row.statement().unwrap_or_default();
    // A gid names the transaction, as a table's name does.
    let is_named = row.pid().is_some_and(is_prepared);
    let statement: Box<str> = if options.literals || is_named {
        let end = statement.floor_char_boundary(STATEMENT_LEN_MAX);
        statement[..end].into()
    } else {
        redacted_by_any_rules(statement.as_bytes(), STATEMENT_LEN_MAX).into()
    };
    let tags = row.tags.only(&options.tags);
    match (&row.session, &row.backend) {
        (Some(session), _) => Who {
            database: session.pool.database.clone(),
            user: session.pool.user.clone(),
            class: session.class.clone(),
            tags,
            fingerprint: session.fingerprint,
            statement,
        },
        (None, backend) => {
            let class = if row.origin == Origin::Own { OWN_CLASS } else { "" };
            let backend = backend.as_ref();
            let word = |word: Option<&String>| -> Arc<str> { word.map_or("", String::as_str).into() };
            let kind = backend.and_then(|backend| backend.kind.as_ref());
            Who {
                database: word(backend.and_then(|backend| backend.database.as_ref())),
                // A process of PostgreSQL's own has no user: its kind says as much.
                user: word(backend.and_then(|backend| backend.user.as_ref()).or(kind)),
                class: class.into(),
                tags,
                fingerprint: None,
                statement,
            }
        }
    }
}

/// Those that wait for a server and have no row, by pool and class.
fn unlisted(moment: &Moment) -> BTreeMap<Key, u32> {
    let mut listed: BTreeMap<(&PoolKey, &str), u32> = BTreeMap::new();
    for session in moment.rows.iter().filter_map(|row| row.session.as_ref()) {
        if session.times.waiting.is_some() {
            *listed.entry((&session.pool, &session.class)).or_default() += 1;
        }
    }
    let mut unlisted = BTreeMap::new();
    for (pool, seen) in &moment.pools {
        for (class, count) in &seen.waiting_by_class {
            let left = count.saturating_sub(listed.get(&(pool, &**class)).copied().unwrap_or(0));
            let (database, user) = (pool.database.clone(), pool.user.clone());
            let who = Who { database, user, class: class.clone(), ..Who::default() };
            let key = Key { who, class: POOL_WAIT.0.into(), event: POOL_WAIT.1.into(), blocker: None };
            if left > 0 {
                unlisted.insert(key, left);
            }
        }
    }
    unlisted
}

/// The samples, and the places of the keys that are among them.
fn samples<'k>(counts: BTreeMap<&'k Key, u32>, keys: &mut Keys) -> (Box<[Sample]>, BTreeMap<&'k Key, KeyId>) {
    let mut by_count: Vec<(&Key, u32)> = counts.into_iter().collect();
    by_count.sort_by_key(|(_, count)| Reverse(*count));
    let mut ids = BTreeMap::new();
    let mut samples = Vec::with_capacity(by_count.len().min(SAMPLES_MAX + 16));
    let mut rest: BTreeMap<(Arc<str>, Arc<str>), u32> = BTreeMap::new();
    for (index, (key, count)) in by_count.into_iter().enumerate() {
        if index >= SAMPLES_MAX {
            *rest.entry((key.class.clone(), key.event.clone())).or_default() += count;
            continue;
        }
        let id = keys.take(key.clone());
        ids.insert(key, id);
        samples.push(Sample { key: id, count });
    }
    for ((class, event), count) in rest {
        let key = keys.take(Key { who: Who::default(), class, event, blocker: None });
        samples.push(Sample { key, count });
    }
    (samples.into(), ids)
}

/// Who is most in the way, and then who has waited longest, and then who has held most.
fn weight(row: &Row) -> (usize, Option<Duration>, Option<Duration>) {
    let transaction = row.backend.as_ref().and_then(|backend| backend.ages.transaction);
    (row.behind, row.waiting(), transaction)
}

fn exact(counted: &Counted<'_>, key: KeyId) -> Exact {
    let row = counted.row;
    let times = row.session.as_ref().map(|session| session.times).unwrap_or_default();
    let ages = row.backend.as_ref().map(|backend| backend.ages).unwrap_or_default();
    let name = row.session.as_ref().map(|session| &session.application_name);
    let name = name.or_else(|| row.backend.as_ref()?.application_name.as_ref());
    Exact {
        key,
        session: row.session.as_ref().map(|session| (session.id.serial, session.peer)),
        application_name: name.map_or("", String::as_str).into(),
        pid: row.pid_shown(),
        tags: row.tags.clone(),
        waiting: row.waiting(),
        queued: times.queued,
        transaction: ages.transaction.or(times.transaction),
        idle: if row.is_idle_in_transaction() { ages.state } else { None },
        query: ages.query,
        blocker: counted.blocker.map(pid_shown),
        root: counted.root.map(pid_shown),
        behind: u32::try_from(row.behind).unwrap_or(u32::MAX),
    }
}

fn pool_second(pool: &crate::moment::Pool) -> PoolSecond {
    PoolSecond {
        clients: pool.clients,
        waiting: pool.waiting,
        oldest_wait_ms: u32::try_from(pool.oldest_wait.as_millis()).unwrap_or(u32::MAX),
        servers_active: pool.servers_active,
        servers_idle: pool.servers_idle,
        servers_login: pool.servers_login,
        auto_size: pool.auto_size.unwrap_or(0),
        transactions: pool.transactions,
        queries: pool.queries,
        received: pool.received,
        sent: pool.sent,
        wait_us: pool.wait_us,
        waiting_us: pool.waiting_us,
    }
}
