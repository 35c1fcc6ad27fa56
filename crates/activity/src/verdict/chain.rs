//! The chain of blockers behind which the servers of a pool wait, from the nearest to the root.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use observe::{Blocking, Prepared, State, Waiter, is_prepared};
use units::PoolKey;

use super::index::Index;
use super::survey::{has_server_of, idle};
use super::{LockOn, STATEMENT_LEN_MAX};
use crate::moment::{Moment, Origin, Row, is_of_pgweir};
use crate::statement::ddl;
use crate::tags::Tags;
use crate::tree::first_blocker;

/// A chain of blockers.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitChain {
    /// From the blocker nearest to the pool's servers to the root, which is the last.
    pub links: Vec<Link>,
    /// Servers of the pool that wait behind this root.
    pub behind: u32,
    /// The servers wait in a circle, of which PostgreSQL ends one. The chain has no links then.
    pub is_deadlock: bool,
}

/// One blocker.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    pub who: LinkOwner,
    /// The server on which it is: `db1:5432`.
    pub server: Option<Arc<str>>,
    pub application_name: String,
    /// The client's address at PostgreSQL or at the pooler; `None`: a Unix socket, or not known.
    pub client_addr: Option<String>,
    pub tags: Tags,
    /// `ALTER TABLE`: its statement locks tables.
    pub command: Option<&'static str>,
    /// The beginning of its statement, without constants.
    pub statement: String,
    /// The lock for which the link before this one waits.
    pub holds: Option<LockOn>,
    pub state: LinkState,
    /// The age of its transaction.
    pub transaction: Option<Duration>,
}

/// The owner of a blocker.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkOwner {
    /// A client of the pooler, by its id of SHOW CLIENTS.
    Session {
        client: i32,
        pool: PoolKey,
    },
    /// A connection to PostgreSQL past the pooler.
    Direct {
        pid: i32,
        user: String,
    },
    /// `None`: its gid could not be read.
    Prepared(Option<Prepared>),
    /// `prevents_wraparound`: it does not give way to others.
    Autovacuum {
        pid: i32,
        prevents_wraparound: bool,
    },
    /// A server of the pooler whose client has gone, and that still runs its statement or is in its transaction.
    Abandoned {
        pid: i32,
    },
    /// A server of the pooler that got another client while it was looked at: its transaction is shorter than [`super::LONG_WAIT`].
    Changed,
    WalSender {
        pid: i32,
    },
    /// Another process of PostgreSQL's own, by its `backend_type`.
    Process {
        pid: i32,
        kind: String,
    },
    /// A backend whose row PostgreSQL hides from the observer's role.
    Unseen {
        pid: i32,
    },
}

/// The state of a blocker.
#[derive(Clone, Debug, PartialEq)]
pub enum LinkState {
    /// It has waited for this lock for this time.
    Waits(LockOn, Duration),
    /// Its client has been idle in its transaction for this time.
    Idle(Duration),
    /// Its statement has run for this time.
    Runs(Duration),
    /// It does nothing, or its state is not known.
    Other,
}

impl WaitChain {
    #[must_use]
    pub fn root(&self) -> Option<&Link> {
        self.links.last()
    }

    pub(super) fn is_root_in_pool(&self, key: &PoolKey) -> bool {
        self.root().is_some_and(|root| matches!(&root.who, LinkOwner::Session { pool, .. } if pool == key))
    }
}

/// The end of a chain.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Root(i32),
    /// The least id in the circle.
    Circle(i32),
}

/// Servers that wait behind one root.
#[derive(Default)]
struct Group {
    count: u32,
    waited: Duration,
    /// By those who are named between them and the root, the root too.
    paths: BTreeMap<Vec<i32>, Vec<i32>>,
}

