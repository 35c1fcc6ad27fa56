//! What the suites need, kept in the cache: PostgreSQL's programs and its test sources, both of one minor version.
//!
//! ```text
//!   .cache/regress/VERSION/tree      Debian's binary packages, unpacked
//!                         /source    src/test and contrib of the source package
//!                         /lib       regress.so, built from that source, and two libraries of contrib
//!                         /ready     written last
//! ```
//!
//! The archive may announce a version whose source it does not hand out: then the next older one is taken, programs and
//! sources both, because expected files hold for one minor version only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use demo::Binaries;

use crate::apt::{self, Apt};

#[derive(Clone, Debug)]
pub(crate) struct Stock {
    /// `15.18`.
    pub(crate) version: String,
    folder: PathBuf,
    /// `/usr/lib/postgresql/15` within the tree.
    home: String,
}

impl Stock {
    /// From the cache, or fetched into it. `say` gets a line for each thing that takes time.
    ///
    /// # Errors
    /// Says what could not be fetched or built.
    pub(crate) fn get(cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Stock, String> {
        let shelf = cache.join("regress");
        fs::create_dir_all(&shelf).map_err(|error| format!("cannot make {}: {error}", shelf.display()))?;
        let shelf = fs::canonicalize(&shelf).map_err(|error| error.to_string())?;
        match cached(&shelf) {
            Some(stock) => Ok(stock),
            None => fetch(&shelf, say),
        }
    }

    pub(crate) fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// `src/test/regress`, `src/test/isolation`, `contrib` and so on.
    pub(crate) fn source(&self, below: &str) -> PathBuf {
        self.folder.join("source").join(below)
    }

    /// Libraries that the tests load by path.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.folder.join("lib")
    }

    /// The programs within `tree`, which may be a copy of our own.
    pub(crate) fn binaries(&self, tree: &Path) -> Result<Binaries, String> {
        let bin = tree.join(&self.home).join("bin");
        Binaries::at(&bin, Some(tree)).ok_or_else(|| format!("no PostgreSQL that runs in {}", bin.display()))
    }

    /// A program of the test tools, such as `regress/pg_regress`.
    pub(crate) fn tool(&self, tree: &Path, name: &str) -> PathBuf {
        tree.join(&self.home).join("lib/pgxs/src/test").join(name)
    }

    /// Whether an extension's files are there.
    pub(crate) fn has_extension(&self, name: &str) -> bool {
        let share = self.home.replace("lib/", "share/");
        self.tree().join(share).join(format!("extension/{name}.control")).is_file()
    }

    fn new(folder: PathBuf, version: &str) -> Stock {
        let major = version.split('.').next().unwrap_or_default();
        Stock { version: version.to_owned(), folder, home: format!("usr/lib/postgresql/{major}") }
    }
}

fn cached(shelf: &Path) -> Option<Stock> {
    let ready =
        fs::read_dir(shelf).ok()?.flatten().map(|entry| entry.path()).find(|path| path.join("ready").is_file())?;
    let version = ready.file_name()?.to_str()?.to_owned();
    Some(Stock::new(ready, &version))
}

fn fetch(shelf: &Path, say: &mut dyn FnMut(&str)) -> Result<Stock, String> {
    say(&format!("fetching PostgreSQL's test suites into {}", shelf.display()));
    need("bzip2", &["bzip2"])?;
    need("cc", &["gcc", "libc6-dev"])?;
    let apt = Apt::open(&shelf.join("apt"))?;
    let package = apt.server_package()?;
    let mut tried = Vec::new();
    for version in apt.source_versions(&package)? {
        match fetch_version(shelf, &apt, &package, &version) {
            Ok(stock) => {
                let _ = fs::remove_dir_all(shelf.join("apt"));
                return Ok(stock);
            }
            Err(why) => {
                let _ = fs::remove_dir_all(shelf.join(upstream(&version)));
                say(&format!("{package} {version}: {why}"));
                tried.push(version);
            }
        }
    }
    Err(format!("no version of {package} could be had whole (tried {})", tried.join(", ")))
}

/// A program that unpacking or building needs.
fn need(program: &str, packages: &[&str]) -> Result<(), String> {
    if Command::new(program).arg("--version").output().is_ok() {
        return Ok(());
    }
    apt::install(&packages.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
        .map_err(|error| format!("{program}: {error}"))
}

/// `version` is Debian's, such as `15.18-0+deb12u1`.
fn fetch_version(shelf: &Path, apt: &Apt, package: &str, version: &str) -> Result<Stock, String> {
    let upstream = upstream(version);
    let folder = shelf.join(upstream);
    // What an interrupted run left is no start.
    let _ = fs::remove_dir_all(&folder);
    let fetched = folder.join("fetched");
    for below in ["tree", "source", "lib", "fetched"] {
        fs::create_dir_all(folder.join(below)).map_err(|error| error.to_string())?;
    }
    apt.fetch_source(package, version, &fetched)?;
    let packages = [
        package.to_owned(),
        package.replace("postgresql-", "postgresql-client-"),
        package.replace("postgresql-", "postgresql-server-dev-"),
    ];
    apt.fetch_binaries(&packages, version, &fetched)?;
    let stock = Stock::new(folder.clone(), upstream);
    unpack(&stock, &fetched)?;
    if Binaries::at(&stock.tree().join(&stock.home).join("bin"), None).is_none() {
        apt::install(&apt.libraries(&packages[..2])?)?;
    }
    build_libraries(&stock)?;
    let _ = fs::remove_dir_all(&fetched);
    fs::write(folder.join("ready"), format!("{version}\n")).map_err(|error| error.to_string())?;
    Ok(stock)
}

/// `15.18` of `15.18-0+deb12u1`.
fn upstream(version: &str) -> &str {
    version.split('-').next().unwrap_or(version)
}

fn unpack(stock: &Stock, fetched: &Path) -> Result<(), String> {
    for entry in fs::read_dir(fetched).map_err(|error| error.to_string())?.flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.ends_with(".deb") {
            apt::run(Command::new("dpkg").arg("-x").arg(&path).arg(stock.tree()))?;
        } else if name.contains(".orig.tar.") {
            let mut tar = Command::new("tar");
            tar.arg("-xf").arg(&path).arg("-C").arg(stock.source("")).arg("--strip-components=1");
            apt::run(tar.args(["--wildcards", "*/src/test/*", "*/contrib/*"]))?;
        }
    }
    Ok(())
}

/// `regress.so` from its source; `refint` and `autoinc` are looked for beside it.
fn build_libraries(stock: &Stock) -> Result<(), String> {
    let major = stock.home.rsplit('/').next().unwrap_or_default();
    let include = stock.tree().join(format!("usr/include/postgresql/{major}/server"));
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-fPIC", "-shared", "-I"]).arg(include).arg("-o").arg(stock.libraries().join("regress.so"));
    apt::run(cc.arg(stock.source("src/test/regress/regress.c")))?;
    for name in ["refint.so", "autoinc.so"] {
        let from = stock.tree().join(&stock.home).join("lib").join(name);
        fs::copy(&from, stock.libraries().join(name)).map_err(|error| format!("{}: {error}", from.display()))?;
    }
    Ok(())
}
