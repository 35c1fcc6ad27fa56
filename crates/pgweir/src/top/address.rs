//! Finds the console and its user: by a URL, or a `dev` or `run` of this user, or the environment of `pgweir run`, or else the socket of this
//! machine's package.
//!
//! ```text
//!   URL                                    its host, port, user and password
//!   dev, run                               the newest one that runs; not if PGWEIR_LISTEN_ADDR or PGWEIR_LISTEN_PORT names a place
//!   DATABASE_URL or PGHOST … (as `run`)    the user and the password that `run` lets in, at PGWEIR_LISTEN_ADDR and PGWEIR_LISTEN_PORT
//!   neither                                /run/pgweir without a password, if there is such a socket; else this machine's port
//! ```

use std::net::TcpStream;
use std::path::{Path, PathBuf};

use ask::Target;
use connections::databases::CONSOLE_DATABASE;
use programs::addresses::{bracketed, reachable};
use programs::running::{self, Record};

use crate::environment::Environment;

const PORT: u16 = 6432;
/// Where a package has its socket, and who may use it without a password.
const PACKAGE_SOCKETS: &str = "/run/pgweir";
const PACKAGE_USER: &str = "pgbouncer";

/// Where to look.
pub(super) struct Consoles {
    /// In the order in which they are tried: a URL may have several hosts. There is always one.
    pub(super) targets: Vec<Target>,
    /// Which one it is, where there is a choice.
    pub(super) choice: Option<String>,
}

impl From<Vec<Target>> for Consoles {
    fn from(targets: Vec<Target>) -> Consoles {
        Consoles { targets, choice: None }
    }
}

/// Finds the console.
///
/// # Errors
/// What cannot be read.
pub(super) fn find(url: Option<&str>) -> Result<Consoles, String> {
    if let Some(url) = url {
        return of_url(url).map(Consoles::from);
    }
    let environment = Environment::of_the_process(&config::read_file).map_err(|problem| problem.to_string())?;
    let is_named = ["listen_addr", "listen_port"].iter().any(|name| environment.setting(name).is_some());
    let running = if is_named { Vec::new() } else { running::list() };
    if let Some(found) = of_running(&running)? {
        return Ok(found);
    }
    let is_guess = !is_named && environment.urls().is_ok_and(|urls| urls.is_empty()) && !package_socket(PORT).exists();
    if is_guess && let Err(why) = TcpStream::connect((reachable("").as_str(), PORT)) {
        return Err(format!(
            "no pgweir dev or pgweir run of this user serves here, and nothing answers at {}:{PORT}: {why}. A URL names another console: \
             pgweir top 'postgres://dba@pooler.example:6432/pgbouncer'",
            reachable("")
        ));
    }
    of_environment(&environment).map(Consoles::from)
}

fn package_socket(port: u16) -> PathBuf {
    Path::new(PACKAGE_SOCKETS).join(format!(".s.PGSQL.{port}"))
}

/// The newest one, with the others' addresses. `running` has the newest first. `None`: it is empty.
fn of_running(running: &[Record]) -> Result<Option<Consoles>, String> {
    let Some(newest) = running.first() else { return Ok(None) };
    let Record { host, port, user, password, .. } = newest.clone();
    let target = Target { host, port, user, password, ..here()? };
    let place = |record: &Record| format!("{} at {}:{}", record.command, bracketed(&record.host), record.port);
    let others: Vec<String> = running[1..].iter().map(place).collect();
    let choice = (!others.is_empty())
        .then(|| format!("{} is shown, the newest; {} may be chosen by a URL", place(newest), others.join(", ")));
    Ok(Some(Consoles { targets: vec![target], choice }))
}

/// A console of this machine. TLS is used if the pooler has it: a URL's parameters about TLS are meant for PostgreSQL.
fn here() -> Result<Target, String> {
    let found = read("postgres://console@localhost", &|_| None)?;
    Ok(found.into_iter().next().expect("a URL names a host"))
}

/// As it is shown.
pub(super) fn place(target: &Target) -> String {
    let Target { host, port, user, .. } = target;
    format!("{user}@{}:{port}", bracketed(host))
}

