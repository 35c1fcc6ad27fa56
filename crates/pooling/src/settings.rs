//! Everything the decisions can be told to do differently: one immutable value, replaced whole on reload.
//!
//! `config` makes it from the user's words; nothing here is text that should have been a number. Names and defaults are
//! PgBouncer's (`//= pgbouncer config.md`). A timeout that is switched off is `None`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use auth::Secret;
use queueing::classes::{Classes, Over};

/// The name of the console's database, which no `[databases]` entry may take.
pub const CONSOLE_DATABASE: &str = "pgbouncer";

/// When a server goes back to its pool.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum PoolMode {
    /// When the client leaves.
    #[default]
    Session,
    /// After each transaction.
    Transaction,
    /// After each statement; transactions of several statements are refused.
    Statement,
}

impl PoolMode {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            PoolMode::Session => "session",
            PoolMode::Transaction => "transaction",
            PoolMode::Statement => "statement",
        }
    }
}

/// What becomes of session state in transaction and statement mode.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Fidelity {
    /// An application's session goes on, whichever server it gets.
    #[default]
    Transparent,
    /// The same, and every transaction is looked after: whatever it left behind is found.
    Strict,
    /// As in PgBouncer: what was set on a server stays there, for whoever gets it next.
    Classic,
}

impl Fidelity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Fidelity::Transparent => "transparent",
            Fidelity::Strict => "strict",
            Fidelity::Classic => "classic",
        }
    }
}

/// How clients prove who they are.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum AuthType {
    /// No password, but the user must be known.
    Trust,
    /// No password, and the user need not be known; every login uses the database's forced user.
    Any,
    /// The password in clear text.
    Plain,
    /// MD5, or SCRAM where the stored secret is a SCRAM verifier.
    #[default]
    Md5,
    /// SCRAM-SHA-256 only.
    Scram,
}

/// Where a PostgreSQL listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// The directory of a Unix socket; an abstract name starts with `@`.
    Unix(String),
    Ip(IpAddr),
    /// A name that the engine resolves.
    Name(String),
}

/// The most server connections of a pool.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PoolSize {
    Fixed(u32),
    /// What [`crate::sizing`] finds, between `auto_pool_size_min` and `auto_pool_size_max`.
    Auto,
}

impl PoolSize {
    /// The most it can ever be.
    #[must_use]
    pub fn most(self, settings: &Settings) -> u32 {
        match self {
            PoolSize::Fixed(size) => size,
            PoolSize::Auto => settings.auto_pool_size_max,
        }
    }
}

impl std::fmt::Display for PoolSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PoolSize::Fixed(size) => write!(f, "{size}"),
            PoolSize::Auto => f.write_str("auto"),
        }
    }
}

/// One PostgreSQL server's address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    pub host: Host,
    pub port: u16,
}

/// Whether new server connections of one database go round its hosts.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum LoadBalanceHosts {
    #[default]
    RoundRobin,
    /// Stay with one host until a connection to it fails.
    Disable,
}

impl LoadBalanceHosts {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            LoadBalanceHosts::RoundRobin => "round-robin",
            LoadBalanceHosts::Disable => "disable",
        }
    }
}

/// Unrest that tests wish for, and nobody else.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Chaos {
    /// Outside of session mode, every transaction runs on another server, if one is idle.
    pub rotate: bool,
    /// Every server is closed after its first use.
    pub close: bool,
    /// Outside of session mode, a stranger leaves its state on every server before anybody else gets it.
    pub poison: bool,
    /// Outside of session mode, what a server has is compared with what is known of it after every transaction.
    pub check: bool,
    /// Of the choice between idle servers, and of the stranger's statements.
    pub seed: u64,
}

