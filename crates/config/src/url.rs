//! `postgres://user:password@host:port/database?parameter=value` to a `Config`: one upstream or several, no file.
//!
//! ```text
//!   URL ─ text, parameters ─▶ ParsedUrl ─┐               the defaults of `run`
//!   URL ─ text, parameters ─▶ ParsedUrl ─┴─▶ values  ◀─ then  what the URLs ask for
//!                                                  then  variables PGWEIR_… of the environment
//!                                                  last  --listen, --pool-size
//! ```
//!
//! Promises libpq's reading of the URL and the order of libpq's sources: the URL, the environment, the password file.
//! Safe by default: clients prove the upstream's user and password by SCRAM; where there is no password they are
//! trusted, and then only on loopback addresses and Unix sockets. Never repeats a password in a message.
//= pg18 libpq-connect#LIBPQ-CONNSTRING-URIS

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ::settings::PoolSize;
use auth::{Password, Secret};
use connections::databases::{Address, CONSOLE_DATABASE, Database, Host, LoadBalanceHosts, TargetSessionAttrs};

use crate::built::Built;
use crate::config::Config;
use crate::databases::{NAME_LEN_MAX, host as parse_host};
use crate::encryption;
use crate::ini::Read;
use crate::load::{Draft, finish};
use crate::passfile::{self, Wanted};
use crate::problem::{Place, Problem, Severity, quoted};
use crate::settings::Values;
use ::settings::{Key, table};

mod parameters;
mod text;

use parameters::Parameters;
pub use parameters::VARIABLES;

/// Where libpq and Debian's libpq look for a Unix socket.
const SOCKET_DIRS: [&str; 2] = ["/var/run/postgresql", "/tmp"];
const PORT: u16 = 5432;
/// With several hosts the next is tried this soon after one has failed.
const LOGIN_RETRY: &str = "1";
/// Of all pools together, where their sizes are found and no file says otherwise: PostgreSQL takes 100 connections unless told
/// otherwise, keeps three of them for superusers, and others want some too.
//= pg18 runtime-config-connection#GUC-MAX-CONNECTIONS
pub const SERVERS_MAX: u32 = 90;

/// What `from_urls` needs besides the URLs.
#[derive(Copy, Clone)]
pub struct Upstream<'a> {
    /// Looks up an environment variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Settings that the environment has.
    pub assignments: &'a [Assignment],
    /// The contents of the password file, if it exists and other users cannot read it.
    pub passfile: Option<&'a str>,
    /// `host:port`, `host`, `port`, `:port` or `[v6]:port`; `*` is every address. `None`: 127.0.0.1:6432, unless the environment
    /// says otherwise.
    pub listen: Option<&'a str>,
    /// `None`: auto, unless the environment says otherwise.
    pub pool_size: Option<PoolSize>,
    /// What `workers = 0` stands for.
    pub cores: u16,
    pub built: Built,
}

/// A setting that a variable of the environment has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// As messages name it.
    pub variable: String,
    /// The setting's name; one that does not exist is warned of.
    pub name: String,
    pub text: String,
    /// It was in a file that the variable names: it may be secret, and no message repeats it.
    pub is_of_file: bool,
}

/// Reads URLs, each for a database of its own; one may have the database's name for clients in front of it, as in
/// `shop=postgres://…`. `read` reads files that settings name.
///
/// # Errors
/// All that is wrong: which part of a URL, or which variable.
pub fn from_urls(urls: &[String], upstream: &Upstream<'_>, read: &Read) -> Result<Config, Vec<Problem>> {
    let draft = draft(urls, upstream, &BTreeMap::new()).map_err(|problem| vec![problem])?;
    finish(draft, upstream.cores, read, None)
}

impl Config {
    /// Reads them again, as RELOAD does: what cannot change while the process runs stays as it is, and so does a password that is not found
    /// any more.
    ///
    /// # Errors
    /// As those of [`from_urls`]; also, that clients who have authenticated so far would be trusted from now on, and nothing says so.
    pub fn reload_urls(&self, urls: &[String], upstream: &Upstream<'_>, read: &Read) -> Result<Config, Vec<Problem>> {
        let draft = draft(urls, upstream, &self.values.url_users).map_err(|problem| vec![problem])?;
        if is_trusting(&draft.values) && !is_trusting(&self.values) && draft.values.place(Key::auth_type).is_none() {
            return Err(vec![wrong("password", "none", "one: clients have to authenticate now, and would be trusted")]);
        }
        self.reloaded(draft, read)
    }
}

fn is_trusting(values: &Values) -> bool {
    ["trust", "any"].contains(&values.choice(Key::auth_type))
}

