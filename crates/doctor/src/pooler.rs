//! What the pooler says of itself: pgweir's console, PgBouncer's, or a file alone.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// One process of it.
#[derive(Clone, Debug, Default)]
pub struct Pooler {
    /// Where it was asked, or its file.
    pub place: String,
    /// As SHOW CONFIG has them.
    pub settings: BTreeMap<String, String>,
    /// Those of PostgreSQL, without the console's.
    pub databases: Vec<PooledDatabase>,
    /// Empty where only a file was read, and so the next ones.
    pub pools: Vec<Pool>,
    pub sizes: Vec<FoundSize>,
    pub traffic: Vec<Traffic>,
    /// Counts of SHOW EVENTS by setting.
    pub events: BTreeMap<String, u64>,
    /// `None`: it was not asked.
    pub servers: Option<Vec<PoolServer>>,
    pub users: Vec<UserLimits>,
    /// `None`: no file was read.
    pub secrets: Option<Secrets>,
}

/// A row of SHOW DATABASES.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PooledDatabase {
    pub name: String,
    /// `None`: a Unix socket in the usual directory. Several hosts have commas between them.
    pub host: Option<String>,
    pub port: u16,
    pub database: String,
    pub forced_user: Option<String>,
    pub size: u32,
    pub reserve: u32,
    /// 0: no limit.
    pub connections_max: u32,
    /// The role that it wants, as the file has it. `None`: only a console was asked, which does not show it.
    pub target_session_attrs: Option<String>,
}

/// A row of SHOW POOLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    pub database: String,
    pub user: String,
    pub clients: u32,
    pub waiting: u32,
    pub servers: u32,
    pub wait_max: Duration,
}

/// A row of SHOW SIZING.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundSize {
    pub database: String,
    pub user: String,
    pub size: u32,
    /// `None`: it still searches.
    pub settled: Option<u32>,
    pub floor: u32,
    pub ceiling: u32,
    pub why: String,
}

/// A row of SHOW STATS: since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    pub database: String,
    pub transactions: u64,
    pub transaction_time: Duration,
    pub wait_time: Duration,
}

/// A row of SHOW SERVERS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolServer {
    pub database: String,
    /// The backend's pid.
    pub pid: i32,
    pub address: String,
    pub is_encrypted: bool,
}

/// A row of SHOW USERS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    pub name: String,
    pub size: Option<u32>,
    /// 0: no limit.
    pub connections_max: u32,
}

/// What `auth_file` and `[databases]` hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// The file of passwords.
    pub file: String,
    /// Users whose password stands there in the clear.
    pub plain: Vec<String>,
    /// Whether others than its owner and group may read a file with passwords.
    pub is_open: bool,
}

impl Pooler {
    /// The value of a setting; empty if it has none.
    #[must_use]
    pub fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// A number among them; 0 if it is none.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        let value: f64 = self.setting(name).trim().parse().unwrap_or(0.0);
        value as u64
    }

    /// A time among them, in seconds there; zero is never.
    #[must_use]
    pub fn time(&self, name: &str) -> Duration {
        Duration::try_from_secs_f64(self.setting(name).trim().parse().unwrap_or(0.0)).unwrap_or_default()
    }

    /// Whether its size is fixed, and not found.
    #[must_use]
    pub fn is_fixed(&self, database: &str) -> bool {
        !self.sizes.iter().any(|size| size.database == database)
            && (self.setting("default_pool_size") != "auto" || !self.sizes.is_empty())
    }

    /// All pids of its servers.
    #[must_use]
    pub fn pids(&self) -> BTreeSet<i32> {
        self.servers.iter().flatten().map(|server| server.pid).collect()
    }
}

impl PooledDatabase {
    /// Its hosts, without blanks.
    pub fn hosts(&self) -> impl Iterator<Item = &str> {
        self.host.as_deref().unwrap_or_default().split(',').map(str::trim).filter(|host| !host.is_empty())
    }

    /// Whether it takes hosts of any role, as far as is known.
    #[must_use]
    pub fn takes_any_role(&self) -> bool {
        self.target_session_attrs.as_deref().is_none_or(|attrs| attrs == "any")
    }

    /// Hosts that are reached over a network: neither by a Unix socket nor on this machine.
    pub fn distant_hosts(&self) -> impl Iterator<Item = &str> {
        self.hosts().filter(|host| is_distant(host))
    }
}

/// Whether bytes to it leave the machine.
fn is_distant(host: &str) -> bool {
    let is_here = host.is_empty() || host.starts_with(['/', '@']) || host.eq_ignore_ascii_case("localhost");
    !is_here && !host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distant_is_what_a_network_lies_before() {
        let table =
            [("/run", 0), ("@x", 0), ("localhost", 0), ("127.0.0.1", 0), ("::1", 0), ("db", 1), ("10.0.0.1,::1,db", 2)];
        for (host, count) in table {
            let database = PooledDatabase { host: Some(host.to_owned()), ..PooledDatabase::default() };
            assert_eq!(database.distant_hosts().count(), count, "{host}");
        }
    }

    #[test]
    fn settings_are_numbers_and_times() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let settings = BTreeMap::from([pair("a", "1.5"), pair("b", "x")]);
        let pooler = Pooler { settings, ..Pooler::default() };
        assert_eq!((pooler.number("a"), pooler.number("b"), pooler.number("c")), (1, 0, 0));
        assert_eq!((pooler.time("a"), pooler.time("b")), (Duration::from_millis(1500), Duration::ZERO));
    }
}