fn of_url(url: &str) -> Result<Vec<Target>, String> {
    if !url.contains("://") {
        return Err("a URL is needed, as in postgres://dba@pooler.example:6432/pgbouncer".to_owned());
    }
    // libpq's variables complete it; where it has no port, that of PostgreSQL is meant by nobody.
    let variable = |name: &str| match name {
        "PGPORT" => Some(std::env::var(name).unwrap_or_else(|_| PORT.to_string())),
        _ => std::env::var(name).ok(),
    };
    read(url, &variable)
}

fn of_environment(environment: &Environment) -> Result<Vec<Target>, String> {
    let urls = environment.urls().map_err(|problem| problem.to_string())?;
    let port = match environment.setting("listen_port") {
        None => PORT,
        Some(text) => text.parse().map_err(|_| format!("PGWEIR_LISTEN_PORT is no port: {text:?}"))?,
    };
    if urls.is_empty() && package_socket(port).exists() {
        return Ok(vec![of_package(port)]);
    }
    let host = reachable(environment.setting("listen_addr").unwrap_or_default().split(',').next().unwrap_or_default());
    // The first one's user is the one who may use the console.
    let url = urls.first().map_or("postgres://", String::as_str);
    let url = url.split_once('=').filter(|(name, _)| !name.contains(':')).map_or(url, |(_, url)| url);
    let found = read(url, &|name| environment.get(name))?;
    let user = found.into_iter().next().expect("a URL names a host");
    Ok(vec![Target { host, port, encryption: here()?.encryption, ..user }])
}

fn of_package(port: u16) -> Target {
    Target {
        address: None,
        host: PACKAGE_SOCKETS.to_owned(),
        port,
        user: PACKAGE_USER.to_owned(),
        password: None,
        database: CONSOLE_DATABASE.to_owned(),
        verifier: None,
        encryption: None,
    }
}

/// A URL as `run` would read it, at the database of the console, whatever it names.
fn read(url: &str, variable: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Target>, String> {
    // No database that is served may have the console's name, so it gets another one here.
    let found = programs::url::hosts(&format!("console={url}"), variable)?;
    Ok(found.into_iter().map(|target| Target { database: CONSOLE_DATABASE.to_owned(), ..target }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_leads_to_the_console_whatever_database_it_names() {
        for url in ["postgres://dba:x@h:7000/pgbouncer", "postgres://dba:x@h:7000/shop", "postgres://dba:x@h:7000"] {
            let found = of_url(url).expect("a URL").remove(0);
            let Target { host, port, user, password, database, .. } = found;
            assert_eq!((host.as_str(), port, user.as_str(), database.as_str()), ("h", 7000, "dba", "pgbouncer"));
            assert_eq!(password.as_deref(), Some("x"));
        }
        let several = of_url("postgres://dba:x@h1:1,h2:2/pgbouncer").expect("a URL");
        assert_eq!(several.iter().map(place).collect::<Vec<_>>(), ["dba@h1:1", "dba@h2:2"]);
        assert!(of_url("localhost").expect_err("no URL").contains("postgres://"));
    }

    #[test]
    fn without_a_port_the_poolers_is_meant() {
        let none = |_: &str| None;
        let found = read("postgres://dba:x@h/pgbouncer", &|name: &str| {
            if name == "PGPORT" { Some(PORT.to_string()) } else { none(name) }
        });
        assert_eq!(found.expect("a URL").remove(0).port, PORT);
    }

    #[test]
    fn of_several_that_run_the_newest_is_shown_and_the_others_are_named() {
        let record = |port: u16, password: Option<&str>| {
            let [command, host, user] = ["dev", "::1", "ann"].map(str::to_owned);
            Record { command, started: 1, host, port, user, password: password.map(str::to_owned) }
        };
        assert!(of_running(&[]).expect("none").is_none());
        let Consoles { targets, choice } = of_running(&[record(1, Some("x"))]).expect("one").expect("it runs");
        assert_eq!((place(&targets[0]).as_str(), targets[0].password.as_deref()), ("ann@[::1]:1", Some("x")));
        assert_eq!((targets[0].database.as_str(), choice), (CONSOLE_DATABASE, None));
        let several = [record(2, None), record(1, None), record(3, None)];
        let Consoles { targets, choice } = of_running(&several).expect("three").expect("they run");
        assert_eq!((targets[0].port, targets[0].password.as_deref()), (2, None));
        let expected = "dev at [::1]:2 is shown, the newest; dev at [::1]:1, dev at [::1]:3 may be chosen by a URL";
        assert_eq!(choice.as_deref(), Some(expected));
    }
}
