//! Joins what the pooler and what PostgreSQL know: by the backend's pid.
//!
//! ```text
//!   Reading    a host's backends and locks ─┐ pid
//!                                           ├──► Row: client, tags, queue, statement, wait event, blocker
//!   Snapshot   servers ─── link ─── clients ┘
//! ```
//!
//! A reading is older than the snapshots: by some milliseconds, or by seconds where a host may rest. A session that has had its server for less
//! than that was not the one that PostgreSQL told of: both have a row of their own then. A pid means a backend of a host only together with its
//! age: a name may stand for several machines, and pids come again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use connections::databases::Host as HostName;
use machine::snapshot::{PoolSnapshot, ServerSnapshot};
use machine::{Settings, Snapshot};
use observe::{Ages, Backend, Blocking, Lock, Prepared, is_prepared};
use units::ConnId;

use crate::moment::{At, EndedDeadlock, Host, LockCounts, Moment, Origin, Pool, Row, View, is_of_pgweir};
use crate::session::Session;
use crate::tags::Tags;

/// What one host has said.
#[derive(Clone, Debug)]
pub struct Reading {
    pub address: Arc<str>,
    /// Or why it has not.
    pub answer: Result<Answer, String>,
}

/// The answers to one round of questions.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub backends: Vec<Backend>,
    /// Of all that somebody waits for; empty: nobody waits, or nobody has asked.
    pub locks: Vec<Lock>,
    /// The prepared transactions among the holders of these locks, by [`Lock::pid`].
    pub prepared: BTreeMap<i32, Prepared>,
    pub counts: Option<LockCounts>,
    /// From the questions to the answers.
    pub took: Duration,
    /// From the questions to the snapshots.
    pub age: Duration,
}

impl Answer {
    /// Whether the role that asks is not told what others do.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.backends.iter().any(|backend| backend.query.as_deref() == Some(HIDDEN))
    }
}

/// Without a reading it is the pooler's half.
#[must_use]
pub fn join(at: At, readings: Vec<Reading>, snapshots: &[Snapshot], settings: &Settings) -> Moment {
    let mut sessions = sessions(snapshots, settings);
    let mut moment = Moment { at, pools: pools(snapshots, settings), ..Moment::default() };
    let mut servers: BTreeMap<(String, i32), (&ServerSnapshot, Duration)> = BTreeMap::new();
    let ago = |snapshot: &Snapshot, server: &ServerSnapshot| snapshot.now.since(server.times.connected_at);
    for (snapshot, server) in
        snapshots.iter().flat_map(|snapshot| snapshot.servers.iter().map(move |server| (snapshot, server)))
    {
        servers.insert((server.ends.host.to_string(), server.remote_pid), (server, ago(snapshot, server)));
    }
    for reading in readings {
        let host = u16::try_from(moment.hosts.len()).expect("fewer hosts than that are configured");
        let (seen, answer) = host_of(&reading);
        let age = answer.age;
        for backend in answer.backends.into_iter().filter(|backend| !is_at_rest(backend, &seen.blocking)) {
            let name = (reading.address.to_string(), backend.pid);
            let is_it = servers.get(&name).is_some_and(|(server, connected)| is_one(&backend, age, server, *connected));
            let server = servers.remove(&name).filter(|_| is_it).map(|(server, _)| server);
            let conn = server.and_then(|server| Some(server.link?.conn));
            let was_there = |session: &&Session| session.times.has_server_since().is_none_or(|since| since >= age);
            let conn = conn.filter(|conn| sessions.get(conn).as_ref().is_some_and(was_there));
            let session = conn.and_then(|conn| sessions.remove(&conn));
            let origin = match (&session, server) {
                (Some(_), _) => Origin::Client,
                (None, Some(server)) if IS_PREPARED.contains(&server.state) => Origin::Own,
                (None, Some(_)) => Origin::Server,
                (None, None) if is_of_pgweir(&backend) => Origin::Own,
                (None, None) => Origin::Stranger,
            };
            let tags = Tags::of(backend.query.as_deref().unwrap_or_default().as_bytes());
            // Locks may have been read at another time. The leader of a parallel query waits for its workers, and these for the lock.
            let waits_for = |wait: &observe::WaitEvent| wait.class == "Lock" || wait.class == "IPC";
            let waits = backend.state.is_none() || backend.wait.as_ref().is_some_and(waits_for);
            let waiter = seen.blocking.waiter(backend.pid).filter(|_| waits).cloned();
            let behind = seen.blocking.count_behind(backend.pid);
            let row = Row { host: Some(host), backend: Some(Arc::new(backend)), session, origin, tags, waiter, behind };
            moment.rows.push(row);
        }
        moment.rows.extend(prepared(host, &seen));
        moment.hosts.push(seen);
    }
    // Those that wait, and those whose host has not answered.
    for session in sessions.into_values() {
        let tags = Tags::of(session.text.as_deref().unwrap_or_default().as_bytes());
        let session = Some(session);
        let row = Row { host: None, backend: None, session, origin: Origin::Client, tags, waiter: None, behind: 0 };
        moment.rows.push(row);
    }
    moment.rows.sort_by_key(|row| {
        let waiting = row.session.as_ref().and_then(|session| session.times.waiting);
        (std::cmp::Reverse(waiting), row.host, row.pid())
    });
    moment
}

