//! `postgres://user:password@host:port/database?parameter=value` to a `Config`: one upstream, no file.
//!
//! Promises libpq's reading of the URL and the order of libpq's sources: the URL, the environment, the password file.
//! Safe by default: clients prove the upstream's user and password by SCRAM; where there is no password they are
//! trusted, and then only on loopback addresses and Unix sockets. Never repeats a password in a message.
//= pg18 libpq-connect#LIBPQ-CONNSTRING-URIS

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ::settings::PoolSize;
use auth::{Password, Secret};
use connections::databases::{Address, Database, Host, LoadBalanceHosts};

use crate::config::{Config, assemble};
use crate::databases::host as parse_host;
use crate::encryption;
use crate::passfile::{self, Wanted};
use crate::problem::{Place, Problem, Severity, quoted};
use crate::settings::{self, Values};
use ::settings::Key;

mod parameters;
mod text;

use parameters::Parameters;

/// Where libpq and Debian's libpq look for a Unix socket.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
const PORT: u16 = 5432;
/// With several hosts the next is tried this soon after one has failed.
const LOGIN_RETRY: &str = "1";
/// Of all pools together, where their sizes are found and no file says otherwise: PostgreSQL takes 100 connections unless told
/// otherwise, keeps three of them for superusers, and others want some too.
//= pg18 runtime-config-connection#GUC-MAX-CONNECTIONS
pub const SERVERS_MAX: u32 = 90;

/// What `from_url` needs besides the URL.
#[derive(Copy, Clone)]
pub struct Upstream<'a> {
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The contents of the password file, if it exists and other users cannot read it.
    pub passfile: Option<&'a str>,
    /// `host:port`, `host`, `port`, `:port` or `[v6]:port`; `*` is every address.
    pub listen: &'a str,
    pub pool_size: PoolSize,
    /// What `workers = 0` stands for.
    pub cores: u16,
}

/// Reads a URL. The error says which part of it, or which variable, is wrong.
pub fn from_url(url: &str, upstream: &Upstream) -> Result<Config, Problem> {
    let mut parameters = text::split(url)?;
    parameters.fill_from(upstream.env);
    let user = parameters
        .get("user")
        .map(str::to_owned)
        .or_else(|| (upstream.env)("USER").or_else(|| (upstream.env)("LOGNAME")))
        .filter(|user| !user.is_empty())
        .ok_or_else(|| wrong("user", "nothing", "postgres://USER@host, or PGUSER"))?;
    let name = parameters.get("dbname").unwrap_or(&user).to_owned();
    let hosts = hosts(&parameters)?;
    let password = password(&parameters, &hosts, &name, &user, upstream.passfile);
    let (listen_addr, listen_port) = listen(upstream.listen)?;

    let mut values = Values::default();
    let mut set = |key: Key, text: &str| {
        let value = key.setting().kind.read(text);
        values.set(key, value.expect("written here or checked before"), None);
    };
    set(Key::pool_mode, "transaction");
    set(Key::default_pool_size, &upstream.pool_size.to_string());
    if upstream.pool_size == PoolSize::Auto {
        set(Key::max_server_connections, &SERVERS_MAX.to_string());
    }
    set(Key::max_client_conn, "0");
    set(Key::listen_addr, &listen_addr);
    set(Key::listen_port, &listen_port.to_string());
    // The console belongs to this user. Without authentication, local clients have only read rights there.
    set(if password.is_some() { Key::admin_users } else { Key::stats_users }, &user);
    // Java's driver always sends it, and since PostgreSQL 12 all values that it sends mean the same.
    set(Key::ignore_startup_parameters, "extra_float_digits");
    let auth_type = if password.is_some() { "scram-sha-256" } else { "trust" };
    set(Key::auth_type, auth_type);
    if hosts.len() > 1 {
        set(Key::server_login_retry, LOGIN_RETRY);
    }
    parameters.apply(&mut set)?;
    if let Some(problem) = encryption::judge(&values).into_iter().find(|problem| problem.severity == Severity::Error) {
        return Err(problem);
    }

    let warnings = trust_warning(&password, &listen_addr, &user)?;
    let mut pooling = settings::pooling(&values, upstream.cores);
    let database = database(&name, hosts, &parameters);
    // The upstream is a whole server: its other databases are there under their own names.
    pooling.fallback = Some(Arc::new(Database { name: "*".to_owned(), ..database.clone() }));
    pooling.databases.insert(name, Arc::new(database));
    let secret = Secret::Plain(Password::new(password.unwrap_or_default()));
    pooling.secrets.insert(user, secret);
    Ok(assemble(values, pooling, warnings))
}

fn database(name: &str, hosts: Vec<Address>, parameters: &Parameters) -> Database {
    let load_balance_hosts = match parameters.get("load_balance_hosts") {
        Some("random") => LoadBalanceHosts::RoundRobin,
        // libpq takes the first host that answers.
        _ => LoadBalanceHosts::Disable,
    };
    Database { load_balance_hosts, startup: parameters.startup(), ..Database::new(name, hosts) }
}