/// What one URL says, with what it leaves to the environment and the password file.
struct ParsedUrl {
    /// The database, as clients call it.
    name: String,
    /// The database, as PostgreSQL calls it.
    dbname: String,
    user: String,
    password: Option<String>,
    hosts: Vec<Address>,
    parameters: Parameters,
}

/// `known`: passwords of the users so far.
fn draft(urls: &[String], upstream: &Upstream<'_>, known: &BTreeMap<String, Secret>) -> Result<Draft, Problem> {
    let mut urls = urls.iter().map(|url| parse(url, upstream)).collect::<Result<Vec<_>, _>>()?;
    let mut draft = Draft::default();
    for url in urls.iter_mut().filter(|url| url.password.is_none()) {
        let Some(Secret::Plain(password)) = known.get(&url.user) else { continue };
        let password = Some(password.as_str().to_owned()).filter(|password| !password.is_empty());
        if password.is_some() {
            let found = format!("none for user {} any more", quoted(&url.user));
            draft.problems.push(Problem::warning(
                &Place::default(),
                "password",
                found,
                "one: the last one stays".to_owned(),
            ));
        }
        url.password = password;
    }
    refuse_contradictions(&urls)?;
    draft.values.built = upstream.built;
    let has_passwords = urls.iter().all(|url| url.password.is_some());
    set_defaults(&mut draft.values, &urls, has_passwords)?;
    take_assignments(&mut draft, upstream.assignments);
    if let Some(text) = upstream.listen {
        let (address, port) = listen(text)?;
        set(&mut draft.values, Key::listen_addr, &address);
        set(&mut draft.values, Key::listen_port, &port.to_string());
    }
    if let Some(size) = upstream.pool_size {
        set(&mut draft.values, Key::default_pool_size, &size.to_string());
    }
    let is_found = draft.values.get(Key::default_pool_size).show() == PoolSize::Auto.to_string();
    if is_found && draft.values.place(Key::max_server_connections).is_none() {
        set(&mut draft.values, Key::max_server_connections, &SERVERS_MAX.to_string());
    }
    let is_wrong = |problem: &Problem| problem.severity == Severity::Error;
    if let Some(problem) = encryption::judge(&draft.values).into_iter().find(is_wrong) {
        return Err(problem);
    }
    let is_trusting = is_trusting(&draft.values);
    // The console belongs to the first user. Where anybody may say to be that one, they may only read there.
    let of_console = if has_passwords && !is_trusting { Key::admin_users } else { Key::stats_users };
    if draft.values.place(of_console).is_none() {
        set(&mut draft.values, of_console, &urls[0].user);
    }
    if is_trusting {
        draft.problems.extend(trust_warning(&urls, draft.values.text(Key::listen_addr))?);
    }
    // The upstream is a whole server: its other databases are there under their own names.
    if let [url] = &urls[..] {
        draft.url_databases.push(Database { name: "*".to_owned(), ..database(url) });
    }
    for url in urls {
        draft
            .url_databases
            .push(Database { dbname: (url.dbname != url.name).then(|| url.dbname.clone()), ..database(&url) });
        if is_trusting || url.password.is_some() {
            let secret = Secret::Plain(Password::new(url.password.unwrap_or_default()));
            draft.values.url_users.insert(url.user, secret);
        }
    }
    Ok(draft)
}

fn parse(url: &str, upstream: &Upstream<'_>) -> Result<ParsedUrl, Problem> {
    let (name, url) = text::named(url);
    let mut parameters = text::split(url)?;
    parameters.fill_from(upstream.env);
    let user = parameters
        .get("user")
        .map(str::to_owned)
        .or_else(|| (upstream.env)("USER").or_else(|| (upstream.env)("LOGNAME")))
        .filter(|user| !user.is_empty())
        .ok_or_else(|| wrong("user", "nothing", "postgres://USER@host, or PGUSER"))?;
    let dbname = parameters.get("dbname").unwrap_or(&user).to_owned();
    let name = name.unwrap_or(&dbname).to_owned();
    if name == CONSOLE_DATABASE {
        let expected = "another name, as in other=postgres://…: this one is the console's";
        return Err(wrong("database", &quoted(&name), expected));
    }
    if name.is_empty() || name.len() > NAME_LEN_MAX {
        let expected = format!("a name of 1 to {NAME_LEN_MAX} bytes");
        return Err(wrong("database", &format!("a name of {} bytes", name.len()), &expected));
    }
    let hosts = hosts(&parameters)?;
    let password = password(&parameters, &hosts, &dbname, &user, upstream.passfile);
    Ok(ParsedUrl { name, dbname, user, password, hosts, parameters })
}