/// States of SHOW SERVERS in which the pooler runs statements of its own on a server: it sets the server up, or resets or checks it.
const IS_PREPARED: [&str; 2] = ["new", "tested"];

/// Whether a backend and a server of the pooler's can be of one connection, by their ages: a backend that is younger has the pid of one that has
/// ended. One that is older counts only behind a name, where it may be another machine's: else PostgreSQL's clock was put forward, or a machine
/// has slept. A role without rights is told no ages.
fn is_one(backend: &Backend, reading_age: Duration, server: &ServerSnapshot, connected: Duration) -> bool {
    let Some(age) = backend.ages.backend else { return true };
    let age = age + reading_age;
    let may_be_older = !matches!(server.ends.host.host, HostName::Name(_));
    connected <= age + STARTS_WITHIN && (may_be_older || age <= connected + CLOCKS_DIFFER)
}

/// A backend's age is counted by PostgreSQL, and a reading's from before its question.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3);
/// A backend starts when its connection is accepted, which a busy server does late.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// The prepared transactions that others wait for: each is a row, and no backend has it.
//= pg18 view-pg-prepared-xacts
fn prepared(host: u16, seen: &Host) -> Vec<Row> {
    let roots = seen.blocking.roots().into_iter().filter(|pid| is_prepared(*pid));
    let row = |pid: i32| {
        let kind = Some("prepared transaction".to_owned());
        let backend = match seen.prepared.get(&pid) {
            Some(Prepared { gid, owner, database, age }) => {
                let ages = Ages { transaction: Some(*age), ..Ages::default() };
                let (database, user) = (Some(database.clone()), Some(owner.clone()));
                // What made it: a name for it among statements.
                let query = Some(format!("PREPARE TRANSACTION '{}'", gid.replace('\'', "''")));
                Backend { pid, kind, database, user, ages, query, ..Backend::default() }
            }
            None => Backend { pid, kind, ..Backend::default() },
        };
        let (backend, tags, behind) = (Some(Arc::new(backend)), Tags::default(), seen.blocking.count_behind(pid));
        Row { host: Some(host), backend, session: None, origin: Origin::Stranger, tags, waiter: None, behind }
    };
    roots.map(row).collect()
}

/// A process of PostgreSQL's own that does nothing for anybody now, such as the checkpointer.
fn is_at_rest(backend: &Backend, blocking: &Blocking) -> bool {
    let is_own = backend.kind.as_deref().is_some_and(|kind| kind != "client backend");
    is_own && backend.state.is_none() && blocking.count_behind(backend.pid) == 0
}

