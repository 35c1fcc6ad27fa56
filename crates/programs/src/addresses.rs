//! The lines that `dev` and `run` print once they serve: commands for another terminal, ready to copy.
//!
//! ```text
//!   psql     psql 'postgres://app@127.0.0.1:6432/shop'
//!   console  psql 'postgres://app@127.0.0.1:6432/pgbouncer'
//!   page     http://127.0.0.1:9127/
//!   top      pgweir top
//! ```

use std::env;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use connections::databases::CONSOLE_DATABASE;

/// Address, user and database for a client, with the commands that lead there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// psql, as a shell finds it.
    pub psql: String,
    /// An address, a name, or the folder of a Unix socket.
    pub host: String,
    pub port: u16,
    pub user: String,
    /// `None`: it is not shown, or there is none.
    pub password: Option<String>,
    pub database: String,
    /// The page's address, or how it is turned on.
    pub page: String,
    /// The command for `pgweir top`.
    pub top: String,
}

impl Addresses {
    /// The URL of a database.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        let Addresses { host, port, user, password, .. } = self;
        let password = password.as_deref().map(|password| format!(":{}", percent(password))).unwrap_or_default();
        let login = format!("{}{password}", percent(user));
        let database = percent(database);
        if host.starts_with(['/', '@']) {
            // libpq reads a folder with its slashes encoded.
            return format!("postgres://{login}@{}:{port}/{database}", percent(host));
        }
        format!("postgres://{login}@{}:{port}/{database}", bracketed(host))
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Addresses { psql, database, page, top, .. } = self;
        writeln!(f, "psql     {psql} '{}'", self.url(database))?;
        writeln!(f, "console  {psql} '{}'", self.url(CONSOLE_DATABASE))?;
        writeln!(f, "page     {page}")?;
        writeln!(f, "top      {top}")
    }
}

/// A host for a URL: an IPv6 address gets brackets.
#[must_use]
pub fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// The host for a client of this machine, by the address that is listened on: for all addresses it is the loopback.
#[must_use]
pub fn reachable(listed: &str) -> String {
    match listed.trim() {
        "" | "*" => "127.0.0.1".to_owned(),
        other => match other.parse() {
            Ok(IpAddr::V4(address)) if address.is_unspecified() => "127.0.0.1".to_owned(),
            Ok(IpAddr::V6(address)) if address.is_unspecified() => "::1".to_owned(),
            _ => other.to_owned(),
        },
    }
}

/// How a shell in this folder starts psql: the one on PATH, else this one.
#[must_use]
pub fn psql(other: Option<&Path>) -> String {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_on_path = env::split_paths(&path).any(|folder| folder.join("psql").is_file());
    other.filter(|_| !is_on_path).map_or_else(|| "psql".to_owned(), as_typed)
}

/// How a shell in this folder names a program: by its name, if PATH leads to it, else by its path.
#[must_use]
pub fn as_typed(program: &Path) -> String {
    let path = env::var_os("PATH").unwrap_or_default();
    let folder = env::current_dir().ok();
    let typed = typed_in(program, env::split_paths(&path), folder.as_deref());
    // A plain word needs no quotes in a shell.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._/+@".contains(c);
    if typed.chars().all(is_plain) { typed } else { format!("'{}'", typed.replace('\'', "'\\''")) }
}

fn typed_in(program: &Path, mut path: impl Iterator<Item = PathBuf>, folder: Option<&Path>) -> String {
    let same =
        |other: &Path| other.canonicalize().ok().filter(|found| program.canonicalize().is_ok_and(|own| own == *found));
    if let Some(name) = program.file_name() {
        // Only the first of that name is what the shell starts.
        let first = path.find(|folder| folder.join(name).is_file()).map(|folder| folder.join(name));
        if first.is_some_and(|first| same(&first).is_some()) {
            return name.to_string_lossy().into_owned();
        }
    }
    let below =
        folder.and_then(|folder| program.strip_prefix(folder).ok()).filter(|below| below.components().count() > 1);
    below.unwrap_or(program).display().to_string()
}

/// Percent-encodes what has a meaning of its own in a URL, or in a shell.
fn percent(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let one = |byte: &u8| if plain(byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    text.as_bytes().iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn addresses(host: &str, password: Option<&str>) -> Addresses {
        let [psql, host, user, database] = ["psql", host, "o'app", "shop"].map(str::to_owned);
        let [page, top] = ["http://127.0.0.1:9127/", "pgweir top"].map(str::to_owned);
        Addresses { psql, host, port: 6432, user, password: password.map(str::to_owned), database, page, top }
    }

    #[test]
    fn the_lines_are_commands() {
        let expected = "\
psql     psql 'postgres://o%27app:a%2Fb@127.0.0.1:6432/shop'
console  psql 'postgres://o%27app:a%2Fb@127.0.0.1:6432/pgbouncer'
page     http://127.0.0.1:9127/
top      pgweir top
";
        assert_eq!(addresses("127.0.0.1", Some("a/b")).to_string(), expected);
        assert_eq!(addresses("::1", None).url("shop"), "postgres://o%27app@[::1]:6432/shop");
        assert_eq!(addresses("/tmp", None).url("shop"), "postgres://o%27app@%2Ftmp:6432/shop");
    }

    #[test]
    fn an_address_that_is_listened_on_is_one_to_connect_to() {
        let table =
            [("*", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "::1"), (" 10.0.0.5", "10.0.0.5"), ("", "127.0.0.1")];
        for (listed, expected) in table {
            assert_eq!(reachable(listed), expected);
        }
    }

    #[test]
    fn a_program_on_path_is_called_by_its_name_and_another_one_by_its_path() {
        let root = env::temp_dir().join(format!("pgweir-typed-{}", std::process::id()));
        let [first, second] = ["first", "second"].map(|name| root.join(name));
        for folder in [&first, &second] {
            fs::create_dir_all(folder).expect("a temporary folder");
            fs::write(folder.join("psql"), "").expect("it is ours");
        }
        let path = || [root.join("none"), first.clone(), second.clone()].into_iter();
        assert_eq!(typed_in(&first.join("psql"), path(), None), "psql");
        // The shell would start the first one.
        let hidden = second.join("psql");
        assert_eq!(typed_in(&hidden, path(), None), hidden.display().to_string());
        assert_eq!(typed_in(&hidden, path(), Some(&root)), "second/psql");
        assert_eq!(typed_in(&hidden, path(), Some(&second)), hidden.display().to_string());
        fs::remove_dir_all(&root).expect("it is ours");
    }
}
