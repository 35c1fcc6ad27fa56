//! Where databases are, and how their servers are opened.

use std::net::IpAddr;

use auth::Secret;
use settings::{DatabaseSettings, HttpUrl};

/// The name of the console's database, which no `[databases]` entry may take.
pub const CONSOLE_DATABASE: &str = "pgbouncer";

/// What the console tells its clients of itself at login, in this order. The version is the one that tools look for.
//= pgbouncer usage.md#admin-console
pub const CONSOLE_PARAMETERS: [(&str, &str); 7] = [
    ("server_version", "1.25.2/bouncer"),
    ("client_encoding", "UTF8"),
    ("server_encoding", "UTF8"),
    ("DateStyle", "ISO"),
    ("TimeZone", "GMT"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "on"),
];

/// Where a PostgreSQL listens.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Host {
    /// The directory of a Unix socket; an abstract name starts with `@`.
    Unix(String),
    Ip(IpAddr),
    /// A name that the engine resolves.
    Name(String),
}

/// One PostgreSQL server's address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Address {
    pub host: Host,
    pub port: u16,
}

/// As people write it: `db1:5432`, `[::1]:5432`, `/run/postgresql:5432`.
impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let port = self.port;
        match &self.host {
            Host::Unix(folder) => write!(f, "{folder}:{port}"),
            Host::Ip(ip) if ip.is_ipv6() => write!(f, "[{ip}]:{port}"),
            Host::Ip(ip) => write!(f, "{ip}:{port}"),
            Host::Name(name) => write!(f, "{name}:{port}"),
        }
    }
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

/// Which servers of a database with several hosts are used, as libpq has it.
//= pg18 libpq-connect#LIBPQ-CONNECT-TARGET-SESSION-ATTRS
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum TargetSessionAttrs {
    #[default]
    Any,
    /// Sessions are read-write by default, and the server is not in hot standby.
    ReadWrite,
    /// The contrary of [`TargetSessionAttrs::ReadWrite`].
    ReadOnly,
    /// The server is not in hot standby.
    Primary,
    /// The server is in hot standby.
    Standby,
    /// A standby, or any server if there is none.
    PreferStandby,
}

impl TargetSessionAttrs {
    /// The values of libpq.
    pub const NAMES: &[&str] = &["any", "read-write", "read-only", "primary", "standby", "prefer-standby"];
    const ALL: [TargetSessionAttrs; 6] = [
        TargetSessionAttrs::Any,
        TargetSessionAttrs::ReadWrite,
        TargetSessionAttrs::ReadOnly,
        TargetSessionAttrs::Primary,
        TargetSessionAttrs::Standby,
        TargetSessionAttrs::PreferStandby,
    ];

    /// `None`: it is none of libpq's values.
    #[must_use]
    pub fn parse(text: &str) -> Option<TargetSessionAttrs> {
        Self::ALL.into_iter().find(|attrs| attrs.as_str() == text)
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// Whether only the primary can be used.
    #[must_use]
    pub fn wants_primary(self) -> bool {
        matches!(self, TargetSessionAttrs::ReadWrite | TargetSessionAttrs::Primary)
    }

    /// Whether a server can be used, if there is a choice: it is in hot standby, or not, and its sessions are read-only by default, or not.
    #[must_use]
    pub fn accepts(self, in_hot_standby: bool, is_read_only: bool) -> bool {
        match self {
            TargetSessionAttrs::Any => true,
            TargetSessionAttrs::ReadWrite => !in_hot_standby && !is_read_only,
            TargetSessionAttrs::ReadOnly => in_hot_standby || is_read_only,
            TargetSessionAttrs::Primary => !in_hot_standby,
            TargetSessionAttrs::Standby | TargetSessionAttrs::PreferStandby => in_hot_standby,
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
    pub target_session_attrs: TargetSessionAttrs,
    /// The REST addresses of the members of the Patroni cluster that its hosts belong to: each is asked who leads. `None`: nowhere.
    pub patroni_urls: Option<Vec<HttpUrl>>,
    /// The database's name at the server; `None`: the same as `name`.
    pub dbname: Option<String>,
    /// Every client's server connection logs in as this user.
    pub forced_user: Option<String>,
    /// The password of the forced user at the server.
    pub password: Option<Secret>,
    /// As `auth_user` of `[pgbouncer]`, for its clients, and so the next two.
    pub auth_user: Option<String>,
    pub auth_query: Option<String>,
    pub auth_dbname: Option<String>,
    /// Settings of its own, instead of the global ones.
    pub settings: DatabaseSettings,
    /// Run once on every new server connection, before its first use.
    pub connect_query: Option<String>,
    /// Startup parameters for the server: `client_encoding`, `datestyle`, `timezone`.
    pub startup: Vec<(String, String)>,
    /// Made on demand from the `*` entry.
    pub automatic: bool,
}

impl Database {
    /// Its name at the server.
    #[must_use]
    pub fn name_at_server(&self) -> &str {
        self.dbname.as_deref().unwrap_or(&self.name)
    }

    /// Whether a server that was opened for the entry `old`, at this host, cannot serve this one.
    #[must_use]
    pub fn needs_another_server(&self, old: &Database, host: &Address) -> bool {
        !self.hosts.contains(host) || self.needs_other_servers(old)
    }

    /// Whether no server that was opened for the entry `old` can serve this one. If only some hosts have changed, servers at the other hosts can.
    #[must_use]
    pub fn needs_other_servers(&self, old: &Database) -> bool {
        let shares_hosts = self.hosts == old.hosts || self.hosts.iter().any(|host| old.hosts.contains(host));
        !shares_hosts
            || self.target_session_attrs != old.target_session_attrs
            || self.dbname != old.dbname
            || self.forced_user != old.forced_user
            || self.password != old.password
            || self.connect_query != old.connect_query
            || self.startup != old.startup
            || self.settings.channel_binding != old.settings.channel_binding
    }

    /// Whether it chooses among several hosts, or by a host's role. The prober then asks its hosts all the time.
    #[must_use]
    pub fn chooses_host(&self) -> bool {
        self.hosts.len() > 1 || self.target_session_attrs != TargetSessionAttrs::Any
    }

    /// A database with default settings.
    #[must_use]
    pub fn new(name: &str, hosts: Vec<Address>) -> Database {
        Database {
            name: name.to_owned(),
            hosts,
            load_balance_hosts: LoadBalanceHosts::default(),
            target_session_attrs: TargetSessionAttrs::default(),
            patroni_urls: None,
            dbname: None,
            forced_user: None,
            password: None,
            auth_user: None,
            auth_query: None,
            auth_dbname: None,
            settings: DatabaseSettings::default(),
            connect_query: None,
            startup: Vec::new(),
            automatic: false,
        }
    }
}