/// Several URLs must not contradict each other.
fn refuse_contradictions(urls: &[ParsedUrl]) -> Result<(), Problem> {
    for (index, url) in urls.iter().enumerate() {
        let others = &urls[..index];
        if others.iter().any(|other| other.name == url.name) {
            let expected = "another name for one of them, as in other=postgres://…";
            return Err(wrong("database", &format!("{} in two URLs", quoted(&url.name)), expected));
        }
        if others.iter().any(|other| other.user == url.user && other.password != url.password) {
            let found = format!("two passwords for user {}", quoted(&url.user));
            return Err(wrong("password", &found, "one, since clients of all databases prove it"));
        }
    }
    let without = urls.iter().find(|url| url.password.is_none());
    match without.filter(|_| urls.iter().any(|url| url.password.is_some())) {
        None => Ok(()),
        Some(url) => {
            let found = format!("none for user {}", quoted(&url.user));
            Err(wrong("password", &found, "one for each URL, or for none of them"))
        }
    }
}

/// What holds unless the environment or the command line says otherwise.
fn set_defaults(values: &mut Values, urls: &[ParsedUrl], has_passwords: bool) -> Result<(), Problem> {
    let (address, port) = listen("")?;
    set(values, Key::pool_mode, "transaction");
    set(values, Key::default_pool_size, &PoolSize::Auto.to_string());
    set(values, Key::max_client_conn, "0");
    set(values, Key::observe_when, "always");
    set(values, Key::listen_addr, &address);
    set(values, Key::listen_port, &port.to_string());
    // Java's driver always sends it, and since PostgreSQL 12 all values that it sends mean the same.
    set(values, Key::ignore_startup_parameters, "extra_float_digits");
    set(values, Key::auth_type, if has_passwords { "scram-sha-256" } else { "trust" });
    if urls.iter().any(|url| url.hosts.len() > 1) {
        set(values, Key::server_login_retry, LOGIN_RETRY);
    }
    let mut asked: Vec<(Key, String)> = Vec::new();
    for url in urls {
        let mut contradiction = None;
        url.parameters.apply(&mut |key: Key, text: &str| match asked.iter().find(|(earlier, _)| *earlier == key) {
            Some((_, earlier)) if earlier != text => contradiction = Some(key),
            Some(_) => {}
            None => asked.push((key, text.to_owned())),
        })?;
        if let Some(key) = contradiction {
            return Err(wrong(key.name(), "two values in the URLs", "one, since it holds for all servers"));
        }
    }
    for (key, text) in asked {
        set(values, key, &text);
    }
    Ok(())
}

fn set(values: &mut Values, key: Key, text: &str) {
    let value = key.setting().kind.read(text);
    values.set(key, value.expect("written here or checked before"), None);
}

/// What is wrong with one is said with the variable's name.
fn take_assignments(draft: &mut Draft, assignments: &[Assignment]) {
    for Assignment { variable, name, text, is_of_file } in assignments {
        let told = draft.problems.len();
        match table::find(name) {
            // Not set, as Compose has a variable without a value.
            Some(setting) if text.is_empty() && !setting.kind.takes_empty() => {}
            Some(setting) if setting.key == Key::conffile => {
                let expected = "nothing: a file is named on the command line, and then variables do not count";
                draft.problems.push(wrong(name, "the name of a file", expected));
            }
            _ => draft.setting(Place::default(), name, text),
        }
        for problem in &mut draft.problems[told..] {
            problem.key = Some(variable.clone());
            if *is_of_file {
                problem.found = "what its file has".to_owned();
            }
            // It may be somebody else's.
            if table::find(name).is_none() {
                problem.severity = Severity::Warning;
            }
        }
    }
}

fn database(url: &ParsedUrl) -> Database {
    let load_balance_hosts = match url.parameters.get("load_balance_hosts") {
        Some("random") => LoadBalanceHosts::RoundRobin,
        // libpq takes the first host that answers.
        _ => LoadBalanceHosts::Disable,
    };
    let startup = url.parameters.startup();
    let wanted = url.parameters.get("target_session_attrs").and_then(TargetSessionAttrs::parse);
    let target_session_attrs = wanted.unwrap_or_default();
    Database { load_balance_hosts, target_session_attrs, startup, ..Database::new(&url.name, url.hosts.clone()) }
}

/// Clients of other machines must authenticate.
fn trust_warning(urls: &[ParsedUrl], listen_addr: &str) -> Result<Vec<Problem>, Problem> {
    let Some(url) = urls.iter().find(|url| url.password.is_none()) else { return Ok(Vec::new()) };
    let user = &url.user;
    if !listen_addr.split(',').all(|address| is_loopback(address.trim())) {
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
    addr.is_empty()
        || addr.eq_ignore_ascii_case("localhost")
        || addr.parse::<IpAddr>().is_ok_and(|addr| addr.is_loopback())
}

/// `host:port` in its forms, or either alone; the defaults are 127.0.0.1 and 6432.
///
/// # Errors
/// It is none of them.
pub fn listen(text: &str) -> Result<(String, u16), Problem> {
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
