//! What a file says and cannot mean: PgBouncer runs it, and so do we, with a warning.
//!
//! Promises that each warning names something that has no effect, or not the effect that its words suggest. Does not judge
//! classes and rules (`reach` does) and hosts (`hosts` does), nor what is not supported yet (`support` does).

use std::collections::BTreeMap;
use std::sync::Arc;

use connections::databases::{CONSOLE_DATABASE, Database};
use hba::Rule;
use machine::Settings;
use settings::{AuthType, PoolSize};

use crate::config::Config;
use crate::demand;
use crate::entry::Entry;
use crate::hosts;
use crate::problem::{PROBLEMS_MAX, Place, Problem, quoted};
use crate::settings::Values;
use ::settings::Key;

/// The entries that the settings were made of, by name.
pub(crate) struct Entries<'a> {
    pub(crate) databases: &'a BTreeMap<String, Entry>,
    pub(crate) users: &'a BTreeMap<String, Entry>,
}

/// Judges the whole file. `has_users`: what auth_file has is known.
#[must_use]
pub(crate) fn judge(settings: &Settings, values: &Values, entries: &Entries<'_>, has_users: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    if has_users {
        problems.extend(nobody(settings, values));
        problems.extend(console_users(settings, values));
    }
    problems.extend(anybody_from_anywhere(settings, values));
    problems.extend(no_database(settings, values));
    problems.extend(page_of_nowhere(settings, values));
    problems.extend(hosts_that_are_no_names(settings, values));
    problems.extend(tags_of_single_requests(settings, values));
    problems.extend(sizes(settings, values, entries));
    problems.extend(reserve(settings, values));
    problems.extend(hosts::judge(settings, entries.databases));
    if has_users {
        problems.extend(hosts::prober_without_password(settings, &place_of(values, Key::host_check_user)));
    }
    problems.truncate(PROBLEMS_MAX);
    problems
}

/// Names of tags, without `_`, `-` and capitals, that have another value for each request: conventions of OpenTelemetry, Rails, sqlcommenter
/// and job queues.
const OF_ONE_REQUEST: [&str; 16] = [
    "correlationid",
    "eventid",
    "id",
    "jid",
    "jobid",
    "messageid",
    "requestid",
    "requestuuid",
    "sessionid",
    "spanid",
    "traceid",
    "traceparent",
    "tracestate",
    "transactionid",
    "uuid",
    "xrequestid",
];

/// Tags by which the history would count each request for itself.
fn tags_of_single_requests(settings: &Settings, values: &Values) -> Option<Problem> {
    let plain = |tag: &str| tag.replace(['_', '-'], "").to_ascii_lowercase();
    let is_of_one = |tag: &&String| OF_ONE_REQUEST.contains(&plain(tag).as_str());
    let tag = settings.global.observing.observe_tags.iter().find(is_of_one)?;
    let expected = "tags that repeat: one that differs from request to request fills the history".to_owned();
    Some(Problem::warning(&place_of(values, Key::observe_tags), "observe_tags", quoted(tag), expected))
}

fn whole_file(values: &Values) -> Place {
    Place { file: values.text(Key::conffile).to_owned(), line: 0 }
}

fn place_of(values: &Values, key: Key) -> Place {
    values.place(key).cloned().unwrap_or_else(|| whole_file(values))
}

fn nobody(settings: &Settings, values: &Values) -> Option<Problem> {
    let able = |secret| demand::may_log_in(settings, secret);
    if strangers_may(settings) || settings.secrets.values().any(able) {
        return None;
    }
    let found = "no user who can log in".to_owned();
    let expected = "a file with one at least: as it is everybody is refused".to_owned();
    Some(Problem::warning(&place_of(values, Key::auth_file), "auth_file", found, expected))
}

