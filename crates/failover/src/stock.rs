//! The programs of a cluster: PostgreSQL's, and those that `tools/patroni` has fetched.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use demo::{Account, Binaries, Home};

/// The python3 of the system, which PostgreSQL's account can run.
const PYTHON: &str = "/usr/bin/python3";

/// Programs and packages, where they were installed.
#[derive(Clone, Debug)]
pub struct Stock {
    pub postgresql: Binaries,
    /// The folder that `tools/patroni` prints.
    pub patroni: PathBuf,
}

impl Stock {
    /// PostgreSQL of this machine, and the folder `$PGWEIR_PATRONI`, else `.cache/patroni` of this repository.
    ///
    /// # Errors
    /// One of them is missing.
    pub fn find() -> Result<Self, String> {
        let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache");
        let named = env::var_os("PGWEIR_PATRONI").filter(|path| !path.is_empty()).map(PathBuf::from);
        let patroni = named.unwrap_or_else(|| cache.join("patroni"));
        if !patroni.join("requirements.txt").exists() {
            return Err(format!("there is no Patroni in {}: tools/patroni installs one", patroni.display()));
        }
        let postgresql =
            demo::find_or_install(&cache, &mut |line| eprintln!("{line}")).map_err(|error| error.to_string())?;
        Ok(Self { postgresql, patroni })
    }
}

/// Programs that the cluster's account can run.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) postgresql: PathBuf,
    python: PathBuf,
    etcd: PathBuf,
}

impl Programs {
    /// Copies what the account cannot reach into `home`.
    pub(crate) fn bring(stock: &Stock, home: &Home, account: Option<&Account>) -> Result<Self, String> {
        let postgresql = home.bring(&stock.postgresql, account).map_err(|error| error.to_string())?;
        let at = |tree: &Path| Self {
            postgresql: postgresql.clone(),
            python: tree.join("python"),
            etcd: tree.join("etcd/usr/bin/etcd"),
        };
        let there = at(&stock.patroni);
        if there.run(account) {
            return Ok(there);
        }
        let copy = home.dir.join("patroni");
        copy_tree(&stock.patroni, &copy)?;
        let brought = at(&copy);
        if brought.run(account) {
            Ok(brought)
        } else {
            Err(format!("{PYTHON} cannot run Patroni, or etcd does not run"))
        }
    }

    /// `python3 -m patroni`.
    pub(crate) fn patroni(&self) -> (PathBuf, &'static [&'static str]) {
        (PathBuf::from(PYTHON), &["-m", "patroni"])
    }

    /// For Patroni's environment.
    pub(crate) fn python_path(&self) -> &Path {
        &self.python
    }

    pub(crate) fn etcd(&self) -> &Path {
        &self.etcd
    }

    fn run(&self, account: Option<&Account>) -> bool {
        let runs = |command: &mut Command| {
            command.current_dir("/").stdin(Stdio::null()).env("PYTHONPATH", &self.python);
            if let Some(account) = account {
                account.apply(command);
            }
            command.arg("--version").output().is_ok_and(|output| output.status.success())
        };
        let (python, module) = self.patroni();
        runs(Command::new(python).args(module)) && runs(&mut Command::new(&self.etcd))
    }
}

fn copy_tree(from: &Path, to: &Path) -> Result<(), String> {
    let script = "cp -R -- \"$1\" \"$2\" && chmod -R a+rX \"$2\"";
    let output = Command::new("/bin/sh").args(["-c", script, "copy"]).args([from, to]).output();
    let output = output.map_err(|error| format!("cannot run /bin/sh: {error}"))?;
    let wrote = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("cannot copy {}: {wrote}", from.display())) }
}
