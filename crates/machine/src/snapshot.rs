//! What SHOW … is made of: a worker's own account of itself, as values.

use std::net::SocketAddr;
use std::sync::Arc;

use connections::databases::Address;
use queueing::classes::{ClassId, LimitKind};
use queueing::queue::ClassCounts;
use queueing::refusals::RefusalCounts;
use queueing::sizing::SizingSnapshot;
use session_state::catalogue::CatalogueProgress;
use session_state::state::{PinSnapshot, Pins};
use settings::{Fidelity, PoolMode};
use units::{ConnId, PoolId, PoolKey, Serial, Time, WorkerId};

use crate::histogram::{Histogram, Spans};
use crate::observe::Peer;
use crate::primaries::Primary;
use crate::replication::ReplicationKind;
use crate::upstreams::Upstream;

/// What a snapshot has besides the worker's own figures and those of its pools.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Nothing.
    Pools,
    /// All servers, and of the clients only those that have a server, and in each pool the [`WAITING_SHOWN_MAX`] that
    /// have waited longest. It costs next to nothing for clients that are idle.
    ///
    /// [`WAITING_SHOWN_MAX`]: units::limits::WAITING_SHOWN_MAX
    Busy,
    /// All clients and servers.
    Connections,
    /// What is counted of statements.
    Statements,
}

/// One worker at one moment.
// tidy: each of these is a table of the console, or a line of one
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub worker: Option<WorkerId>,
    pub now: Time,
    pub pools: Vec<PoolSnapshot>,
    /// Clients, also of the console, and those that have a last message to come.
    pub sessions: u32,
    /// None with [`Look::Pools`], as of the servers.
    pub clients: Vec<ClientSnapshot>,
    pub servers: Vec<ServerSnapshot>,
    /// Servers given to other workers since the start.
    pub lends: u64,
    /// Clients of the console that were let in since the start: it has no pool.
    pub console_logins: u64,
    pub rotations: Rotations,
    /// Limits of classes that are counted here, and what statements are.
    pub limits: Vec<LimitCounts>,
    pub statements: Vec<StatementCounts>,
    /// Only with [`Look::Statements`].
    pub queries: Vec<QueryCounts>,
    pub refusals: Vec<RefusalCounts>,
    /// What pools of configured databases have come to that were forgotten since.
    pub past: Vec<(Arc<str>, Totals)>,
    /// Clock-independent counts of this worker's life.
    pub steps: u64,
    pub sizes: ObjectSizes,
    /// While SUSPEND is in force.
    pub suspension: Option<SuspendedCounts>,
    /// The hosts among which databases choose, as this worker knows them.
    pub hosts: Vec<(Address, Upstream)>,
    /// Which of them is written to, for each list of hosts.
    pub primaries: Vec<(Arc<[Address]>, Primary)>,
}

/// What SUSPEND waits for on one worker, and who may end it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SuspendedCounts {
    /// Connections whose sockets have not taken all that was sent to them.
    pub unsent: u32,
    /// Clients at the console who may end it.
    pub consoles: u32,
}

/// One limit of a class on one worker; counts since the start, or since there is such a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitCounts {
    pub class: Arc<str>,
    pub kind: LimitKind,
    /// What was left when the coordinator reported to this worker last, and when that was; none: this worker has requested nothing.
    pub left: Option<(u32, Time)>,
    /// Of what was given to this worker.
    pub unused: u32,
    pub waiting: u32,
    /// Transactions that have a slot.
    pub active: u32,
    /// Events for which there was leave.
    pub passed: u64,
    pub delayed: u64,
    pub rejected: u64,
}

/// Transactions that began with one statement, on one worker. Times in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementCounts {
    /// As limits name it.
    pub fingerprint: u64,
    /// The beginning of its text, as it came first.
    pub text: String,
    /// Transactions that wait: for their limits, or for a server.
    pub waiting: u32,
    /// Transactions that have a server.
    pub active: u32,
    /// Transactions that have a slot of the statement's limit: those that have a server, and some of those that wait for one.
    pub permits: u32,
    /// Transactions that had a server and are over.
    pub count: u64,
    /// How long these had their servers.
    pub run_us: u64,
    pub run_max_us: u64,
    /// How long transactions waited before they had a server, or gave up.
    pub wait_us: u64,
    pub wait_max_us: u64,
    pub delayed: u64,
    pub rejected: u64,
}

