//! The input of every `SHOW`: settings, snapshots, averages, and the time of day, at one moment.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use activity::History;
use connections::databases::{CONSOLE_DATABASE, Database, Host};
use jiff::Zoned;
use machine::peering::PeerPool;
use machine::snapshot::PoolSnapshot;
use machine::{Settings, Snapshot};
use settings::PoolMode;
use units::{ConnId, PoolId, PoolKey, Time};

use crate::averages::Averages;
use crate::plane::{DoorFacts, Exemplars, HostsSeen, KnownNames, SettingRow, WorkerFacts};

/// How detailed the workers' snapshots are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Detail {
    Nothing,
    Pools,
    /// Each server, and each client that has one or waits.
    Busy,
    /// Each client and server.
    Connections,
    /// What is counted of statements.
    Statements,
}

/// Everything a `SHOW` may use.
#[derive(Debug)]
pub struct ShowInput<'a> {
    pub settings: &'a Settings,
    pub rows: &'a [SettingRow],
    pub listen_port: u16,
    pub snapshots: &'a [Snapshot],
    /// How detailed the snapshots are. It cannot be told from them: the lists of detailed snapshots are empty, too,
    /// where there is no client and no server.
    pub detail: Detail,
    pub workers: &'a [WorkerFacts],
    pub averages: &'a Averages,
    /// Names of servers' hosts that are known.
    pub names: &'a KnownNames,
    /// The last probe of each host, and its role in Patroni.
    pub hosts_seen: &'a HostsSeen,
    pub door: DoorFacts,
    pub peer_pools: &'a [PeerPool],
    pub exemplars: &'a Exemplars,
    /// Lines of the log that were lost.
    pub log_lines_lost: u64,
    /// What sessions and PostgreSQL's backends did, up to the last look.
    pub history: &'a History,
    /// Whether clients' statements may be shown: to an administrator only.
    pub shows_statements: bool,
    /// The time of day when the snapshots were taken.
    pub now: Zoned,
    /// What [`ShowInput::pools`] has made of the snapshots: a page of metrics needs it many times.
    pub pools: OnceCell<BTreeMap<PoolKey, PoolSnapshot>>,
}

impl ShowInput<'_> {
    /// How many clients and servers there are, if the snapshots list each connection ([`Detail::Connections`]).
    pub(crate) fn connections(&self) -> (usize, usize) {
        let clients = self.snapshots.iter().map(|snapshot| snapshot.clients.len()).sum();
        (clients, self.snapshots.iter().map(|snapshot| snapshot.servers.len()).sum())
    }

    /// The moment of the snapshots, on the data plane's clock.
    #[must_use]
    pub(crate) fn now_in_snapshots(&self) -> Time {
        self.snapshots.iter().map(|snapshot| snapshot.now).max().unwrap_or_default()
    }

    /// Each pool once, by database and user, summed over the workers it lives on. The console's pool is always there.
    #[must_use]
    pub(crate) fn pools(&self) -> &BTreeMap<PoolKey, PoolSnapshot> {
        self.pools.get_or_init(|| self.summed())
    }

    fn summed(&self) -> BTreeMap<PoolKey, PoolSnapshot> {
        let mut sums: BTreeMap<PoolKey, PoolSnapshot> = BTreeMap::new();
        for part in self.snapshots.iter().flat_map(|snapshot| &snapshot.pools) {
            let part = as_shown(part);
            match sums.get_mut(&part.key) {
                Some(sum) => add(sum, &part),
                None => drop(sums.insert(part.key.clone(), part)),
            }
        }
        // Workers do not count the console's clients. There is at least one: the one that asks.
        let on_console = self.snapshots.iter().flat_map(|snapshot| &snapshot.clients);
        let on_console = on_console.filter(|client| *client.key.database == *CONSOLE_DATABASE).count();
        let console = sums.entry(console_key()).or_insert_with(console_pool);
        console.clients.active = console.clients.active.max(u32::try_from(on_console).unwrap_or(u32::MAX)).max(1);
        sums
    }

    /// Each database once: the configured ones, those made from `*` that have a pool, and the console's (`None`).
    #[must_use]
    pub(crate) fn databases(&self) -> BTreeMap<String, Option<Arc<Database>>> {
        let mut databases: BTreeMap<_, _> =
            self.settings.databases.iter().map(|(name, database)| (name.clone(), Some(database.clone()))).collect();
        for key in self.pools().keys() {
            if let Some(database) = self.settings.database(&key.database) {
                databases.entry(key.database.to_string()).or_insert(Some(database));
            }
        }
        databases.insert(CONSOLE_DATABASE.to_owned(), None);
        databases
    }
}