/// The chain behind which most of these rows wait. Between two equal chains the longer wait decides. `None`: no row has a blocker.
pub(super) fn main(index: &Index<'_>, key: &PoolKey, rows: &[&Row]) -> Option<WaitChain> {
    let mut groups: BTreeMap<(u16, End), Group> = BTreeMap::new();
    for row in rows {
        let (Some(host), Some(pid), Some(waiter)) = (row.host, row.pid(), &row.waiter) else { continue };
        let Some((path, end)) = path(&index.moment.hosts[usize::from(host)].blocking, pid) else { continue };
        let group = groups.entry((host, end)).or_default();
        group.count += 1;
        group.waited += waiter.waiting;
        group.paths.entry(named(index, key, host, &path)).or_default().push(pid);
    }
    let ((host, end), group) =
        groups.into_iter().max_by_key(|(place, group)| (group.count, group.waited, Reverse(*place)))?;
    let (path, waiters) = group.paths.into_iter().max_by_key(|(path, waiters)| (waiters.len(), Reverse(path.len())))?;
    let is_deadlock = matches!(end, End::Circle(_));
    let mut links = Vec::new();
    let mut before = waiters.first().copied();
    for pid in path.into_iter().filter(|_| !is_deadlock) {
        links.push(link_of(index, host, pid, before));
        before = Some(pid);
    }
    Some(WaitChain { links, behind: group.count, is_deadlock })
}

/// All blockers of a waiter, from the nearest. `None`: its blocker released the lock while the rows were read.
fn path(blocking: &Blocking, waiter: i32) -> Option<(Vec<i32>, End)> {
    let mut path = Vec::new();
    let mut last = waiter;
    while let Some(waits) = blocking.waiter(last) {
        let next = first_blocker(blocking, waits)?.pid;
        if next == waiter || path.contains(&next) {
            let least = path.iter().copied().chain([waiter]).min().unwrap_or(next);
            return Some((Vec::new(), End::Circle(least)));
        }
        path.push(next);
        last = next;
    }
    Some((path, End::Root(last)))
}

/// The part of a path that the sentence names. A client of the same pool that waits for a row is a victim as the others are: it is in the
/// queue for the row before them. DDL is what makes a queue of others, and is named.
fn named(index: &Index<'_>, key: &PoolKey, host: u16, path: &[i32]) -> Vec<i32> {
    let is_victim = |pid: i32| {
        let row = index.backend(host, pid).filter(|row| row.waiter.is_some() && has_server_of(row, key));
        row.is_some_and(|row| row.statement().and_then(ddl).is_none())
    };
    let last = path.len().saturating_sub(1);
    let kept = path.iter().enumerate().filter(|(at, pid)| *at == last || !is_victim(**pid));
    kept.map(|(_, pid)| *pid).collect()
}

fn link_of(index: &Index<'_>, host: u16, pid: i32, before: Option<i32>) -> Link {
    let seen = &index.moment.hosts[usize::from(host)];
    let waiter = before.and_then(|before| seen.blocking.waiter(before));
    // Whoever is left out of the path stands between them: then the lock is that of another waiter.
    let in_way = |waiter: &&Waiter| waiter.blockers.iter().any(|blocker| blocker.pid == pid);
    let waiter = waiter
        .filter(in_way)
        .or_else(|| seen.blocking.behind(pid).filter_map(|next| seen.blocking.waiter(next)).find(in_way));
    match index.backend(host, pid) {
        Some(row) => link(index.moment, row, waiter),
        None => Link {
            who: if is_prepared(pid) {
                LinkOwner::Prepared(seen.prepared.get(&pid).cloned())
            } else {
                LinkOwner::Unseen { pid }
            },
            server: Some(Arc::clone(&seen.address)),
            application_name: String::new(),
            client_addr: None,
            tags: Tags::default(),
            command: None,
            statement: String::new(),
            holds: waiter.and_then(|waiter| holds(pid, waiter)),
            state: LinkState::Other,
            transaction: None,
        },
    }
}