/// One statement of one pool on one worker, by its fingerprint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryCounts {
    pub key: PoolKey,
    /// As limits name it; `None`: all that have no row of their own, or no more.
    pub fingerprint: Option<u64>,
    /// The beginning of its text, as it came first, without literals unless `observe_literals` keeps them.
    pub text: String,
    pub counts: CallCounts,
}

/// Calls of one statement since the start. Times in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Those that failed included.
    pub calls: u64,
    pub errors: u64,
    /// As the command tags say.
    pub rows: u64,
    /// Bytes of answers to clients.
    pub bytes: u64,
    /// From when a statement was sent, or the one before it was answered, until it was answered.
    pub run_us: u64,
    pub run_max_us: u64,
    /// How long sessions waited for a server, of the first statement on it.
    pub queue_us: u64,
    pub queue_max_us: u64,
    pub run: Histogram,
    /// Without those that did not wait.
    pub queue: Histogram,
}

impl CallCounts {
    /// Adds those of the same statement on another worker, or of another statement.
    pub fn add(&mut self, other: &CallCounts) {
        self.calls += other.calls;
        self.errors += other.errors;
        self.rows += other.rows;
        self.bytes += other.bytes;
        self.run_us += other.run_us;
        self.run_max_us = self.run_max_us.max(other.run_max_us);
        self.queue_us += other.queue_us;
        self.queue_max_us = self.queue_max_us.max(other.queue_max_us);
        self.run.add(&other.run);
        self.queue.add(&other.queue);
    }
}

/// What `chaos_rotate` made of links; nothing where it is off.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Rotations {
    /// Sessions that got another server than the one before.
    pub rotated: u64,
    /// Sessions that got the same one again, because no other was idle.
    pub kept: u64,
    /// Sessions that got the same one again although another was idle: a fault.
    pub missed: u64,
}

/// One pool on one worker.
#[derive(Clone, Debug)]
pub struct PoolSnapshot {
    pub id: PoolId,
    pub key: PoolKey,
    pub mode: PoolMode,
    pub clients: ClientCounts,
    pub servers: ServerCounts,
    /// All servers here, in whatever state, and those of them that are closed when they are free.
    pub open_servers: u32,
    pub closing_servers: u32,
    /// Age of the oldest waiter, in microseconds; 0: nobody waits.
    pub maxwait_us: u64,
    /// Ages of all that wait, in microseconds, summed.
    pub waiting_us: u64,
    pub totals: Totals,
    pub spans: Spans,
    pub fidelity: FidelitySnapshot,
    /// Empty where there are no rules of classes.
    pub classes: Vec<ClassCounts>,
    /// Where its size is found: what it is now, and why.
    pub sizing: Option<Arc<SizingSnapshot>>,
    /// Transactions that are known to run long here.
    pub long: Vec<LongCounts>,
    pub deadlocks: Deadlocks,
    /// The state of each host, in words, while no host of its database can be used and clients wait for one.
    pub held_for: Option<Arc<str>>,
}

/// Deadlocks that PostgreSQL ended with an error for a client of one pool on one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deadlocks {
    /// Since the start.
    pub count: u64,
    pub last: Option<DeadlockVictim>,
}

/// The client whose statement PostgreSQL ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadlockVictim {
    pub at: Time,
    pub client: Serial,
    pub application_name: String,
}

/// Transactions of one pool on one worker that begin alike, and run long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongCounts {
    /// Since it is known.
    pub count: u64,
    /// Smoothed time for which each kept a server, in microseconds; no more than four times what is long.
    pub mean_us: u64,
    /// The beginning of the text; empty: none has come since it is known.
    pub text: String,
}

/// How many clients a pool has, by what they do: PgBouncer's `cl_` columns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCounts {
    pub active: u32,
    pub waiting: u32,
    pub active_cancel_req: u32,
    pub waiting_cancel_req: u32,
}

/// How many servers a pool has, by what they do: PgBouncer's `sv_` columns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCounts {
    pub active: u32,
    pub active_cancel: u32,
    pub being_canceled: u32,
    pub idle: u32,
    pub used: u32,
    pub tested: u32,
    pub login: u32,
}