/// Clients of other machines must authenticate.
fn trust_warning(password: &Option<String>, listen_addr: &str, user: &str) -> Result<Vec<Problem>, Problem> {
    if password.is_some() {
        return Ok(Vec::new());
    }
    if !is_loopback(listen_addr) {
        let found = format!("none for user {} while listening on {}", quoted(user), quoted(listen_addr));
        let expected = "one in the URL, PGPASSWORD or ~/.pgpass, or a loopback address to listen on";
        return Err(wrong("password", &found, expected));
    }
    let found = format!("none for user {}", quoted(user));
    let expected = "one: without, everybody on this machine may log in as that user".to_owned();
    let place = Place::default();
    Ok(vec![Problem::warning(&place, "password", found, expected)])
}

fn is_loopback(addr: &str) -> bool {
    addr.eq_ignore_ascii_case("localhost") || addr.parse::<IpAddr>().is_ok_and(|addr| addr.is_loopback())
}

/// `host:port` in its forms, or either alone; the defaults are 127.0.0.1 and 6432.
fn listen(text: &str) -> Result<(String, u16), Problem> {
    let default_port = 6432;
    let refused = || {
        let expected = "a port from 1 to 65535, an address, or both, such as 6432, 10.0.0.5, *:6432 or [::1]:6432";
        wrong("--listen", &quoted(text), expected)
    };
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return if addr.port() > 0 { Ok((addr.ip().to_string(), addr.port())) } else { Err(refused()) };
    }
    // No host is called by a number alone.
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let port = text.parse().ok().filter(|port| *port > 0);
        return port.map(|port| ("127.0.0.1".to_owned(), port)).ok_or_else(refused);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok((ip.to_string(), default_port));
    }
    let (host, port) = match text.rsplit_once(':') {
        None => (text, Some(default_port)),
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)),
    };
    let host = if host.is_empty() { "127.0.0.1" } else { host };
    let is_host = host == "*" || matches!(parse_host(host), Some(Host::Ip(_) | Host::Name(_)));
    match port {
        Some(port) if is_host && !host.contains([':', ',']) => Ok((host.to_owned(), port)),
        _ => Err(refused()),
    }
}

/// The addresses in order. A port counts for all hosts, or there is one for each.
fn hosts(parameters: &Parameters) -> Result<Vec<Address>, Problem> {
    let ports: Vec<&str> = parameters.get("port").unwrap_or("").split(',').collect();
    let names = parameters.get("hostaddr").or(parameters.get("host"));
    let names: Vec<&str> = match names {
        Some(names) => names.split(',').collect(),
        None => SOCKET_DIRS.to_vec(),
    };
    if ports.len() > 1 && ports.len() != names.len() {
        let found = format!("{} ports for {} hosts", ports.len(), names.len());
        return Err(wrong("port", &found, "one port, or one for each host"));
    }
    let mut hosts = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let port = match ports.get(index).or(ports.first()) {
            None | Some(&"") => PORT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| wrong("port", &quoted(text), "a number from 1 to 65535"))?,
        };
        // A missing name among several is libpq's default too.
        let name = if name.is_empty() { SOCKET_DIRS[0] } else { name };
        let host = parse_host(name)
            .ok_or_else(|| wrong("host", &quoted(name), "an address, a name, or the directory of a Unix socket"))?;
        hosts.push(Address { host, port });
    }
    Ok(hosts)
}

/// From the URL or PGPASSWORD, else from the password file for the first host.
fn password(
    parameters: &Parameters,
    hosts: &[Address],
    database: &str,
    user: &str,
    passfile: Option<&str>,
) -> Option<String> {
    if let Some(password) = parameters.get("password") {
        return Some(password.to_owned());
    }
    let first = hosts.first().expect("there is at least one host");
    let name = parameters.get("host").and_then(|names| names.split(',').next());
    let host = match name {
        Some(dir) if SOCKET_DIRS.contains(&dir) => "localhost",
        Some(name) if !name.is_empty() => name,
        _ => parameters.get("hostaddr").unwrap_or("localhost"),
    };
    let wanted = Wanted { host, port: first.port, database, user };
    passfile::find(passfile?, wanted)
}

fn wrong(part: &str, found: &str, expected: &str) -> Problem {
    Problem::error(&Place::default(), part, found.to_owned(), expected.to_owned())
}

/// libpq counts whole seconds, never less than two; 0 and below mean for ever.
fn connect_timeout(text: &str) -> Option<Duration> {
    let seconds: i64 = text.trim().parse().ok()?;
    Some(match u64::try_from(seconds) {
        Ok(0) | Err(_) => Duration::ZERO,
        Ok(seconds) => Duration::from_secs(seconds.max(2)),
    })
}

#[cfg(test)]
mod tests;
