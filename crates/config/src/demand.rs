//! How many connections each PostgreSQL must allow at worst: the sum of the pools, held against the limits.
//!
//! Promises an upper bound that no setting lets the pooler exceed. Several hosts of one database count in full for each
//! of them, since all connections may end up at one. Not counted, but told apart: databases that `*` makes, whose number clients
//! choose, and the pools of users who stand in no file.

use std::collections::BTreeMap;

use auth::Secret;
use connections::databases::{Address, Database};
use hba::{Method, Rule};
use machine::Settings;
use settings::{AuthType, PoolSize};

/// One server's share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub address: Address,
    pub connections: u64,
    /// The names of the databases that lead there.
    pub databases: Vec<String>,
    /// What each further name adds that a client makes up, if `*` leads there.
    pub each_further_name: Option<u64>,
    /// What each further user adds at most whom auth_file does not name, if such users may log in and nothing limits their sum.
    pub each_further_user: Option<u64>,
}

/// Whether users may log in to this database whom auth_file does not name, each to a pool of its own: who they are is looked up, or known
/// to others.
#[must_use]
pub(crate) fn is_open(settings: &Settings, database: &Database) -> bool {
    let auth_type = settings.auth_type(&database.name);
    database.forced_user.is_none() && (looks_up(settings, database) || others_know(settings, auth_type))
}

/// Whether users of a database need not be in auth_file.
#[must_use]
pub(crate) fn looks_up(settings: &Settings, database: &Database) -> bool {
    settings.global.login.auth_user.is_some() || database.auth_user.is_some()
}

/// Whether by this method users are known to others.
#[must_use]
pub(crate) fn others_know(settings: &Settings, auth_type: AuthType) -> bool {
    let is_theirs = |rule: &Rule| matches!(rule.method, Method::Ldap | Method::OAuth | Method::Pam | Method::Gss);
    match auth_type {
        AuthType::Ldap | AuthType::OAuth | AuthType::Pam => true,
        AuthType::Hba => settings.hba.as_slice().iter().any(is_theirs),
        AuthType::Any | AuthType::Trust | AuthType::Plain | AuthType::Md5 => false,
        AuthType::Scram | AuthType::Cert | AuthType::Peer => false,
    }
}

/// `None` if there can be none, or their sum has a limit that `connections` has taken into account.
fn each_further_user(settings: &Settings, databases: &[&Database]) -> Option<u64> {
    let unlimited =
        databases.iter().filter(|database| is_open(settings, database) && limit_of(settings, database) == 0);
    let each: u64 = unlimited.map(|database| size_for_further_user(settings, database)).sum();
    (each > 0 && settings.global.pools.max_server_connections == 0).then_some(each)
}

/// The pool of a user of whom nothing is said.
#[must_use]
pub(crate) fn size_for_further_user(settings: &Settings, database: &Database) -> u64 {
    capped(pool_size(settings, database, ""), settings.global.pools.max_user_connections)
}

fn limit_of(settings: &Settings, database: &Database) -> u32 {
    database.settings.max_db_connections.unwrap_or(settings.global.pools.max_db_connections)
}

/// One entry for each address, in the order of addresses.
#[must_use]
pub(crate) fn worst(settings: &Settings) -> Vec<Demand> {
    let mut by_address: BTreeMap<&Address, (Vec<&Database>, Option<u64>)> = BTreeMap::new();
    for database in settings.databases.values() {
        for address in &database.hosts {
            let databases = &mut by_address.entry(address).or_default().0;
            // A host that is listed twice is still one server.
            if !databases.iter().any(|other| other.name == database.name) {
                databases.push(database);
            }
        }
    }
    for database in settings.fallback.iter() {
        for address in &database.hosts {
            let limit = bound(settings, &[database]);
            by_address.entry(address).or_default().1 = Some(limit);
        }
    }
    let demands = by_address.into_iter().map(|(address, (databases, each_further_name))| Demand {
        address: address.clone(),
        connections: bound(settings, &databases),
        databases: databases.iter().map(|database| database.name.clone()).collect(),
        each_further_name,
        each_further_user: each_further_user(settings, &databases),
    });
    demands.collect()
}

/// Connections that the pools of all databases may have together, counted until there are `enough`: quick for thousands of
/// users of thousands of databases. Not subtracted: what max_user_connections keeps pools of one user from having.
#[must_use]
pub(crate) fn at_most(settings: &Settings, enough: u64) -> u64 {
    let mut sum = 0;
    let databases = settings.databases.values().chain(settings.fallback.as_ref());
    for database in databases {
        sum += of_database_at_most(settings, database, enough.saturating_sub(sum));
        if sum >= enough {
            return enough;
        }
    }
    capped(sum, settings.global.pools.max_server_connections)
}