/// One `[databases]` entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Database {
    /// The name clients use. For a database made from `*`, the name the client asked for.
    pub name: String,
    /// At least one.
    pub hosts: Vec<Address>,
    pub load_balance_hosts: LoadBalanceHosts,
    /// The database's name at the server; `None`: the same as `name`.
    pub dbname: Option<String>,
    /// Every client's server connection logs in as this user.
    pub forced_user: Option<String>,
    /// The password of the forced user at the server.
    pub password: Option<Secret>,
    /// As [`Settings::auth_user`], for its clients.
    pub auth_user: Option<String>,
    pub pool_size: Option<PoolSize>,
    pub min_pool_size: Option<u32>,
    pub reserve_pool_size: Option<u32>,
    pub pool_mode: Option<PoolMode>,
    pub pool_fidelity: Option<Fidelity>,
    pub max_pinned: Option<u32>,
    pub stable_backend_pid: Option<bool>,
    pub max_db_connections: Option<u32>,
    pub max_db_client_connections: Option<u32>,
    pub server_lifetime: Option<Option<Duration>>,
    pub query_wait_timeout: Option<Option<Duration>>,
    /// Run once on every new server connection, before its first use.
    pub connect_query: Option<String>,
    /// Startup parameters for the server: `client_encoding`, `datestyle`, `timezone`.
    pub startup: Vec<(String, String)>,
    /// Made on demand from the `*` entry.
    pub automatic: bool,
}

impl Database {
    /// What its server calls it.
    #[must_use]
    pub fn name_at_server(&self) -> &str {
        self.dbname.as_deref().unwrap_or(&self.name)
    }

    /// A database about which nothing was said but its name and where it is.
    #[must_use]
    pub fn new(name: &str, hosts: Vec<Address>) -> Database {
        Database {
            name: name.to_owned(),
            hosts,
            load_balance_hosts: LoadBalanceHosts::default(),
            dbname: None,
            forced_user: None,
            password: None,
            auth_user: None,
            pool_size: None,
            min_pool_size: None,
            reserve_pool_size: None,
            pool_mode: None,
            pool_fidelity: None,
            max_pinned: None,
            stable_backend_pid: None,
            max_db_connections: None,
            max_db_client_connections: None,
            server_lifetime: None,
            query_wait_timeout: None,
            connect_query: None,
            startup: Vec::new(),
            automatic: false,
        }
    }
}

/// One `[users]` entry. It does not make the user able to log in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UserSettings {
    pub pool_mode: Option<PoolMode>,
    pub pool_fidelity: Option<Fidelity>,
    pub max_pinned: Option<u32>,
    pub stable_backend_pid: Option<bool>,
    pub pool_size: Option<PoolSize>,
    pub reserve_pool_size: Option<u32>,
    pub max_user_connections: Option<u32>,
    pub max_user_client_connections: Option<u32>,
    pub query_timeout: Option<Option<Duration>>,
    pub query_wait_timeout: Option<Option<Duration>>,
    pub idle_transaction_timeout: Option<Option<Duration>>,
    pub transaction_timeout: Option<Option<Duration>>,
    pub client_idle_timeout: Option<Option<Duration>>,
}

