//! A folder for one run, where PostgreSQL's account may write: a fresh copy of a suite's files, and its results.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use demo::Account;

use crate::apt::run;
use crate::stock::Stock;

#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) folder: PathBuf,
    /// PostgreSQL's programs, where the account can run them.
    pub(crate) tree: PathBuf,
    pub(crate) account: Option<Account>,
    keep: bool,
}

impl Place {
    /// Made in `/tmp`, removed when dropped unless it is to be kept.
    ///
    /// # Errors
    /// If it cannot be made.
    pub(crate) fn open(stock: &Stock, keep: bool) -> Result<Place, String> {
        let folder = PathBuf::from(format!("/tmp/regress-{}", std::process::id()));
        fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let mut place = Place { folder, tree: stock.tree(), account: demo::unprivileged(), keep };
        place.give(&place.folder)?;
        // Server, psql and the tests' libraries must be within the account's reach.
        let inside = [place.tree.clone(), stock.libraries()];
        place.bring(&inside[1], "lib")?;
        if !place.can_reach(stock) {
            place.tree = place.bring(&inside[0], "tree")?;
        }
        Ok(place)
    }

    /// A copy of a folder, the account's own, under a name that is replaced if it is there.
    pub(crate) fn bring(&self, from: &Path, name: &str) -> Result<PathBuf, String> {
        let to = self.folder.join(name);
        let _ = fs::remove_dir_all(&to);
        run(Command::new("cp").arg("-R").arg(from).arg(&to))?;
        run(Command::new("chmod").args(["-R", "u+rwX,a+rX"]).arg(&to))?;
        if let Some(account) = &self.account {
            run(Command::new("chown").arg("-R").arg(format!("{}:{}", account.uid, account.gid)).arg(&to))?;
        }
        Ok(to)
    }

    fn can_reach(&self, stock: &Stock) -> bool {
        let Ok(binaries) = stock.binaries(&self.tree) else { return false };
        let mut psql = Command::new(binaries.dir.join("psql"));
        psql.arg("--version").current_dir("/");
        if let Some(account) = &self.account {
            account.apply(&mut psql);
        }
        psql.output().is_ok_and(|output| output.status.success())
    }

    fn give(&self, path: &Path) -> Result<(), String> {
        let Some(account) = &self.account else { return Ok(()) };
        chown(path, Some(account.uid), Some(account.gid))
            .map_err(|error| format!("cannot give {} away: {error}", path.display()))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.keep {
            eprintln!("kept {}", self.folder.display());
        } else {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}
