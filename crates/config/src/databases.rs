//! `[databases]`: names that clients use, and where each of them leads.
//!
//! Promises entries that can be connected to: at least one host, a port, no reserved name. Parameters that would need
//! what is not supported yet are refused where passing them over would allow a login or connect elsewhere.
//= pgbouncer config.md#section-databases

use std::net::IpAddr;

use ::settings::{DatabaseSettings, HttpUrl};
use connections::databases::{Address, CONSOLE_DATABASE, Database, Host, LoadBalanceHosts, TargetSessionAttrs};

use crate::entry::{Entry, EntryReader, Parameter};
use crate::ini::Read;
use crate::password::Source;
use crate::problem::{Problem, quoted};

/// PostgreSQL's names are shorter; PgBouncer's may be this long.
pub const NAME_LEN_MAX: usize = 127;
/// The largest number of hosts.
const HOSTS_MAX: usize = 256;
/// Each is asked by a thread of its own.
const PATRONI_URLS_MAX: usize = 32;
const PORT: u16 = 5432;

#[rustfmt::skip]
const FIRST: &[Parameter] = &[
    Parameter::new("host", "Address, name or socket directory (`/dir`, `@abstract`) of PostgreSQL; several with commas. Default: the Unix socket in unix_socket_dir."),
    Parameter::new("port", "Default: 5432."),
    Parameter::new("dbname", "The database's name at the server. Default: the name that the client used."),
    Parameter::new("user", "The user as which pgweir logs in at the server, for all clients. Default: the client's user."),
    Parameter::new("password", "The password of `user`. Default: the one in auth_file."),
    Parameter::new("password_file", "A file with the password of `user`, read again at each RELOAD."),
    Parameter::new("password_env", "The name of the environment variable that has the password of `user`."),
];

#[rustfmt::skip]
const LAST: &[Parameter] = &[
    Parameter::new("load_balance_hosts", "`round-robin`: each new connection goes to the next host. `disable`: stay with a host until a connection to it fails."),
    Parameter::new("connect_query", "Sent on every new server connection, and again when pgweir has sent it DISCARD ALL: it may run more than once. What it sets, every session begins with."),
    Parameter::new("client_encoding", "Asked for at the server's login."),
    Parameter::new("datestyle", "Asked for at the server's login."),
    Parameter::new("timezone", "Asked for at the server's login."),
    Parameter::new("application_name", "Asked for at the server's login."),
    Parameter::new("target_session_attrs", "Which of its hosts pgweir uses, as in libpq: `any`, `read-write`, `read-only`, `primary`, `standby`, `prefer-standby`."),
    Parameter::new("patroni_urls", "Where the REST API of its hosts' Patroni is, such as `http://10.0.0.1:8008`; several with commas, best all of them. Who leads there is a hint about the primary: `SHOW HOSTS` and the log show it."),
    Parameter::new("auth_user", "In place of the global setting."),
    Parameter::new("auth_query", "In place of the global setting."),
    Parameter::new("auth_dbname", "In place of the global setting."),
    Parameter::new("reserve_pool", "Another name for reserve_pool_size."),
];

/// Of `[databases]`: where it leads, each setting that a database may have, and what else is asked of the server.
#[must_use]
pub fn parameters() -> Vec<Parameter> {
    let settings = DatabaseSettings::NAMES.iter().map(|(name, key)| {
        let parameter = Parameter::in_place_of(name, *key, false);
        match *name {
            "reserve_pool_size" => {
                let doc = "In place of the global setting; `reserve_pool` is another name for it.";
                Parameter::new(parameter.name, doc)
            }
            _ => parameter,
        }
    });
    FIRST.iter().cloned().chain(settings).chain(LAST.iter().cloned()).collect()
}

/// An entry before it is known in which directory PostgreSQL's Unix sockets are.
struct DatabaseDraft {
    database: Database,
    host: Option<String>,
    port: u16,
    password: Option<Source>,
}

/// Reads one entry; `None` if it cannot be used, with the reasons in `problems`.
pub(crate) fn read(entry: &Entry, unix_socket_dir: &str, read: &Read, problems: &mut Vec<Problem>) -> Option<Database> {
    let errors_before = problems.len();
    let mut parameters = EntryReader { entry, problems };
    name(&mut parameters);
    let mut draft =
        DatabaseDraft { database: Database::new(&entry.name, Vec::new()), host: None, port: PORT, password: None };
    for (key, value) in parameters.pairs() {
        take(&mut draft, &key, &value, &mut parameters);
    }
    let hosts = match &draft.host {
        Some(list) => hosts(list, draft.port, &mut parameters),
        None if unix_socket_dir.is_empty() => {
            let expected = "an address, since unix_socket_dir is empty";
            parameters.error("host", "nothing".to_owned(), expected);
            Vec::new()
        }
        None => vec![Address { host: Host::Unix(unix_socket_dir.to_owned()), port: draft.port }],
    };
    let source = draft.password.take();
    if source.is_some() && draft.database.forced_user.is_none() {
        let expected = "user= beside it: without, the client's user logs in, with its own password";
        parameters.warning("password", "a password alone".to_owned(), expected);
    } else {
        draft.database.password = source.and_then(|source| source.read(read, &mut parameters));
    }
    draft.database.hosts = hosts;
    let failed = problems[errors_before..].iter().any(|problem| problem.severity == crate::problem::Severity::Error);
    (!failed).then_some(draft.database)
}

