//! `pgweir run` tries its PostgreSQL once while it starts, and says in the log what it has found: the version and how many connections
//! are left, or the error in the server's words and what can be done about it.
//!
//! Promises: serving waits for none of it, and goes on whatever is found. Does not try again: clients are told themselves.

use std::thread;
use std::time::Duration;

use ask::{Monitor, Target};
use config::Config;
use engine::Handle;
use machine::Level;
use settings::PoolSize;

/// Looks, in a thread of its own, until a host of each URL answers.
pub(crate) fn look(config: &Config, urls: Vec<Vec<Target>>, handle: &Handle) {
    let (wanted, handle) = (servers_max(config), handle.clone());
    let look_at = move |targets: Vec<Target>| {
        for target in targets {
            let (level, text) = match found(&target) {
                Ok(found) => found.log_line(&target, wanted),
                Err(error) => (Level::Warning, refused(&target, &error)),
            };
            handle.log().say(level, text);
            if level == Level::Log {
                break;
            }
        }
    };
    let look = move || urls.into_iter().for_each(look_at);
    // Without it nothing is said, and nothing else is missing.
    let _ = thread::Builder::new().name("upstream".to_owned()).spawn(look);
}

/// The most connections that will be opened.
fn servers_max(config: &Config) -> u32 {
    match (config.pooling.global.pools.max_server_connections, config.pooling.global.pools.default_pool_size) {
        (0, PoolSize::Fixed(size)) => size,
        (0, PoolSize::Auto) => config.pooling.global.pools.auto_pool_size_max,
        (most, _) => most,
    }
}

/// What a PostgreSQL says of itself.
struct Found {
    version: String,
    connections_max: String,
    /// Connections that a client like us may still open.
    left: u64,
}

/// How PostgreSQL sees us.
const NAME: &str = "pgweir run";

/// As long as a server may take to open by default (`server_connect_timeout`).
const PATIENCE: Duration = Duration::from_secs(15);

fn found(target: &Target) -> Result<Found, String> {
    let mut monitor = Monitor::connect(target, NAME, PATIENCE)?;
    let mut setting = |name: &str| Ok::<_, String>(monitor.ask(&format!("SHOW {name}"))?.pop().unwrap_or_default());
    let (version, connections_max) = (setting("server_version")?, setting("max_connections")?);
    // Ours is free again in a moment.
    let left = monitor.room()? + 1;
    Ok(Found { version, connections_max, left })
}

impl Found {
    fn log_line(&self, target: &Target, wanted: u32) -> (Level, String) {
        let Found { version, connections_max, left } = self;
        let (place, user) = (place(target), &target.user);
        let works = format!(
            "PostgreSQL {version} at {place}: login as \"{user}\" works, {left} of max_connections = {connections_max} are left"
        );
        if u64::from(wanted) <= *left {
            return (Level::Log, works);
        }
        let advice = "give fewer by --pool-size, or raise max_connections";
        (Level::Warning, format!("{works}, and up to {wanted} may be opened: {advice}"))
    }
}

fn place(target: &Target) -> String {
    let Target { host, port, database, .. } = target;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    format!("{host}:{port}, database \"{database}\"")
}

fn refused(target: &Target, error: &str) -> String {
    let advice = advice(error).map(|advice| format!(" ({advice})")).unwrap_or_default();
    format!("PostgreSQL at {} cannot be used: {error}{advice}", place(target))
}

/// What can be done about an error: by its SQLSTATE, else by the system's words.
//= pg18 errcodes-appendix
fn advice(error: &str) -> Option<&'static str> {
    let table = [
        ("28P01: ", "is the password right? It is taken from the URL, PGPASSWORD or ~/.pgpass"),
        ("28000: ", "pg_hba.conf says who may log in from where, and whether without TLS (sslmode)"),
        ("3D000: ", "the database is named at the end of the URL"),
        ("53300: ", "raise max_connections, or close what is not needed"),
        ("57P03: ", "clients are served as soon as PostgreSQL takes connections"),
        ("a password is asked for", "give one by PGPASSWORD, ~/.pgpass or in the URL"),
        ("Connection refused", "does PostgreSQL run there, and do listen_addresses and port let it be reached?"),
        ("No such file", "does PostgreSQL run, and is this one of its unix_socket_directories?"),
        ("Permission denied", "may this system user open the socket?"),
        ("timed out", "is the address right, and does a firewall let it through?"),
        ("unreachable", "is the address right, and does a firewall let it through?"),
        ("No route", "is the address right, and does a firewall let it through?"),
        ("failed to lookup", "is the name right?"),
    ];
    table.into_iter().find(|(part, _)| error.contains(part)).map(|(_, advice)| advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(host: &str) -> Target {
        let [host, user, database] = [host, "app", "shop"].map(str::to_owned);
        Target { host, address: None, port: 5432, user, password: None, database, verifier: None, encryption: None }
    }

    #[test]
    fn what_was_found_is_said_and_warned_of_where_it_is_too_little() {
        let found = Found { version: "18.1".to_owned(), connections_max: "100".to_owned(), left: 90 };
        let words = "PostgreSQL 18.1 at [::1]:5432, database \"shop\": login as \"app\" works, 90 of max_connections = 100 are left";
        assert_eq!(found.log_line(&target("::1"), 90), (Level::Log, words.to_owned()));
        let (level, text) = found.log_line(&target("::1"), 91);
        assert_eq!(level, Level::Warning);
        assert!(text.starts_with(words) && text.ends_with("--pool-size, or raise max_connections"), "{text}");
    }

    #[test]
    fn an_error_comes_in_the_servers_words_with_advice() {
        let text = refused(&target("db"), "28P01: password authentication failed for user \"app\"");
        let expected = "PostgreSQL at db:5432, database \"shop\" cannot be used: 28P01: password authentication failed for user \
                        \"app\" (is the password right? It is taken from the URL, PGPASSWORD or ~/.pgpass)";
        assert_eq!(text, expected);
        assert!(refused(&target("db"), "XX000: strange").ends_with("XX000: strange"));
    }
}