/// Everybody on the network is let in, under any name or under names that are known.
fn anybody_from_anywhere(settings: &Settings, values: &Values) -> Vec<Problem> {
    let is_open = |address: &String| ["*", "0.0.0.0", "::"].contains(&address.as_str());
    if !settings.global.listening.listen_addr.iter().any(is_open) {
        return Vec::new();
    }
    let expected = "a proof, such as scram-sha-256: listen_addr lets everybody on the network in without a password";
    let warning = |place: &Place, key: &str, found: String| Problem::warning(place, key, found, expected.to_owned());
    let auth_type = settings.global.login.auth_type;
    match auth_type {
        AuthType::Any | AuthType::Trust => {
            vec![warning(&place_of(values, Key::auth_type), "auth_type", quoted(auth_type.as_str()))]
        }
        _ if settings.uses(AuthType::Hba) => {
            let open = settings.hba.as_slice().iter().filter(|rule| rule.trusts_every_address());
            let place = |rule: &Rule| Place { file: rule.file.clone(), line: rule.line };
            open.map(|rule| warning(&place(rule), "auth_hba_file", "trust for all addresses".to_owned())).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether users may come whom auth_file does not name.
fn strangers_may(settings: &Settings) -> bool {
    let mut databases = settings.databases.values().chain(&settings.fallback);
    let own = |database: &Arc<Database>| {
        demand::looks_up(settings, database) || demand::others_know(settings, settings.auth_type(&database.name))
    };
    settings.uses(AuthType::Any) || databases.any(own) || console_is_open(settings)
}

/// The same of the console, which is no database.
fn console_is_open(settings: &Settings) -> bool {
    settings.global.login.auth_user.is_some() || demand::others_know(settings, settings.global.login.auth_type)
}

/// Names that may use the console, and cannot come in.
fn console_users(settings: &Settings, values: &Values) -> Vec<Problem> {
    if strangers_may(settings) {
        return Vec::new();
    }
    let lists = [
        (Key::admin_users, &settings.global.console.admin_users),
        (Key::stats_users, &settings.global.console.stats_users),
    ];
    let names = lists.into_iter().flat_map(|(key, names)| names.iter().map(move |name| (key, name)));
    // The console's own user needs no password on the Unix socket.
    let unknown = names.filter(|(_, name)| !settings.secrets.contains_key(*name) && *name != CONSOLE_DATABASE);
    let problem = |(key, name): (Key, &String)| {
        let expected = "a user of auth_file: nobody can log in by this name".to_owned();
        Problem::warning(&place_of(values, key), key.name(), quoted(name), expected)
    };
    unknown.map(problem).collect()
}

fn no_database(settings: &Settings, values: &Values) -> Option<Problem> {
    if !settings.databases.is_empty() || settings.fallback.is_some() {
        return None;
    }
    let expected = "an entry at least: as it is clients can use the console only".to_owned();
    Some(Problem::warning(&whole_file(values), "[databases]", "no entry".to_owned(), expected))
}

/// A page, and no address where it could be shown.
fn page_of_nowhere(settings: &Settings, values: &Values) -> Option<Problem> {
    let console = &settings.global.console;
    if !console.http_page || !console.http_listen.is_empty() {
        return None;
    }
    let expected = "http_listen beside it: without an address nothing is shown".to_owned();
    Some(Problem::warning(&place_of(values, Key::http_page), "http_page", quoted("1"), expected))
}

/// What no browser sends as the name of a host.
fn hosts_that_are_no_names(settings: &Settings, values: &Values) -> Option<Problem> {
    let is_name = |host: &&String| {
        *host == "*" || host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'))
    };
    let other = settings.global.console.http_hosts.iter().find(|host| !is_name(host))?;
    let expected = "names of hosts, without scheme, port and path, or *, for any".to_owned();
    Some(Problem::warning(&place_of(values, Key::http_hosts), "http_hosts", quoted(other), expected))
}

/// Minima above their maxima.
fn sizes(settings: &Settings, values: &Values, entries: &Entries<'_>) -> Vec<Problem> {
    let mut problems = Vec::new();
    let (least, most) = (settings.global.pools.auto_pool_size_min, settings.global.pools.auto_pool_size_max);
    if least > most && !(values.is_default(Key::auto_pool_size_min) && values.is_default(Key::auto_pool_size_max)) {
        let expected = format!("at most auto_pool_size_max, which is {most}");
        let place = place_of(values, Key::auto_pool_size_min);
        problems.push(Problem::warning(&place, "auto_pool_size_min", quoted(&least.to_string()), expected));
    }
    let default = settings.global.pools.default_pool_size.most(&settings.global.pools);
    if settings.global.pools.min_pool_size > default {
        let expected = format!("at most default_pool_size, which is {default}");
        let found = quoted(&settings.global.pools.min_pool_size.to_string());
        problems.push(Problem::warning(&place_of(values, Key::min_pool_size), "min_pool_size", found, expected));
    }
    for database in settings.databases.values().chain(&settings.fallback) {
        if let Some(entry) = entries.databases.get(&database.name) {
            problems.extend(size_of_database(settings, database, entry));
        }
    }
    for (name, user) in &settings.users {
        let (Some(size), Some(entry)) = (user.pool_size, entries.users.get(name)) else { continue };
        let (size, min) = (size.most(&settings.global.pools), settings.global.pools.min_pool_size);
        if min > size && min <= default {
            let expected = format!("at least min_pool_size, which is {min}");
            let found = quoted(&size.to_string());
            problems.push(Problem::warning(&entry.place, &entry.key("pool_size"), found, expected));
        }
    }
    problems
}

/// What its own words, beside the global ones, have as minimum and maximum.
fn size_of_database(settings: &Settings, database: &Database, entry: &Entry) -> Option<Problem> {
    let size = demand::size_of(settings, database, None).most(&settings.global.pools);
    let min = database.settings.min_pool_size.unwrap_or(settings.global.pools.min_pool_size);
    let limit = database.settings.max_db_connections.unwrap_or(settings.global.pools.max_db_connections);
    let warning = |parameter: &str, found: u32, expected: String| {
        Some(Problem::warning(&entry.place, &entry.key(parameter), quoted(&found.to_string()), expected))
    };
    if min > size && database.settings.min_pool_size.is_some() {
        return warning("min_pool_size", min, format!("at most the size of its pools, which is {size}"));
    }
    if min > size && matches!(database.settings.pool_size, Some(PoolSize::Fixed(_))) {
        return warning("pool_size", size, format!("at least min_pool_size, which is {min}"));
    }
    if limit > 0
        && min > limit
        && (database.settings.min_pool_size.is_some() || database.settings.max_db_connections.is_some())
    {
        return warning("max_db_connections", limit, format!("at least min_pool_size, which is {min}"));
    }
    None
}

/// A reserve that is never used.
fn reserve(settings: &Settings, values: &Values) -> Option<Problem> {
    let has_reserve = settings.global.pools.reserve_pool_size > 0
        || settings
            .databases
            .values()
            .chain(&settings.fallback)
            .any(|database| database.settings.reserve_pool_size > Some(0))
        || settings.users.values().any(|user| user.reserve_pool_size > Some(0));
    if !has_reserve || settings.global.pools.reserve_pool_timeout.is_some() {
        return None;
    }
    let expected = "more than 0: as it is no reserve is ever used".to_owned();
    let place = place_of(values, Key::reserve_pool_timeout);
    Some(Problem::warning(&place, "reserve_pool_timeout", quoted("0"), expected))
}

/// Descriptors that are neither clients' nor servers': listeners, files, one to wait and one to be woken for each thread.
const DESCRIPTORS_BESIDE: u64 = 64;

/// Whether all clients that the file allows can be there at once, each with a server if the pools allow as many. `limit`:
/// descriptors that the process may have, as `ulimit -Hn` tells.
#[must_use]
pub fn descriptors(config: &Config, limit: u64) -> Option<Problem> {
    let clients = u64::from(config.pooling.global.pools.max_client_conn);
    let beside = DESCRIPTORS_BESIDE + 4 * u64::from(config.pooling.workers);
    // Most files have room enough whatever their pools are.
    if clients == 0 || 2 * clients + beside <= limit {
        return None;
    }
    let servers = demand::at_most(&config.pooling, clients);
    let needed = clients + servers + beside;
    if needed <= limit {
        return None;
    }
    let found = format!("\"{clients}\" beside {limit} file descriptors");
    let parts = format!("{servers} may be servers', {beside} the process's own");
    let expected = match limit.saturating_sub(servers + beside) {
        0 => format!("a limit (ulimit -n) of {needed} at least: {parts}"),
        most => format!("at most {most}, or a limit (ulimit -n) of {needed} at least: {parts}"),
    };
    Some(Problem::warning(&config.place_of(Key::max_client_conn), "max_client_conn", found, expected))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "[pgbouncer]\nauth_type = any\nworkers = 1\nmax_client_conn = 900\n[databases]\na = user=u pool_size=20\n";

    #[test]
    fn clients_servers_and_the_process_share_the_descriptors() {
        let read = |_: &str| Ok(FILE.as_bytes().to_vec());
        let config = crate::load_with("weir.ini", 1, crate::Built::default(), &read).expect("a file that can be used");
        assert_eq!(descriptors(&config, 900 + 20 + 68), None);
        let problem = descriptors(&config, 900 + 20 + 67).expect("one too few").to_string();
        let expected = "weir.ini:4: max_client_conn: found \"900\" beside 987 file descriptors, expected at most 899, or a \
            limit (ulimit -n) of 988 at least: 20 may be servers', 68 the process's own";
        assert_eq!(problem, expected);
    }

    #[test]
    fn a_client_has_one_server_at_most_and_no_limit_is_never_advised() {
        let users: String = (0..100).map(|number| format!("\"u{number}\" \"secret\"\n")).collect();
        let entries: String = (0..12).map(|number| format!("d{number} =\n")).collect();
        let file = format!(
            "[pgbouncer]\nauth_type = trust\nauth_file = users\nworkers = 1\nmax_client_conn = 1000\n[databases]\n{entries}"
        );
        let read = |path: &str| Ok(if path == "users" { users.clone() } else { file.clone() }.into_bytes());
        let config = crate::load_with("weir.ini", 1, crate::Built::default(), &read).expect("a file that can be used");
        assert_eq!(descriptors(&config, 20_000), None);
        let problem = descriptors(&config, 900).expect("too few for all clients").to_string();
        assert!(problem.contains("expected a limit (ulimit -n) of "), "{problem}");
    }
}
