//! How a `pgweir run` is reached: lines for its user, and the answer for `pgweir top`.
//!
//! Promises that no password is printed: what a service prints is in a log.

use std::io::{self, Write as _};
use std::path::Path;

use auth::Secret;
use config::Config;
use engine::{Handle, Listening};
use machine::Settings;
use programs::addresses::{Addresses, as_typed, bracketed, psql, reachable};
use programs::running::{Record, Socket, now};

/// Prints the lines, unless it is to be quiet, and lets `pgweir top` find this process, if it has a socket for that.
pub(crate) fn tell(config: &Config, handle: &Handle, socket: Option<Socket>, is_quiet: bool) {
    let Some((host, port)) = place(handle) else { return };
    let is_found = socket.is_some();
    if let Some(socket) = socket {
        let (handle, host, started) = (handle.clone(), host.clone(), now());
        socket.answer(move || {
            // A RELOAD may have changed both.
            let settings = handle.settings();
            let user = console_user(&settings).to_owned();
            let password = password(&settings, &user);
            Record { command: "run".to_owned(), started, host: host.clone(), port, user, password }
        });
    }
    if !is_quiet {
        // Nobody may read it, which is no error.
        let _ = io::stdout().write_all(addresses(config, handle, host, port, is_found).to_string().as_bytes());
    }
}

fn addresses(config: &Config, handle: &Handle, host: String, port: u16, is_found: bool) -> Addresses {
    let settings = handle.settings();
    let user = console_user(&settings).to_owned();
    let pgweir = std::env::current_exe().map_or_else(|_| "pgweir".to_owned(), |program| as_typed(&program));
    let database = settings.databases.keys().next().unwrap_or(&user).clone();
    let (psql, page) = (psql(None), page(config));
    let mut addresses =
        Addresses { psql, host, port, user, password: None, database, page, top: format!("{pgweir} top") };
    if !is_found {
        addresses.top = format!("{} '{}'", addresses.top, addresses.url(&addresses.database));
    }
    addresses
}

/// The address at which a client of this machine connects: by TCP, if there is a listener for it.
fn place(handle: &Handle) -> Option<(String, u16)> {
    let listening = handle.listening();
    let by_tcp = listening.iter().find_map(|one| match one {
        Listening::Tcp(address) => Some((reachable(&address.ip().to_string()), address.port())),
        Listening::Unix(_) => None,
    });
    by_tcp.or_else(|| {
        listening.iter().find_map(|one| match one {
            Listening::Unix(file) => folder_and_port(file),
            Listening::Tcp(_) => None,
        })
    })
}

/// Splits `/tmp/.s.PGSQL.6432` into folder and port, as libpq names a socket.
fn folder_and_port(file: &str) -> Option<(String, u16)> {
    let (folder, name) = (Path::new(file).parent()?, Path::new(file).file_name()?);
    let port = name.to_str()?.strip_prefix(".s.PGSQL.")?.parse().ok()?;
    Some((folder.to_str()?.to_owned(), port))
}

/// The user for the console: that of the first URL, unless a setting names another one.
fn console_user(settings: &Settings) -> &str {
    let console = &settings.global.console;
    // One whose password is known.
    let known = |user: &&String| settings.secrets.contains_key(*user);
    let users = || console.admin_users.iter().chain(&console.stats_users);
    let known = users().find(known).or_else(|| settings.secrets.keys().next());
    known.or_else(|| users().next()).map_or("", String::as_str)
}

/// `None`: clients are trusted, or it is not known in the clear.
fn password(settings: &Settings, user: &str) -> Option<String> {
    match settings.secrets.get(user) {
        Some(Secret::Plain(password)) if !password.as_str().is_empty() => Some(password.as_str().to_owned()),
        _ => None,
    }
}

fn page(config: &Config) -> String {
    let console = &config.pooling.global.console;
    match console.http_listen.first() {
        Some(address) if console.http_page => page_url(address),
        Some(_) => "off; PGWEIR_HTTP_PAGE=1 turns it on".to_owned(),
        None => "off; PGWEIR_HTTP_LISTEN=127.0.0.1:9127 PGWEIR_HTTP_PAGE=1 turns it on".to_owned(),
    }
}

/// As a browser of this machine reaches an address of `http_listen`.
fn page_url(address: &str) -> String {
    let Some((host, port)) = address.rsplit_once(':').filter(|_| !address.starts_with("unix:")) else {
        return address.to_owned();
    };
    let host = reachable(host.trim_start_matches('[').trim_end_matches(']'));
    format!("http://{}:{port}/", bracketed(&host))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_named_by_its_folder_and_port() {
        assert_eq!(folder_and_port("/tmp/.s.PGSQL.6432"), Some(("/tmp".to_owned(), 6432)));
        assert_eq!(folder_and_port("/run/passed"), None);
    }

    #[test]
    fn the_page_is_named_as_a_browser_reaches_it() {
        let table = [
            ("127.0.0.1:9127", "http://127.0.0.1:9127/"),
            ("*:9127", "http://127.0.0.1:9127/"),
            ("[::1]:9127", "http://[::1]:9127/"),
            ("[::]:9127", "http://[::1]:9127/"),
            ("unix:/run/pgweir/http", "unix:/run/pgweir/http"),
        ];
        for (address, expected) in table {
            assert_eq!(page_url(address), expected);
        }
    }

    #[test]
    fn the_console_is_its_administrators_and_else_its_readers() {
        let mut settings = Settings::default();
        assert_eq!(console_user(&settings), "");
        settings.secrets.insert("app".to_owned(), Secret::Plain(auth::Password::new("secret")));
        assert_eq!(console_user(&settings), "app");
        settings.global.console.stats_users.insert("joe".to_owned());
        settings.secrets.insert("joe".to_owned(), Secret::Plain(auth::Password::new("")));
        assert_eq!((console_user(&settings), password(&settings, "joe")), ("joe", None));
        settings.global.console.admin_users.insert("unknown".to_owned());
        settings.global.console.admin_users.insert("app".to_owned());
        assert_eq!((console_user(&settings), password(&settings, "app").as_deref()), ("app", Some("secret")));
    }
}
