//! Why clients wait now, as one value for each pool that is in trouble, and as one sentence.
//!
//! ```text
//!   Moment ─ survey ─► Servers      what each server of the pool does
//!          ─ chain ──► WaitChain    behind whom they wait: links, and the root
//!                       └─► Verdict ─ words ─► sentence, root, how to end it
//! ```
//!
//! Promises: the root and each link of a chain are in somebody's way themselves; a client that only waits is never one. All surfaces (SHOW WHY,
//! top, the page, the report) show this sentence.
//!
//! Deliberately does not do: remember; a verdict is about one moment.

mod chain;
mod index;
mod survey;
mod words;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use observe::LockMode;
use units::PoolKey;

use self::index::Index;
use crate::moment::{EndedDeadlock, Moment, Pool, Row, View};
use crate::tags::Tags;

pub use chain::{Link, LinkOwner, LinkState, WaitChain};
pub use survey::{Busiest, Servers};
pub use words::{Detail, Ending, NOTHING_KNOWN};

/// A pool is in trouble when a client has waited for this time, for a server or for a lock. Shorter queues come and go where all is well. PostgreSQL, too, looks
/// into a wait for a lock after a second (`deadlock_timeout`).
//= pg18 runtime-config-locks#GUC-DEADLOCK-TIMEOUT
pub const LONG_WAIT: Duration = Duration::from_secs(1);

/// A queue is a consequence if at least this share of the pool's servers waits behind a blocker, or is that blocker. If half
/// of the servers wait, half of any servers more would most probably wait, too, and the first thing to do is to end what they wait for.
pub const MOST_PERCENT: u32 = 50;

/// A deadlock that PostgreSQL ended within this time is named. It explains an error that a client has just had, and a wait that is over.
pub const DEADLOCK_AGE_MAX: Duration = Duration::from_secs(10);

/// The verdict on one moment.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Trouble(Box<Trouble>),
    /// No client has waited for [`LONG_WAIT`]. The servers that pgweir could not look into, by their addresses: nobody knows of waits there.
    NothingWrong {
        unseen: Vec<Arc<str>>,
        /// A deadlock that ended within [`DEADLOCK_AGE_MAX`], and its pool.
        deadlock: Option<(PoolKey, EndedDeadlock)>,
    },
}

/// A pool whose clients wait.
#[derive(Clone, Debug, PartialEq)]
pub struct Trouble {
    pub pool: PoolKey,
    /// Clients that wait for a server of the pool.
    pub waiting: u32,
    /// The longest wait: for a server, or for a lock if no client has waited long for a server.
    pub longest: Duration,
    pub servers: Servers,
    pub why: Why,
    /// A deadlock of its clients that ended within [`DEADLOCK_AGE_MAX`].
    pub deadlock: Option<EndedDeadlock>,
}

/// Why clients wait.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Most servers wait for locks. The queue is a consequence.
    Behind(WaitChain),
    /// Some servers wait for locks, and no client waits long for a server.
    LockOnly(WaitChain),
    /// Most servers wait until a synchronous standby has confirmed their commits. The queue is a consequence.
    Standby,
    /// Most servers run statements. The queue is a cause. With the statement that most of them run, where that is known.
    Computing(Option<Box<Busiest>>),
    /// Most servers still run a statement of a client that has gone, or are being cancelled.
    Ending,
    /// Most servers have a client that is idle in its transaction. The link is the longest idle. The queue is a cause.
    IdleInTransaction(Box<Link>),
    /// Most servers are kept by a client between its transactions. The link is the server that is kept longest. The queue is a cause.
    Kept(Box<Link>),
    /// Servers are there, most of them idle, and clients may not have them.
    Held,
    /// The pool has no server that is ready.
    NoServer,
    /// No host of its database can be used. With the state of each host, in words.
    NoHost(Arc<str>),
    /// Most servers run statements, and PostgreSQL was not asked, or has not answered, what these wait for.
    Unseen,
}

/// Whether a queue is the trouble, or follows from it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Queue {
    /// The pool is too small, its statements too slow, or its transactions too long: more servers would serve more clients.
    Cause,
    /// Something else stops the servers: more servers would only wait, too.
    Consequence,
}

impl Queue {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Queue::Cause => "cause",
            Queue::Consequence => "consequence",
        }
    }
}

/// A lock: its mode, and on what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOn {
    pub mode: LockMode,
    /// `relation`, `transactionid`, `tuple`, `advisory` and others.
    pub kind: Arc<str>,
    /// A relation's name, if it is known.
    pub name: Option<Arc<str>>,
}

impl Why {
    /// A word or two by which scripts and metrics tell reasons apart.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Why::Behind(_) => "locks",
            Why::LockOnly(_) => "locks only",
            Why::Standby => "standby",
            Why::Computing(_) => "statements",
            Why::Ending => "cancels",
            Why::IdleInTransaction(_) => "idle in transaction",
            Why::Kept(_) => "kept",
            Why::Held => "held",
            Why::NoServer => "no server",
            Why::NoHost(_) => "no host",
            Why::Unseen => "unseen",
        }
    }

    /// `None`: there is no queue, or nobody knows what it is.
    #[must_use]
    pub fn queue(&self) -> Option<Queue> {
        match self {
            Why::Behind(_) | Why::Standby | Why::Held | Why::NoServer | Why::NoHost(_) => Some(Queue::Consequence),
            Why::Computing(_) | Why::IdleInTransaction(_) | Why::Kept(_) => Some(Queue::Cause),
            Why::LockOnly(_) | Why::Unseen | Why::Ending => None,
        }
    }
}

