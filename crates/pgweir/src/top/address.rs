//! Which console is looked at, and as whom: a URL, or what the environment of `pgweir run` says, or else the console of this machine's package.
//!
//! ```text
//!   URL                                    its host, port, user and password
//!   DATABASE_URL or PGHOST … (as `run`)    the user and the password that `run` lets in, at PGWEIR_LISTEN_ADDR and PGWEIR_LISTEN_PORT
//!   neither                                /run/pgweir without a password, if there is such a socket; else this machine's port
//! ```

use std::path::Path;

use ask::Target;
use connections::databases::CONSOLE_DATABASE;

use crate::environment::Environment;

const PORT: u16 = 6432;
const OWN_ADDRESS: &str = "127.0.0.1";
/// Where a package has its socket, and who may use it without a password.
const PACKAGE_SOCKETS: &str = "/run/pgweir";
const PACKAGE_USER: &str = "pgbouncer";

/// In the order in which they are tried: a URL may have several hosts.
///
/// # Errors
/// What cannot be read.
pub(super) fn targets(url: Option<&str>) -> Result<Vec<Target>, String> {
    match url {
        Some(url) => of_url(url),
        None => of_environment(),
    }
}

/// As it is shown.
pub(super) fn place(target: &Target) -> String {
    let Target { host, port, user, .. } = target;
    let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    format!("{user}@{host}:{port}")
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

fn of_environment() -> Result<Vec<Target>, String> {
    let environment = Environment::of_the_process(&config::read_file).map_err(|problem| problem.to_string())?;
    let urls = environment.urls().map_err(|problem| problem.to_string())?;
    let port = match environment.setting("listen_port") {
        None => PORT,
        Some(text) => text.parse().map_err(|_| format!("PGWEIR_LISTEN_PORT is no port: {text:?}"))?,
    };
    let socket = Path::new(PACKAGE_SOCKETS).join(format!(".s.PGSQL.{port}"));
    if urls.is_empty() && socket.exists() {
        return Ok(vec![of_package(port)]);
    }
    let host = reachable(environment.setting("listen_addr").unwrap_or(OWN_ADDRESS));
    // The first one's user is the one who may use the console.
    let url = urls.first().map_or("postgres://", String::as_str);
    let url = url.split_once('=').filter(|(name, _)| !name.contains(':')).map_or(url, |(_, url)| url);
    let found = read(url, &|name| environment.get(name))?;
    let user = found.into_iter().next().expect("a URL names a host");
    // What the URL says about TLS is meant for PostgreSQL: here it is used if the pooler has it.
    let here = read("postgres://console@localhost", &|_| None)?.into_iter().next().expect("a URL names a host");
    Ok(vec![Target { host, port, encryption: here.encryption, ..user }])
}

fn of_package(port: u16) -> Target {
    Target {
        host: PACKAGE_SOCKETS.to_owned(),
        port,
        user: PACKAGE_USER.to_owned(),
        password: None,
        database: CONSOLE_DATABASE.to_owned(),
        verifier: None,
        encryption: None,
    }
}

/// Where all addresses are listened on, this machine's own answers.
fn reachable(listed: &str) -> String {
    let first = listed.split(',').next().unwrap_or_default().trim();
    match first {
        "" | "*" | "0.0.0.0" => OWN_ADDRESS.to_owned(),
        "::" => "::1".to_owned(),
        other => other.to_owned(),
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
            let found = targets(Some(url)).expect("a URL").remove(0);
            let Target { host, port, user, password, database, .. } = found;
            assert_eq!((host.as_str(), port, user.as_str(), database.as_str()), ("h", 7000, "dba", "pgbouncer"));
            assert_eq!(password.as_deref(), Some("x"));
        }
        let several = targets(Some("postgres://dba:x@h1:1,h2:2/pgbouncer")).expect("a URL");
        assert_eq!(several.iter().map(place).collect::<Vec<_>>(), ["dba@h1:1", "dba@h2:2"]);
        assert!(targets(Some("localhost")).expect_err("no URL").contains("postgres://"));
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
    fn an_address_that_is_listened_on_is_one_to_connect_to() {
        let table = [
            ("*", "127.0.0.1"),
            ("0.0.0.0", "127.0.0.1"),
            ("::", "::1"),
            ("10.0.0.5, ::", "10.0.0.5"),
            ("", "127.0.0.1"),
        ];
        for (listed, expected) in table {
            assert_eq!(reachable(listed), expected);
        }
    }
}