impl PoolSnapshot {
    /// Of a pool that has done nothing yet.
    #[must_use]
    pub fn new(id: PoolId, key: PoolKey, mode: PoolMode) -> PoolSnapshot {
        PoolSnapshot {
            id,
            key,
            mode,
            clients: ClientCounts::default(),
            servers: ServerCounts::default(),
            open_servers: 0,
            closing_servers: 0,
            maxwait_us: 0,
            waiting_us: 0,
            totals: Totals::default(),
            spans: Spans::default(),
            fidelity: FidelitySnapshot::default(),
            classes: Vec::new(),
            sizing: None,
            long: Vec::new(),
            deadlocks: Deadlocks::default(),
            held_for: None,
        }
    }
}

/// What it came to that sessions of one pool are followed from server to server.
#[derive(Clone, Debug, Default)]
pub struct FidelitySnapshot {
    /// `None` where sessions have servers of their own.
    pub fidelity: Option<Fidelity>,
    /// How far the pool has come with its database's names.
    pub names: CatalogueProgress,
    /// Sessions that keep their server now, or are about to.
    pub pinned: u32,
    /// Sessions that wait because so many do.
    pub waiting: u32,
    pub counts: FidelityCounts,
}

/// Counts since the start.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct FidelityCounts {
    /// Transactions that ended in a session that had kept its server from an earlier one.
    pub transactions_pinned: u64,
    /// How often a session began to keep its server.
    pub pins: u64,
    /// Among them, beyond max_pinned: it was in a transaction already, or nobody could know before.
    pub over: u64,
    /// How often a server was sent what its next session had set.
    pub replays: u64,
    /// How often a server was asked what was left on it.
    pub checks: u64,
    /// Among them, those that found what no text had shown. Only pool_fidelity = strict asks without suspicion.
    pub missed: u64,
    /// By [`Pins`], in their order.
    pub by_kind: [PinCounts; Pins::KINDS],
}

/// Of one kind of state. What has several kinds counts for each.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PinCounts {
    pub pins: u64,
    pub transactions: u64,
}

impl FidelityCounts {
    /// Adds those of the same pool on another worker.
    pub fn add(&mut self, other: &FidelityCounts) {
        self.transactions_pinned += other.transactions_pinned;
        self.pins += other.pins;
        self.over += other.over;
        self.replays += other.replays;
        self.checks += other.checks;
        self.missed += other.missed;
        for (sum, more) in self.by_kind.iter_mut().zip(&other.by_kind) {
            sum.pins += more.pins;
            sum.transactions += more.transactions;
        }
    }

    /// A transaction has ended in a session that is pinned.
    pub fn count_transaction(&mut self, pins: Pins) {
        self.transactions_pinned += 1;
        pins.kinds().for_each(|(index, _)| self.by_kind[index].transactions += 1);
    }

    /// A session is pinned for these reasons that it had not been pinned for.
    pub fn count_pins(&mut self, reasons: Pins) {
        reasons.kinds().for_each(|(index, _)| self.by_kind[index].pins += 1);
    }
}

/// Counts since the start, as SHOW STATS_TOTALS names them. Times in microseconds.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub server_assignments: u64,
    pub transactions: u64,
    pub queries: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes to clients.
    pub sent: u64,
    pub transaction_us: u64,
    pub query_us: u64,
    pub wait_us: u64,
    pub client_parses: u64,
    pub server_parses: u64,
    pub binds: u64,
    pub logins: u64,
}

impl Totals {
    /// Adds another count, for instance of the same pool on another worker.
    pub fn add(&mut self, other: &Totals) {
        self.server_assignments += other.server_assignments;
        self.transactions += other.transactions;
        self.queries += other.queries;
        self.received += other.received;
        self.sent += other.sent;
        self.transaction_us += other.transaction_us;
        self.query_us += other.query_us;
        self.wait_us += other.wait_us;
        self.client_parses += other.client_parses;
        self.server_parses += other.server_parses;
        self.binds += other.binds;
        self.logins += other.logins;
    }
}