/// The pools in trouble. The pool with most waiting clients comes first. Never empty: that nothing is wrong is a verdict, too.
#[must_use]
pub fn verdicts(moment: &Moment) -> Vec<Verdict> {
    let blocked: BTreeSet<&PoolKey> = moment.rows.iter().filter_map(blocked_pool).collect();
    let may_be_in_trouble = |(key, pool): &(&PoolKey, &Pool)| waits_long(pool) || blocked.contains(key);
    let pools: Vec<_> = moment.pools.iter().filter(may_be_in_trouble).collect();
    let mut found: Vec<Trouble> = Vec::new();
    if !pools.is_empty() {
        let index = Index::of(moment);
        found.extend(pools.into_iter().filter_map(|(key, pool)| trouble(&index, key, pool)));
    }
    found.sort_by_key(|trouble| {
        let waiters = trouble.waiting.max(trouble.servers.behind);
        (std::cmp::Reverse((waiters, trouble.longest)), trouble.pool.clone())
    });
    if found.is_empty() {
        let is_unseen = |view: &View| !matches!(view, View::Whole(_));
        let unseen = moment.hosts.iter().filter(|host| is_unseen(&host.view));
        let unseen = unseen.map(|host| Arc::clone(&host.address)).collect();
        let deadlocks = moment.pools.iter().filter_map(|(key, pool)| Some((key.clone(), just_ended(pool)?)));
        return vec![Verdict::NothingWrong { unseen, deadlock: deadlocks.min_by_key(|(_, ended)| ended.ago) }];
    }
    found.into_iter().map(|trouble| Verdict::Trouble(Box::new(trouble))).collect()
}

fn waits_long(pool: &Pool) -> bool {
    pool.waiting > 0 && pool.oldest_wait >= LONG_WAIT
}

fn just_ended(pool: &Pool) -> Option<EndedDeadlock> {
    pool.deadlock.clone().filter(|ended| ended.ago <= DEADLOCK_AGE_MAX)
}

/// The pool of a session that waits for a lock.
fn blocked_pool(row: &Row) -> Option<&PoolKey> {
    row.session.as_ref().filter(|_| row.waiter.is_some()).map(|session| &session.pool)
}

fn trouble(index: &Index<'_>, key: &PoolKey, pool: &Pool) -> Option<Trouble> {
    let survey = survey::survey(index, key, pool);
    let servers = survey.servers;
    let behind = chain::main(index, key, &survey.behind);
    let deadlock = just_ended(pool);
    let made =
        |longest, why| Some(Trouble { pool: key.clone(), waiting: pool.waiting, longest, servers, why, deadlock });
    if !waits_long(pool) {
        let longest = survey.behind.iter().filter_map(|row| Some(row.waiter.as_ref()?.waiting)).max()?;
        let chain = behind.filter(|_| longest >= LONG_WAIT)?;
        return made(longest, Why::LockOnly(chain));
    }
    if let Some(hosts) = &pool.held_for {
        return made(pool.oldest_wait, Why::NoHost(Arc::clone(hosts)));
    }
    let why = match behind {
        Some(chain) if servers.is_most(servers.behind + u32::from(chain.is_root_in_pool(key))) => Why::Behind(chain),
        // The locks have not been read, or may not be seen.
        None if servers.is_most(servers.behind) => {
            Why::Behind(WaitChain { links: Vec::new(), behind: servers.behind, is_deadlock: false })
        }
        _ if servers.is_most(servers.standby) => Why::Standby,
        _ => cause(index.moment, &survey),
    };
    made(pool.oldest_wait, why)
}

/// Why clients wait if most servers have no blocker.
fn cause(moment: &Moment, survey: &survey::Survey<'_>) -> Why {
    let servers = survey.servers;
    let busy = servers.computing + servers.unseen + servers.idle_in_transaction + servers.kept;
    let busy = busy + servers.behind + servers.standby + servers.ending;
    if servers.open == 0 || (busy == 0 && servers.login == servers.open) {
        return Why::NoServer;
    }
    if servers.is_most(servers.idle) {
        return Why::Held;
    }
    let link = |row: Option<&Row>| row.map(|row| Box::new(chain::link(moment, row, None)));
    let most = servers.idle_in_transaction.max(servers.kept).max(servers.computing).max(servers.unseen);
    if servers.ending > most {
        return Why::Ending;
    }
    if most == servers.idle_in_transaction
        && let Some(link) = link(survey.longest_idle)
    {
        return Why::IdleInTransaction(link);
    }
    if most == servers.kept
        && let Some(link) = link(survey.longest_kept)
    {
        return Why::Kept(link);
    }
    if most == servers.unseen && most > servers.computing {
        return Why::Unseen;
    }
    Why::Computing(survey::busiest(&survey.computing).map(Box::new))
}

/// Bytes of a statement that are kept.
const STATEMENT_LEN_MAX: usize = 120;

/// The tags of a statement by which a person knows whose it is.
const TAGS_MAX: usize = 4;

fn tags_shown(tags: &Tags) -> String {
    tags.iter().take(TAGS_MAX).map(|(_, value)| words::bounded(value)).collect::<Vec<_>>().join(", ")
}