/// `waiter`: one that waits behind it.
pub(super) fn link(moment: &Moment, row: &Row, waiter: Option<&Waiter>) -> Link {
    let (session, backend) = (row.session.as_ref(), row.backend.as_ref());
    let statement = row.statement().unwrap_or_default();
    let application = session.map(|session| session.application_name.clone());
    let application = application.or_else(|| backend?.application_name.clone());
    let peer = session.map(|session| match session.peer {
        machine::Peer::Tcp { from, .. } => Some(from.ip().to_string()),
        machine::Peer::Unix { .. } => None,
    });
    let ages = backend.map(|backend| backend.ages).unwrap_or_default();
    let state = match (&row.waiter, backend.and_then(|backend| backend.state)) {
        (Some(waits), _) => {
            let object = &waits.object;
            let on = LockOn { mode: waits.mode, kind: Arc::clone(&object.kind), name: object.name.clone() };
            LinkState::Waits(on, waits.waiting)
        }
        _ if idle(row) > Duration::ZERO || row.is_idle_in_transaction() => LinkState::Idle(idle(row)),
        (None, Some(State::Active | State::FastpathFunctionCall)) => {
            ages.query.map_or(LinkState::Other, LinkState::Runs)
        }
        _ => LinkState::Other,
    };
    Link {
        who: who(moment, row),
        server: moment.host(row).map(|host| Arc::clone(&host.address)),
        application_name: application.unwrap_or_default(),
        client_addr: peer.unwrap_or_else(|| backend?.client_addr.clone()),
        tags: row.tags.clone(),
        command: ddl(statement).map(|ddl| ddl.command),
        statement: sql::redacted_by_any_rules(statement.as_bytes(), STATEMENT_LEN_MAX),
        holds: row.pid().zip(waiter).and_then(|(pid, waiter)| holds(pid, waiter)),
        state,
        transaction: ages.transaction.or_else(|| session?.times.transaction),
    }
}

fn who(moment: &Moment, row: &Row) -> LinkOwner {
    if let Some(session) = &row.session {
        return LinkOwner::Session { client: session.id.serial.0, pool: session.pool.clone() };
    }
    let pid = row.pid().unwrap_or_default();
    if is_prepared(pid) {
        return LinkOwner::Prepared(moment.host(row).and_then(|host| host.prepared.get(&pid)).cloned());
    }
    // A server that is being reset may still hold what its last client has locked.
    let is_reset = || row.origin == Origin::Own && !row.backend.as_deref().is_some_and(is_of_pgweir);
    if row.origin == Origin::Server || is_reset() {
        let age = row.backend.as_ref().and_then(|backend| backend.ages.transaction.or(backend.ages.query));
        let is_young = age.is_some_and(|age| age < super::LONG_WAIT);
        return if is_young { LinkOwner::Changed } else { LinkOwner::Abandoned { pid } };
    }
    let backend = row.backend.as_ref();
    match backend.and_then(|backend| backend.kind.as_deref()) {
        Some("client backend") => {
            LinkOwner::Direct { pid, user: backend.and_then(|backend| backend.user.clone()).unwrap_or_default() }
        }
        Some("autovacuum worker") => LinkOwner::Autovacuum {
            pid,
            prevents_wraparound: backend.is_some_and(|backend| backend.prevents_wraparound()),
        },
        Some("walsender") => LinkOwner::WalSender { pid },
        Some(kind) => LinkOwner::Process { pid, kind: kind.to_owned() },
        None => LinkOwner::Unseen { pid },
    }
}

/// The lock with which it is in the way of that waiter.
fn holds(pid: i32, waiter: &Waiter) -> Option<LockOn> {
    let blocker = waiter.blockers.iter().find(|blocker| blocker.pid == pid)?;
    Some(LockOn { mode: blocker.mode, kind: Arc::clone(&waiter.object.kind), name: waiter.object.name.clone() })
}