fn of_database_at_most(settings: &Settings, database: &Database, enough: u64) -> u64 {
    let enough = capped(enough, limit_of(settings, database));
    let mut sum = 0;
    let mut suffices = |user: &str| {
        sum += pool_size(settings, database, user);
        sum >= enough
    };
    match &database.forced_user {
        Some(user) => _ = suffices(user),
        None if is_open(settings, database) => return enough,
        None => _ = settings.secrets.iter().any(|(user, secret)| may_log_in(settings, secret) && suffices(user)),
    }
    sum.min(enough)
}

/// The users that can log in at all: an empty password allows no login, and SCRAM cannot check an md5 hash.
#[must_use]
fn can_log_in(auth_type: AuthType, secret: &Secret) -> bool {
    match (auth_type, secret) {
        (
            AuthType::Any
            | AuthType::Trust
            | AuthType::Peer
            | AuthType::Cert
            | AuthType::Hba
            | AuthType::Ldap
            | AuthType::OAuth
            | AuthType::Pam,
            _,
        ) => true,
        (_, Secret::Plain(password)) => !password.as_str().is_empty(),
        (AuthType::Scram, Secret::Md5(_)) => false,
        _ => true,
    }
}

/// The same, by what is asked for anywhere.
#[must_use]
pub(crate) fn may_log_in(settings: &Settings, secret: &Secret) -> bool {
    let own = settings.databases.values().chain(&settings.fallback).filter_map(|entry| entry.settings.auth_type);
    own.chain([settings.global.login.auth_type]).any(|auth_type| can_log_in(auth_type, secret))
}

fn able_users(settings: &Settings) -> Vec<&str> {
    let able = settings.secrets.iter().filter(|(_, secret)| may_log_in(settings, secret));
    able.map(|(name, _)| name.as_str()).collect()
}

/// The users under whose names a database's pools can be, each with the size of its pool.
#[must_use]
pub(crate) fn pools<'a>(settings: &'a Settings, database: &'a Database) -> Vec<(&'a str, u64)> {
    let users: Vec<&str> = match &database.forced_user {
        Some(user) => vec![user],
        // Then names do not count, so there is none to log in with.
        None if settings.auth_type(&database.name) == AuthType::Any => Vec::new(),
        None => able_users(settings),
    };
    users.into_iter().map(|user| (user, pool_size(settings, database, user))).collect()
}

/// With the reserve.
fn pool_size(settings: &Settings, database: &Database, user: &str) -> u64 {
    let own = settings.effective(database, user);
    let reserve = if settings.global.pools.reserve_pool_timeout.is_some() { own.reserve_pool_size } else { 0 };
    u64::from(own.pool_size.most(&settings.global.pools)) + u64::from(reserve)
}

/// What the settings say of a pool's size: user over database over global.
#[must_use]
pub(crate) fn size_of(settings: &Settings, database: &Database, user: Option<PoolSize>) -> PoolSize {
    user.or(database.settings.pool_size).unwrap_or(settings.global.pools.default_pool_size)
}

fn of_database(settings: &Settings, database: &Database) -> u64 {
    let limit = limit_of(settings, database);
    if is_open(settings, database) && limit > 0 {
        return u64::from(limit);
    }
    let pools = pools(settings, database).into_iter().map(|(_, size)| size).sum();
    capped(pools, limit)
}

fn bound(settings: &Settings, databases: &[&Database]) -> u64 {
    let most = settings.global.pools.max_server_connections;
    // Of further users nobody knows how many there are.
    if databases.iter().any(|database| is_open(settings, database)) {
        let is_unlimited = |database: &&Database| is_open(settings, database) && limit_of(settings, database) == 0;
        let unlimited = databases.iter().any(is_unlimited);
        return if unlimited && most > 0 { most.into() } else { capped(by_databases(settings, databases), most) };
    }
    capped(by_databases(settings, databases).min(by_users(settings, databases)), most)
}

fn by_databases(settings: &Settings, databases: &[&Database]) -> u64 {
    databases.iter().map(|database| of_database(settings, database)).sum()
}

fn by_users(settings: &Settings, databases: &[&Database]) -> u64 {
    let mut users: BTreeMap<&str, u64> = BTreeMap::new();
    for database in databases {
        for (user, size) in pools(settings, database) {
            *users.entry(user).or_default() += size;
        }
    }
    let limit = |user: &str| {
        let own = settings.users.get(user).and_then(|user| user.max_user_connections);
        own.unwrap_or(settings.global.pools.max_user_connections)
    };
    users.into_iter().map(|(user, pools)| capped(pools, limit(user))).sum()
}

/// 0 is no limit.
fn capped(connections: u64, limit: u32) -> u64 {
    if limit == 0 { connections } else { connections.min(u64::from(limit)) }
}