fn name(parameters: &mut EntryReader) {
    let name = &parameters.entry.name;
    if name == CONSOLE_DATABASE {
        let expected = "another name: this one is the console's";
        parameters.error("", quoted(name), expected);
    } else if name.is_empty() || name.len() > NAME_LEN_MAX {
        let expected = format!("a name of 1 to {NAME_LEN_MAX} bytes");
        parameters.error("", format!("a name of {} bytes", name.len()), &expected);
    }
}

fn take(draft: &mut DatabaseDraft, key: &str, value: &str, parameters: &mut EntryReader) {
    let database = &mut draft.database;
    if let Some(setting) = DatabaseSettings::key(if key == "reserve_pool" { "reserve_pool_size" } else { key }) {
        let read = parameters.setting(key, setting, value);
        return database.settings.set(setting, read.as_ref());
    }
    match key {
        "host" => draft.host = parameters.text(value),
        "port" => draft.port = parameters.port(value).unwrap_or(PORT),
        "dbname" => database.dbname = parameters.text(value),
        "user" => database.forced_user = parameters.text(value),
        "password" | "password_file" | "password_env" => take_password(draft, key, value, parameters),
        "load_balance_hosts" => {
            let choice = parameters.choice(key, value, &["round-robin", "disable"]);
            database.load_balance_hosts = match choice {
                Some("disable") => LoadBalanceHosts::Disable,
                _ => LoadBalanceHosts::RoundRobin,
            };
        }
        "target_session_attrs" => {
            let choice = parameters.choice(key, value, TargetSessionAttrs::NAMES);
            database.target_session_attrs = choice.and_then(TargetSessionAttrs::parse).unwrap_or_default();
        }
        "patroni_urls" => database.patroni_urls = patroni_urls(value, parameters),
        "connect_query" => database.connect_query = parameters.text(value),
        "client_encoding" | "datestyle" | "timezone" | "application_name" => {
            database.startup.retain(|(name, _)| name != key);
            if !value.is_empty() {
                database.startup.push((key.to_owned(), value.to_owned()));
            }
        }
        "auth_user" => database.auth_user = parameters.text(value),
        "auth_query" => database.auth_query = parameters.text(value),
        "auth_dbname" => database.auth_dbname = parameters.text(value),
        _ => parameters.unknown(key, &self::parameters()),
    }
}

fn take_password(draft: &mut DatabaseDraft, key: &str, value: &str, parameters: &mut EntryReader) {
    // Not set.
    let Some(source) = Source::of(key, value) else { return };
    if draft.password.as_ref().is_some_and(|before| std::mem::discriminant(before) != std::mem::discriminant(&source)) {
        let expected = "one of password, password_file and password_env";
        parameters.error(key, "a second password".to_owned(), expected);
    }
    draft.password = Some(source);
}

/// `None`: there are none, or not all can be used.
fn patroni_urls(list: &str, parameters: &mut EntryReader) -> Option<Vec<HttpUrl>> {
    if list.is_empty() {
        return None;
    }
    let mut urls = Vec::new();
    for text in list.split(',').map(str::trim) {
        let url = HttpUrl::read(text);
        if url.is_none() {
            let expected = "a URL such as http://10.0.0.1:8008, or several with commas between them";
            parameters.error("patroni_urls", quoted(text), expected);
        }
        urls.extend(url);
    }
    if urls.len() > PATRONI_URLS_MAX {
        parameters.error("patroni_urls", "more".to_owned(), &format!("at most {PATRONI_URLS_MAX} URLs"));
    }
    Some(urls)
}

fn hosts(list: &str, port: u16, parameters: &mut EntryReader) -> Vec<Address> {
    let mut hosts = Vec::new();
    for text in list.split(',').take(HOSTS_MAX + 1) {
        match host(text.trim()) {
            Some(host) => hosts.push(Address { host, port }),
            None => {
                let expected = "an address, a name, or the directory of a Unix socket";
                parameters.error("host", quoted(text), expected);
            }
        }
    }
    if hosts.len() > HOSTS_MAX {
        parameters.error("host", "more".to_owned(), &format!("at most {HOSTS_MAX} hosts"));
    }
    hosts
}

/// One host of a list; `None` if it can be none.
#[must_use]
pub(crate) fn host(text: &str) -> Option<Host> {
    if text.starts_with(['/', '@']) {
        return (text.len() > 1).then(|| Host::Unix(text.to_owned()));
    }
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Some(Host::Ip(ip));
    }
    let odd = |c: char| c.is_whitespace() || c.is_control() || "=/@[]'\"".contains(c);
    let is_name = !text.is_empty() && text.len() <= 253 && !text.contains(odd);
    is_name.then(|| Host::Name(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Place;

    #[test]
    fn every_parameter_of_the_table_is_taken() {
        for parameter in parameters() {
            let entry = Entry {
                place: Place::default(),
                section: "databases",
                name: "app".to_owned(),
                text: format!("{}=''", parameter.name),
            };
            let mut problems = Vec::new();
            let database = read(&entry, "/tmp", &|name| unreachable!("{name}"), &mut problems);
            assert!(database.is_some() && problems.is_empty(), "{}: {problems:?}", parameter.name);
        }
    }

    #[test]
    fn hosts_are_distinguished() {
        assert_eq!(host("::1"), Some(Host::Ip("::1".parse().expect("an address"))));
        assert_eq!(host("@weir"), Some(Host::Unix("@weir".to_owned())));
        assert_eq!(host("db-1.local"), Some(Host::Name("db-1.local".to_owned())));
        for nonsense in ["", "/", "a b", "port=5", "[::1]", "a/b"] {
            assert_eq!(host(nonsense), None, "{nonsense}");
        }
    }
}
