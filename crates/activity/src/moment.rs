//! One moment: all that was busy then, at the pooler and at PostgreSQL.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use observe::{Backend, Blocking, Counts, Prepared, State, WaitEvent, Waiter, pid_shown};
use units::PoolKey;

use crate::session::Session;
use crate::tags::Tags;

/// Milliseconds since 1970, as the wall clock had it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct At(pub u64);

impl At {
    #[must_use]
    pub fn second(self) -> u64 {
        self.0 / 1000
    }
}

/// What was seen at one moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    pub at: At,
    pub hosts: Vec<Host>,
    /// Those that wait for the pooler first, longest first; then by host and pid.
    pub rows: Vec<Row>,
    pub pools: BTreeMap<PoolKey, Pool>,
}

/// A PostgreSQL server, and how much of it was seen.
#[derive(Clone, Debug, Default)]
pub struct Host {
    /// As in the configuration: `db1:5432`.
    pub address: Arc<str>,
    pub view: View,
    pub blocking: Blocking,
    /// Prepared transactions that hold locks which somebody waits for, by their id in `blocking`.
    pub prepared: BTreeMap<i32, Prepared>,
    /// The last time they were counted.
    pub locks: Option<LockCounts>,
}

/// How much of a server was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// It has answered, after so long.
    Whole(Duration),
    /// So did it, but does not tell our role what others do: `GRANT pg_monitor` shows it.
    Partial(Duration),
    /// It has not, and why.
    None(String),
    /// Nobody asks it.
    #[default]
    Off,
}

/// The locks of a server, and when they were counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockCounts {
    pub at: At,
    pub counts: Counts,
}

/// What a pool had at that moment, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    pub clients: u32,
    pub waiting: u32,
    pub oldest_wait: Duration,
    pub servers_active: u32,
    pub servers_idle: u32,
    pub servers_login: u32,
    /// What `pool_size = auto` has found, where it is asked for.
    pub auto_size: Option<u32>,
    /// Since the start.
    pub transactions: u64,
    pub queries: u64,
    pub received: u64,
    pub sent: u64,
    pub wait_us: u64,
    /// Microseconds that the clients that wait now have waited, summed.
    pub waiting_us: u64,
    /// Of those who wait, so many in each class.
    pub waiting_by_class: BTreeMap<Arc<str>, u32>,
    /// The last deadlock that PostgreSQL ended with an error for a client of this pool.
    pub deadlock: Option<EndedDeadlock>,
    /// The state of each host, in words, while no host of its database can be used.
    pub held_for: Option<Arc<str>>,
}

/// A deadlock that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedDeadlock {
    /// The time since its end.
    pub ago: Duration,
    /// The client whose statement was ended, by its id of SHOW CLIENTS.
    pub client: i32,
    pub application_name: String,
}

/// A client that waits, a server, or a stranger to the pooler.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its place in [`Moment::hosts`]; `None`: it has no server.
    pub host: Option<u16>,
    pub backend: Option<Arc<Backend>>,
    pub session: Option<Session>,
    pub origin: Origin,
    pub tags: Tags,
    /// Which lock it waits for, and behind whom.
    pub waiter: Option<Waiter>,
    /// How many wait behind it, directly or through others.
    pub behind: usize,
}

/// Whose a row is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client of the pooler.
    Client,
    /// A server of the pooler that no client has at this moment.
    Server,
    /// Not the pooler's: it has come to PostgreSQL past it, or is a process of PostgreSQL's own.
    Stranger,
    /// A connection that runs a statement of pgweir's own: an observer, `pgweir doctor`, or a server that is reset, checked or set up.
    Own,
}

impl Origin {
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Origin::Client => "client",
            Origin::Server => "server",
            Origin::Stranger => "stranger",
            Origin::Own => "pgweir",
        }
    }
}

