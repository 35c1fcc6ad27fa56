//! What a file says of the pooler, and where it leads: to the console, and to PostgreSQL.
//!
//! Promises to take only what the file has: its own users and their passwords.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use ::doctor::{PooledDatabase, Pooler, Secrets};
use ask::{Encryption, Target};
use auth::Secret;
use config::{Config, Problem};
use connections::databases::{Address, CONSOLE_DATABASE, Database, Host};

use crate::settings;

/// So many are tried for each of both: each may take some seconds.
const TRIES_MAX: usize = 4;

pub(super) struct OfFile {
    pub(super) pooler: Pooler,
    /// Ways to the console, the likeliest first.
    pub(super) consoles: Vec<Target>,
    /// Ways to PostgreSQL.
    pub(super) servers: Vec<Target>,
}

/// # Errors
/// All that is wrong with the file.
pub(super) fn read(file: &Path) -> Result<OfFile, String> {
    let problems = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ");
    let config = settings::load(file, settings::cores()).map_err(problems)?;
    let pooler = Pooler {
        place: file.display().to_string(),
        settings: config.rows.iter().map(|row| (row.key.to_owned(), row.value.clone().unwrap_or_default())).collect(),
        databases: config.pooling.databases.values().map(|database| pooled(&config, database)).collect(),
        secrets: Some(secrets(&config, file)),
        ..Pooler::default()
    };
    let servers = servers(&config)?;
    Ok(OfFile { pooler, consoles: consoles(&config), servers })
}

/// As SHOW DATABASES has it.
fn pooled(config: &Config, database: &Database) -> PooledDatabase {
    let (own, pools) = (&database.settings, &config.pooling.global.pools);
    let hosts: Vec<String> = database.hosts.iter().map(host).collect();
    PooledDatabase {
        name: database.name.clone(),
        host: Some(hosts.join(",")),
        port: database.hosts.first().map_or(0, |address| address.port),
        database: database.name_at_server().to_owned(),
        forced_user: database.forced_user.clone(),
        size: own.pool_size.unwrap_or(pools.default_pool_size).most(pools),
        reserve: own.reserve_pool_size.unwrap_or(pools.reserve_pool_size),
        connections_max: own.max_db_connections.unwrap_or(pools.max_db_connections),
        target_session_attrs: Some(database.target_session_attrs.as_str().to_owned()),
    }
}

fn host(address: &Address) -> String {
    match &address.host {
        Host::Unix(dir) => dir.clone(),
        Host::Ip(ip) => ip.to_string(),
        Host::Name(name) => name.clone(),
    }
}

fn secrets(config: &Config, file: &Path) -> Secrets {
    let plain = config.pooling.secrets.iter().filter(|(_, secret)| plain(secret).is_some());
    let mut names: Vec<String> = plain.map(|(name, _)| name.clone()).collect();
    let of_users = config.rows.iter().find(|row| row.key == "auth_file").and_then(|row| row.value.clone());
    let of_users = of_users.filter(|name| !name.is_empty() && !names.is_empty());
    let is_forced = |database: &&std::sync::Arc<Database>| database.password.as_ref().is_some_and(plain_of);
    let forced =
        config.pooling.databases.values().filter(is_forced).map(|database| format!("of database {}", database.name));
    let forced: Vec<String> = forced.collect();
    let own = (!forced.is_empty()).then(|| file.display().to_string());
    names.extend(forced);
    let files: Vec<String> = of_users.into_iter().chain(own).collect();
    let open = files.iter().find(|name| is_open(Path::new(name)));
    Secrets { file: open.or(files.first()).cloned().unwrap_or_default(), plain: names, is_open: open.is_some() }
}

fn is_open(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0)
}

fn plain(secret: &Secret) -> Option<&str> {
    match secret {
        Secret::Plain(password) => Some(password.as_str()).filter(|password| !password.is_empty()),
        Secret::Md5(_) | Secret::Scram(_) => None,
    }
}

fn plain_of(secret: &Secret) -> bool {
    plain(secret).is_some()
}