/// All of them. `Default` is PgBouncer's defaults with no databases.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub databases: BTreeMap<String, Arc<Database>>,
    /// The `*` entry: any other name, with `name` and `dbname` filled in at login.
    pub fallback: Option<Arc<Database>>,
    pub users: BTreeMap<String, UserSettings>,
    /// `auth_file`: who may log in, and as what they log in at the server.
    pub secrets: BTreeMap<String, Secret>,
    pub auth_type: AuthType,
    pub admin_users: BTreeSet<String>,
    pub stats_users: BTreeSet<String>,

    pub pool_mode: PoolMode,
    pub default_pool_size: PoolSize,
    /// Of pools whose size is `auto`, as is the next. At least 1 counts.
    pub auto_pool_size_min: u32,
    /// At least `auto_pool_size_min` counts.
    pub auto_pool_size_max: u32,
    /// Where they begin.
    pub auto_pool_size_start: u32,
    pub min_pool_size: u32,
    pub reserve_pool_size: u32,
    /// How long the oldest client waits before the reserve is opened.
    pub reserve_pool_timeout: Option<Duration>,
    /// 0: bounded by file descriptors only.
    pub max_client_conn: u32,
    /// 0: unlimited, as are the next three.
    pub max_db_connections: u32,
    pub max_user_connections: u32,
    /// Server connections of the whole process; 0: no limit.
    pub max_server_connections: u32,
    pub max_db_client_connections: u32,
    pub max_user_client_connections: u32,

    pub query_wait_timeout: Option<Duration>,
    /// A NOTICE to a client that has waited this long.
    pub query_wait_notify: Option<Duration>,
    pub query_timeout: Option<Duration>,
    /// How long a query that was cancelled for `query_timeout` may take to end.
    pub query_cancel_timeout: Option<Duration>,
    pub idle_transaction_timeout: Option<Duration>,
    pub transaction_timeout: Option<Duration>,
    pub client_idle_timeout: Option<Duration>,
    pub client_login_timeout: Option<Duration>,
    pub server_connect_timeout: Option<Duration>,
    pub server_idle_timeout: Option<Duration>,
    pub server_lifetime: Option<Duration>,
    /// After a failed server login, how long until the next try.
    pub server_login_retry: Duration,
    pub cancel_wait_timeout: Option<Duration>,
    /// How long a pool of a database made from `*` is kept while nobody uses it.
    pub autodb_idle_timeout: Option<Duration>,

    /// A server idle for longer is checked before reuse; zero: always checked.
    pub server_check_delay: Duration,
    /// `None`: no check. An empty text is the empty query.
    pub server_check_query: Option<String>,
    /// Empty: none.
    pub server_reset_query: String,
    /// Also in transaction and statement mode.
    pub server_reset_query_always: bool,
    /// Least recently used server first, instead of most recently.
    pub server_round_robin: bool,
    /// In session mode too, a server to be closed waits for the end of a transaction only, and takes its client along.
    pub server_fast_close: bool,

    /// Lower-case names of startup parameters to pass over in silence.
    pub ignore_startup_parameters: BTreeSet<String>,
    /// Further parameters that follow the client, besides the fixed five; as the user wrote them.
    pub track_extra_parameters: Vec<String>,
    /// Named prepared statements kept a server in transaction and statement mode; 0: names go through untouched.
    pub max_prepared_statements: u32,
    /// Where neither the database nor the user says otherwise.
    pub pool_fidelity: Fidelity,
    /// Clients are told their servers' own process ids, if they do not say otherwise, and keep their servers for life.
    pub stable_backend_pid: bool,
    /// How many sessions of one pool may keep their servers between transactions; 0: as many as like.
    pub max_pinned: u32,
    /// Bytes that each worker takes to remember what statements mean.
    pub statement_memo_size: u32,
    /// Appends the client's host to its application_name.
    pub application_name_add_host: bool,
    /// NOTICE after login; empty: none.
    pub login_notify_message: String,
    /// Iterations of the verifiers made from plain-text secrets.
    pub scram_iterations: u32,
    /// Whether servers are asked what names hide. Off only in tests of something else.
    pub reads_catalogue: bool,
    /// Who shares servers with whom, and how.
    pub classes: Arc<Classes>,
    /// Over how long what happens often is told once.
    pub stats_period: Duration,
    /// By whose rights users would be looked up who are not among the secrets. Nobody is yet: it tells why they are refused.
    pub auth_user: Option<String>,
    /// How many may run one statement at a time.
    pub statements: StatementLimits,
    pub chaos: Chaos,
    /// Threads that own sessions and servers; at least 1.
    pub workers: u16,
    /// A deliberate fault, for tests of the tests.
    #[cfg(feature = "sabotage")]
    pub sabotage: Option<crate::sabotage::Sabotage>,
}