fn sessions(snapshots: &[Snapshot], settings: &Settings) -> BTreeMap<ConnId, Session> {
    let of = |snapshot: &Snapshot| -> Vec<(ConnId, Session)> {
        let clients = snapshot.clients.iter();
        clients.filter_map(|client| Some((client.conn, Session::of(client, snapshot, settings)?))).collect()
    };
    snapshots.iter().flat_map(of).collect()
}

fn host_of(reading: &Reading) -> (Host, Answer) {
    let address = Arc::clone(&reading.address);
    match &reading.answer {
        Err(why) => (Host { address, view: View::None(why.clone()), ..Host::default() }, Answer::default()),
        Ok(answer) => {
            let view = if answer.is_partial() { View::Partial(answer.took) } else { View::Whole(answer.took) };
            let (blocking, prepared) = (Blocking::of(&answer.locks), answer.prepared.clone());
            let host = Host { address, view, blocking, prepared, locks: answer.counts.clone() };
            (host, answer.clone())
        }
    }
}

/// What a role is shown as another's statement without the right to see it.
//= pg18 monitoring-stats#MONITORING-STATS-VIEWS
const HIDDEN: &str = "<insufficient privilege>";

fn pools(snapshots: &[Snapshot], settings: &Settings) -> BTreeMap<units::PoolKey, Pool> {
    let mut pools: BTreeMap<units::PoolKey, Pool> = BTreeMap::new();
    for snapshot in snapshots {
        for part in &snapshot.pools {
            let pool = pools.entry(part.key.clone()).or_default();
            add(pool, part, settings);
            let ended = part.deadlocks.last.as_ref().map(|victim| EndedDeadlock {
                ago: snapshot.now.since(victim.at),
                client: victim.client.0,
                application_name: victim.application_name.clone(),
            });
            pool.deadlock = pool.deadlock.take().into_iter().chain(ended).min_by_key(|ended| ended.ago);
        }
    }
    pools
}

fn add(pool: &mut Pool, part: &PoolSnapshot, settings: &Settings) {
    pool.clients = pool.clients.saturating_add(part.clients.active).saturating_add(part.clients.waiting);
    pool.waiting = pool.waiting.saturating_add(part.clients.waiting);
    pool.oldest_wait = pool.oldest_wait.max(Duration::from_micros(part.maxwait_us));
    let servers = &part.servers;
    let active = servers.active.saturating_add(servers.being_canceled).saturating_add(servers.active_cancel);
    pool.servers_active = pool.servers_active.saturating_add(active);
    let idle = servers.idle.saturating_add(servers.used).saturating_add(servers.tested);
    pool.servers_idle = pool.servers_idle.saturating_add(idle);
    pool.servers_login = pool.servers_login.saturating_add(servers.login);
    if pool.held_for.is_none() {
        pool.held_for.clone_from(&part.held_for);
    }
    pool.auto_size = part.sizing.as_ref().map(|sizing| sizing.size).or(pool.auto_size);
    let totals = &part.totals;
    for (sum, more) in [
        (&mut pool.transactions, totals.transactions),
        (&mut pool.queries, totals.queries),
        (&mut pool.received, totals.received),
        (&mut pool.sent, totals.sent),
        (&mut pool.wait_us, totals.wait_us),
        (&mut pool.waiting_us, part.waiting_us),
    ] {
        *sum = sum.saturating_add(more);
    }
    let mut in_classes = 0_u32;
    for class in part.classes.iter().filter(|class| class.waiting > 0) {
        let name = settings.classes.class(class.class).name.clone();
        let count = pool.waiting_by_class.entry(name).or_default();
        *count = count.saturating_add(class.waiting);
        in_classes = in_classes.saturating_add(class.waiting);
    }
    let others = part.clients.waiting.saturating_sub(in_classes);
    if others > 0 {
        let name = settings.classes.class(queueing::classes::ClassId::default()).name.clone();
        let count = pool.waiting_by_class.entry(name).or_default();
        *count = count.saturating_add(others);
    }
}
