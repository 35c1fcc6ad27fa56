//! Everything the decisions can be told to do differently: one immutable value, replaced whole on reload.
//!
//! `config` makes it from the user's words; nothing here is text that should have been a number. Names and defaults are
//! PgBouncer's (`//= pgbouncer config.md`). A timeout that is switched off is `None`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use auth::Secret;
use queueing::classes::Classes;

pub use ::settings::{
    AuthType, ClassSettings, DatabaseSettings, Effective, Fidelity, Global, PoolMode, PoolSize, TestSettings,
    UserSettings,
};

/// The name of the console's database, which no `[databases]` entry may take.
pub const CONSOLE_DATABASE: &str = "pgbouncer";

/// Where a PostgreSQL listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    /// The directory of a Unix socket; an abstract name starts with `@`.
    Unix(String),
    Ip(IpAddr),
    /// A name that the engine resolves.
    Name(String),
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
    /// As `auth_user` of `[pgbouncer]`, for its clients.
    pub auth_user: Option<String>,
    /// What it has instead of the global settings.
    pub settings: DatabaseSettings,
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
            settings: DatabaseSettings::default(),
            connect_query: None,
            startup: Vec::new(),
            automatic: false,
        }
    }
}

/// All of them. `Default` is the table's, with no databases.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub databases: BTreeMap<String, Arc<Database>>,
    /// The `*` entry: any other name, with `name` and `dbname` filled in at login.
    pub fallback: Option<Arc<Database>>,
    pub users: BTreeMap<String, UserSettings>,
    /// `auth_file`: who may log in, and as what they log in at the server.
    pub secrets: BTreeMap<String, Secret>,
    /// `[pgbouncer]`; databases and users may have some otherwise: see [`Settings::effective`].
    pub global: Global,
    /// Threads that own sessions and servers; at least 1. From `workers` and the machine's cores.
    pub workers: u16,
    /// Where pools begin whose size is `auto`. From the machine's cores.
    pub auto_pool_size_start: u32,
    /// Who shares servers with whom, and how.
    pub classes: Arc<Classes>,
    /// Whether servers are asked what names hide. Off only in tests of something else.
    pub reads_catalogue: bool,
    /// A deliberate fault, for tests of the tests.
    #[cfg(feature = "sabotage")]
    pub sabotage: Option<crate::sabotage::Sabotage>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            databases: BTreeMap::new(),
            fallback: None,
            users: BTreeMap::new(),
            secrets: BTreeMap::new(),
            global: Global::default(),
            workers: 1,
            auto_pool_size_start: 4,
            classes: Arc::default(),
            reads_catalogue: true,
            #[cfg(feature = "sabotage")]
            sabotage: None,
        }
    }
}

impl Settings {
    /// What holds for one database and user.
    #[must_use]
    pub fn effective(&self, database: &Database, user: &str) -> Effective {
        let nothing = UserSettings::default();
        Effective::new(&self.global, &database.settings, self.users.get(user).unwrap_or(&nothing))
    }

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