/// A session, as SHOW CLIENTS lists it.
#[derive(Clone, Debug)]
pub struct ClientSnapshot {
    pub serial: Serial,
    /// What the log calls it too.
    pub name: ConnId,
    pub conn: ConnId,
    pub key: PoolKey,
    /// The user that logged in.
    pub user: Arc<str>,
    /// `active`, `waiting`, `idle`: PgBouncer's words (`active` also covers idle clients in older ones).
    pub state: &'static str,
    pub peer: Peer,
    /// Version and cipher, if its connection is encrypted.
    pub tls: Option<String>,
    pub times: ClientTimes,
    /// The server that it is linked to.
    pub link: Option<LinkSnapshot>,
    pub application_name: String,
    /// The pid its cancel key carries.
    pub pid: i32,
    /// What it was when it last needed a server.
    pub class: ClassId,
    pub ties: Ties,
    pub doing: Doing,
    pub kept: Kept,
}

/// What a client is doing, for others to join with PostgreSQL's own view of its backend.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doing {
    /// It has a request that is not answered, so that a cancel has something to cancel.
    pub has_request: bool,
    /// The fingerprint of the statement that runs, or ran last, as `fingerprint_limits` names it.
    pub statement: Option<u64>,
    /// Since when it is in its transaction: since its first statement was sent to the server.
    pub began_at: Option<Time>,
    /// How long it had waited for the server that it has, in microseconds.
    pub waited_us: u64,
    /// Since when it has been idle in its transaction: all its requests are answered.
    pub idle_since: Option<Time>,
    /// Its transaction has failed: PostgreSQL refuses everything but ROLLBACK.
    pub has_failed: bool,
    /// While it waits: the beginning of the text that it waits with, at most [`WAITING_TEXT_LEN_MAX`] bytes.
    ///
    /// [`WAITING_TEXT_LEN_MAX`]: units::limits::WAITING_TEXT_LEN_MAX
    pub waits_with: Option<String>,
}

/// What ties a client to servers.
#[derive(Clone, Debug, Default)]
pub struct Ties {
    /// What becomes of its session; `None` where it has a server of its own, or talks to the console.
    pub fidelity: Option<Fidelity>,
    /// Why it keeps its server between transactions, if it does.
    pub pin: Option<PinSnapshot>,
    /// If it replicates.
    pub replication: Option<ReplicationKind>,
}

/// What is kept of a connection.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub prepared_statements: u32,
    /// Bytes that were received, and not passed on.
    pub received: u32,
    /// Bytes that are to be sent, and its socket has not taken yet.
    pub unsent: u32,
}

/// What the objects of one worker take, for SHOW MEM.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectSizes {
    /// Bytes that one of each takes in its table.
    pub session: u32,
    pub server: u32,
    pub pool: u32,
    /// Bytes of all buffers of connections.
    pub buffers: u64,
}

/// When what happened to a client.
#[derive(Copy, Clone, Debug)]
pub struct ClientTimes {
    pub connected_at: Time,
    /// When it last needed a server.
    pub request_at: Time,
    /// Since when it waits, if it does.
    pub waiting_since: Option<Time>,
}

/// The other end of a link.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LinkSnapshot {
    pub conn: ConnId,
    /// What the log calls it.
    pub name: Option<ConnId>,
}

/// A server, as SHOW SERVERS lists it.
#[derive(Clone, Debug)]
pub struct ServerSnapshot {
    pub serial: Serial,
    /// What the log calls it too.
    pub name: ConnId,
    pub conn: ConnId,
    pub pool: PoolId,
    pub key: PoolKey,
    /// `active`, `idle`, `used`, `tested`, `new` (logging in), `active_cancel`, `being_canceled`.
    pub state: &'static str,
    pub ends: ServerEnds,
    pub times: ServerTimes,
    /// The client that it is linked to.
    pub link: Option<LinkSnapshot>,
    /// PostgreSQL's pid of the backend; 0 before login.
    pub remote_pid: i32,
    pub application_name: String,
    pub close_needed: bool,
    /// Version and cipher, if its connection is encrypted.
    pub tls: Option<Arc<str>>,
    /// If it replicates.
    pub replication: Option<ReplicationKind>,
    pub kept: Kept,
}

/// Where a server's connection goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerEnds {
    /// What it was opened to, as the database's entry has it.
    pub host: Arc<Address>,
    /// What it is connected to: of a name, the address that was found.
    pub address: Arc<Address>,
    /// Our end of a TCP connection that stands.
    pub local: Option<SocketAddr>,
}

/// When a server was opened, and when it last had something to do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct ServerTimes {
    pub connected_at: Time,
    pub request_at: Time,
}