/// The names with which pgweir itself connects to PostgreSQL, this process or another one.
const OWN_NAMES: [&str; 3] = ["pgweir observer", "pgweir doctor", "pgweir run"];

pub(crate) fn is_of_pgweir(backend: &Backend) -> bool {
    backend.application_name.as_deref().is_some_and(|name| OWN_NAMES.contains(&name))
}

/// The pooler's own class of wait events: who waits for a server waits for this.
pub const POOL_WAIT: (&str, &str) = ("Pool", "Server");

/// What a backend that runs and waits for nothing does.
pub const CPU: (&str, &str) = ("CPU", "CPU");

/// Whether a process waits for something to do: WAL senders and other processes of PostgreSQL are `active` then, too.
//= pg18 monitoring-stats#WAIT-EVENT-ACTIVITY-TABLE
fn is_for_work(wait: &WaitEvent) -> bool {
    // A logical WAL sender's is of class Client. Its last letters depend on the version.
    wait.class == "Activity" || wait.event.eq_ignore_ascii_case("WalSenderWaitForWal")
}

impl Row {
    /// The process id, or a prepared transaction's id: a row's name within its host.
    #[must_use]
    pub fn pid(&self) -> Option<i32> {
        self.backend.as_ref().map(|backend| backend.pid)
    }

    /// The process id for a person to see: 0 for a prepared transaction.
    #[must_use]
    pub fn pid_shown(&self) -> Option<i32> {
        self.pid().map(pid_shown)
    }

    /// PostgreSQL's word for what its backend does, or `waiting` for a server.
    #[must_use]
    pub fn state(&self) -> Option<&'static str> {
        match &self.backend {
            Some(backend) => backend.state.map(State::word),
            None => self.session.as_ref().and_then(|session| session.times.waiting).map(|_| "waiting"),
        }
    }

    /// What it waits for, if anything is to be done for it now: class and event.
    #[must_use]
    pub fn wait(&self) -> Option<(&str, &str)> {
        if self.session.as_ref().is_some_and(|session| session.times.waiting.is_some()) {
            return Some(POOL_WAIT);
        }
        let backend = self.backend.as_ref()?;
        match (backend.state?, &backend.wait) {
            (State::Active | State::FastpathFunctionCall, None) => Some(CPU),
            (State::Idle | State::Disabled | State::Other, _) | (_, None) => None,
            (_, Some(wait)) if is_for_work(wait) => None,
            (_, Some(WaitEvent { class, event })) => Some((class, event)),
        }
    }

    /// The client's, or else the backend's.
    #[must_use]
    pub fn application_name(&self) -> Option<&str> {
        let session = self.session.as_ref().map(|session| &*session.application_name);
        session.or_else(|| self.backend.as_ref()?.application_name.as_deref())
    }

    /// For how long its client has waited for what it waits for now, as far as that is known.
    #[must_use]
    pub fn waiting(&self) -> Option<Duration> {
        let session = self.session.as_ref().and_then(|session| session.times.waiting);
        session.or_else(|| Some(self.waiter.as_ref()?.waiting))
    }

    /// Its statement, running, last, or held while it waits.
    #[must_use]
    pub fn statement(&self) -> Option<&str> {
        match &self.backend {
            Some(backend) => backend.query.as_deref(),
            None => self.session.as_ref()?.text.as_deref(),
        }
    }

    #[must_use]
    pub fn is_idle_in_transaction(&self) -> bool {
        self.backend.as_ref().and_then(|backend| backend.state).is_some_and(State::is_idle_in_transaction)
    }
}

impl Moment {
    #[must_use]
    pub fn host(&self, row: &Row) -> Option<&Host> {
        self.hosts.get(usize::from(row.host?))
    }

    /// The row of a backend of a host.
    #[must_use]
    pub fn row(&self, host: u16, pid: i32) -> Option<&Row> {
        self.rows.iter().find(|row| row.host == Some(host) && row.pid() == Some(pid))
    }
}