/// How many transactions at a time may begin with the same statement, whatever its constants and comments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StatementLimits {
    /// Of any statement; 0: as many as like.
    pub max_active: u32,
    /// Of these, by their hashes as SHOW FINGERPRINTS has them; 0: as many as like.
    pub named: BTreeMap<u64, u32>,
    pub over: Over,
}

impl StatementLimits {
    /// Whether statements have to be told apart.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.max_active == 0 && self.named.is_empty()
    }

    #[must_use]
    pub fn limit_of(&self, fingerprint: u64) -> Option<u32> {
        let limit = self.named.get(&fingerprint).copied().unwrap_or(self.max_active);
        (limit > 0).then_some(limit)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            databases: BTreeMap::new(),
            fallback: None,
            users: BTreeMap::new(),
            secrets: BTreeMap::new(),
            auth_type: AuthType::Md5,
            admin_users: BTreeSet::new(),
            stats_users: BTreeSet::new(),
            pool_mode: PoolMode::Session,
            default_pool_size: PoolSize::Fixed(20),
            auto_pool_size_min: 2,
            auto_pool_size_max: 80,
            auto_pool_size_start: 4,
            min_pool_size: 0,
            reserve_pool_size: 0,
            reserve_pool_timeout: Some(Duration::from_secs(5)),
            max_client_conn: 100,
            max_db_connections: 0,
            max_user_connections: 0,
            max_server_connections: 0,
            max_db_client_connections: 0,
            max_user_client_connections: 0,
            query_wait_timeout: Some(Duration::from_secs(120)),
            query_wait_notify: Some(Duration::from_secs(5)),
            query_cancel_timeout: Some(Duration::from_secs(1)),
            query_timeout: None,
            idle_transaction_timeout: None,
            transaction_timeout: None,
            client_idle_timeout: None,
            client_login_timeout: Some(Duration::from_secs(60)),
            server_connect_timeout: Some(Duration::from_secs(15)),
            server_idle_timeout: Some(Duration::from_secs(600)),
            server_lifetime: Some(Duration::from_secs(3600)),
            server_login_retry: Duration::from_secs(15),
            cancel_wait_timeout: Some(Duration::from_secs(10)),
            autodb_idle_timeout: Some(Duration::from_secs(3600)),
            server_check_delay: Duration::from_secs(30),
            server_check_query: Some(String::new()),
            server_reset_query: "DISCARD ALL".to_owned(),
            server_reset_query_always: false,
            server_round_robin: false,
            server_fast_close: false,
            ignore_startup_parameters: BTreeSet::new(),
            track_extra_parameters: vec!["IntervalStyle".to_owned()],
            max_prepared_statements: 200,
            pool_fidelity: Fidelity::default(),
            max_pinned: 0,
            stable_backend_pid: false,
            statement_memo_size: 4 * 1024 * 1024,
            application_name_add_host: false,
            login_notify_message: String::new(),
            scram_iterations: auth::scram::ITERATIONS,
            reads_catalogue: true,
            classes: Arc::default(),
            stats_period: Duration::from_secs(60),
            auth_user: None,
            statements: StatementLimits::default(),
            chaos: Chaos::default(),
            workers: 1,
            #[cfg(feature = "sabotage")]
            sabotage: None,
        }
    }
}

impl Settings {
    /// The entry for a database name, made from `*` if there is none of its own.
    #[must_use]
    pub fn database(&self, name: &str) -> Option<Arc<Database>> {
        if let Some(database) = self.databases.get(name) {
            return Some(Arc::clone(database));
        }
        // The console is no database, whatever `*` says.
        let fallback = self.fallback.as_ref().filter(|_| name != CONSOLE_DATABASE)?;
        let mut database = Database::clone(fallback);
        database.name = name.to_owned();
        database.automatic = true;
        Some(Arc::new(database))
    }
}