/// By the socket, where the process's own user is let in; else as those who may use it and whose password is in the file.
//= pgbouncer usage.md#admin-console
fn consoles(config: &Config) -> Vec<Target> {
    let global = &config.pooling.global;
    let port = global.listening.listen_port;
    let target = |host: &str, user: &str, password: Option<&str>| Target {
        address: None,
        host: host.to_owned(),
        port,
        user: user.to_owned(),
        password: password.map(str::to_owned),
        database: CONSOLE_DATABASE.to_owned(),
        verifier: None,
        encryption: None,
    };
    let socket = global.listening.unix_socket_dir.iter().map(|dir| target(dir, CONSOLE_DATABASE, None));
    let first = global.listening.listen_addr.first().map(String::as_str);
    let here = match first {
        Some("*" | "0.0.0.0" | "::") | None => "127.0.0.1",
        Some(address) => address,
    };
    let users: BTreeSet<&String> = global.console.admin_users.iter().chain(&global.console.stats_users).collect();
    let known = users.into_iter().map(|user| (user, config.pooling.secrets.get(user).and_then(plain)));
    let by_password = known.map(|(user, password)| target(here, user, password));
    socket.chain(by_password).take(TRIES_MAX).collect()
}

/// The database that is looked at behind the entry `*`, which names none: each server has it.
const FALLBACK_DATABASE: &str = "postgres";

/// The entries of `[databases]`, the file's first one first, and `*` last unless it is the first.
fn databases(config: &Config) -> Vec<(String, &Database)> {
    let named = config
        .pooling
        .databases
        .iter()
        .map(|(key, database)| (key.as_str(), database.name_at_server().to_owned(), &**database));
    let any =
        config.pooling.fallback.as_ref().map(|database| {
            ("*", database.dbname.clone().unwrap_or_else(|| FALLBACK_DATABASE.to_owned()), &**database)
        });
    let mut all: Vec<_> = named.chain(any).collect();
    all.sort_by_key(|(key, ..)| config.first_database.as_deref() != Some(key));
    all.into_iter().map(|(_, name, database)| (name, database)).collect()
}

/// As the observer's user, else the forced one, else any whose password is in the file.
fn servers(config: &Config) -> Result<Vec<Target>, String> {
    let encryption = Encryption::of(&config.pooling.global.tls)?;
    let mut servers = Vec::new();
    for (name, database) in databases(config) {
        let of = |user: &String| config.pooling.secrets.get(user).and_then(plain).map(str::to_owned);
        let own = database.password.as_ref().and_then(plain).map(str::to_owned);
        let observer = config.pooling.global.observing.observe_user.as_ref();
        let observer = observer.and_then(|user| Some((user.clone(), Some(of(user)?))));
        let users: Vec<(String, Option<String>)> = match &database.forced_user {
            Some(user) => vec![(user.clone(), own.or_else(|| of(user)))],
            None => config.pooling.secrets.keys().filter_map(|user| Some((user.clone(), Some(of(user)?)))).collect(),
        };
        for (user, password) in observer.into_iter().chain(users) {
            let at = |address| programs::url::at(address, user, password, name.clone(), encryption.clone());
            servers.extend(database.hosts.first().map(at));
        }
    }
    servers.truncate(TRIES_MAX);
    Ok(servers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The databases that are tried at PostgreSQL, in their order.
    fn tried(databases: &str) -> Vec<(String, String)> {
        let text = format!("[databases]\n{databases}\n[pgbouncer]\nauth_type = any\n");
        let config = config::load_with("weir.ini", 1, settings::built(), &|_| Ok(text.clone().into_bytes()));
        let config = config.expect("a sound file");
        let servers = servers(&config).expect("no files of TLS");
        servers.into_iter().map(|target| (target.host, target.database)).collect()
    }

    #[test]
    fn the_first_database_of_the_file_is_tried_first_and_a_star_is_tried_too() {
        let of = |host: &str, database: &str| (host.to_owned(), database.to_owned());
        let both = "shop = host=10.0.0.2 user=u\nauth = host=10.0.0.1 user=u dbname=users";
        assert_eq!(tried(both), [of("10.0.0.2", "shop"), of("10.0.0.1", "users")]);
        assert_eq!(tried("* = host=10.0.0.3 user=u"), [of("10.0.0.3", "postgres")]);
        let star = "* = host=10.0.0.3 user=u\nauth = host=10.0.0.1 user=u";
        assert_eq!(tried(star), [of("10.0.0.3", "postgres"), of("10.0.0.1", "auth")]);
    }
}