/// The servers of a pool in all states.
#[must_use]
pub(crate) fn servers(pool: &PoolSnapshot) -> u32 {
    let states = [
        pool.servers.active,
        pool.servers.active_cancel,
        pool.servers.being_canceled,
        pool.servers.idle,
        pool.servers.used,
        pool.servers.tested,
        pool.servers.login,
    ];
    states.iter().fold(0, |sum, count| sum.saturating_add(*count))
}

/// The clients of a pool in all states.
#[must_use]
pub(crate) fn clients(pool: &PoolSnapshot) -> u32 {
    pool.clients.active.saturating_add(pool.clients.waiting)
}

/// A connection's name in the `ptr` and `link` columns.
#[derive(Copy, Clone)]
pub(crate) struct Pointer(pub(crate) ConnId);

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0.to_bits())
    }
}

/// The same as a text.
#[must_use]
pub(crate) fn pointer(conn: ConnId) -> String {
    Pointer(conn).to_string()
}

/// The hosts as in the configuration.
#[must_use]
pub(crate) fn hosts(database: &Database) -> String {
    let names: Vec<_> = database.hosts.iter().map(|address| host(&address.host)).collect();
    names.join(",")
}

/// `None` for a single host, which is not balanced.
#[must_use]
pub(crate) fn load_balance_hosts(database: &Database) -> Option<String> {
    (database.hosts.len() > 1).then(|| database.load_balance_hosts.as_str().to_owned())
}

pub(crate) fn host(host: &Host) -> String {
    match host {
        Host::Unix(directory) => directory.clone(),
        Host::Ip(ip) => ip.to_string(),
        Host::Name(name) => name.clone(),
    }
}

/// Whole seconds; 0 for a limit that is off.
#[must_use]
pub(crate) fn seconds(span: Option<Duration>) -> u64 {
    span.map_or(0, |span| span.as_secs())
}

/// All administrators share one pool of the console, as in PgBouncer.
fn as_shown(pool: &PoolSnapshot) -> PoolSnapshot {
    let mut shown = pool.clone();
    if *pool.key.database == *CONSOLE_DATABASE {
        (shown.key, shown.mode) = (console_key(), PoolMode::Statement);
    }
    shown
}

fn console_key() -> PoolKey {
    PoolKey { database: CONSOLE_DATABASE.into(), user: CONSOLE_DATABASE.into() }
}

fn console_pool() -> PoolSnapshot {
    // No worker has a pool with this id; it is not shown.
    PoolSnapshot::new(PoolId(u32::MAX), console_key(), PoolMode::Statement)
}

fn add(sum: &mut PoolSnapshot, part: &PoolSnapshot) {
    let counts = [
        (&mut sum.clients.active, part.clients.active),
        (&mut sum.clients.waiting, part.clients.waiting),
        (&mut sum.clients.active_cancel_req, part.clients.active_cancel_req),
        (&mut sum.clients.waiting_cancel_req, part.clients.waiting_cancel_req),
        (&mut sum.servers.active, part.servers.active),
        (&mut sum.servers.active_cancel, part.servers.active_cancel),
        (&mut sum.servers.being_canceled, part.servers.being_canceled),
        (&mut sum.servers.idle, part.servers.idle),
        (&mut sum.servers.used, part.servers.used),
        (&mut sum.servers.tested, part.servers.tested),
        (&mut sum.servers.login, part.servers.login),
    ];
    for (count, more) in counts {
        *count = count.saturating_add(more);
    }
    sum.open_servers = sum.open_servers.saturating_add(part.open_servers);
    sum.closing_servers = sum.closing_servers.saturating_add(part.closing_servers);
    sum.maxwait_us = sum.maxwait_us.max(part.maxwait_us);
    sum.waiting_us = sum.waiting_us.saturating_add(part.waiting_us);
    sum.totals.add(&part.totals);
    sum.spans.add(&part.spans);
    let (fidelity, more) = (&mut sum.fidelity, &part.fidelity);
    fidelity.fidelity = fidelity.fidelity.or(more.fidelity);
    fidelity.names = fidelity.names.max(more.names);
    fidelity.pinned = fidelity.pinned.saturating_add(more.pinned);
    fidelity.waiting = fidelity.waiting.saturating_add(more.waiting);
    fidelity.counts.add(&more.counts);
    if sum.held_for.is_none() {
        sum.held_for.clone_from(&part.held_for);
    }
    if sum.sizing.is_none() {
        sum.sizing.clone_from(&part.sizing);
    }
}
