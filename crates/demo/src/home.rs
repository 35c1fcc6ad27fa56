//! A directory of our own for the time PostgreSQL runs: its socket, its password file, and its data unless they are kept.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::account::Account;
use crate::binaries::Binaries;
use crate::error::Error;
use crate::query::socket_path;
use crate::random::random_hex;

/// `sockaddr_un` has room for 108 bytes, the last of them zero (unix(7)).
const SOCKET_PATH_MAX: usize = 107;

/// Removed with all its contents when dropped.
pub struct Home {
    pub dir: PathBuf,
}

impl Home {
    /// Made in `base` (`$TMPDIR`, if it is `None`) if PostgreSQL's account can go there and socket paths stay short, else in `/tmp`.
    ///
    /// # Errors
    /// It cannot be made there.
    pub fn create(base: Option<&Path>, account: Option<&Account>) -> Result<Self, Error> {
        let name = format!("pgweir-{}", random_hex(5));
        let wished = base.map_or_else(env::temp_dir, Path::to_owned);
        let fits = socket_fits(&wished.join(&name)) && (account.is_none() || anyone_may_enter(&wished));
        let base = if fits { wished } else { PathBuf::from("/tmp") };
        let dir = base.join(name);
        // Nobody but the account (and root) may enter: that is what makes trust on the socket inside it safe.
        DirBuilder::new().mode(0o700).create(&dir).map_err(Error::system(format!("create {}", dir.display())))?;
        let home = Self { dir };
        if let Some(account) = account {
            account.take(&home.dir).map_err(Error::system(format!(
                "give {} to {}",
                home.dir.display(),
                account.name
            )))?;
        }
        Ok(home)
    }

    /// The programs' directory as `account` can use it: a copy within this home if our cache lies where it cannot go, for
    /// example below `/root`.
    ///
    /// # Errors
    /// The account cannot run them where they are, and they are none of our cache.
    pub fn bring(&self, binaries: &Binaries, account: Option<&Account>) -> Result<PathBuf, Error> {
        let Some(account) = account.filter(|account| !can_run(&binaries.dir, account)) else {
            return Ok(binaries.dir.clone());
        };
        let inside = binaries.tree.as_deref().and_then(|tree| Some((tree, binaries.dir.strip_prefix(tree).ok()?)));
        let Some((tree, bin)) = inside else {
            let why =
                format!("user {} cannot run the programs there, and PostgreSQL refuses to run as root", account.name);
            return Err(Error::data(&binaries.dir, why));
        };
        let copy = self.dir.join("programs");
        run(Command::new("cp").arg("-R").arg(tree).arg(&copy))?;
        run(Command::new("chmod").args(["-R", "a+rX"]).arg(&copy))?;
        Ok(copy.join(bin))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Whether PostgreSQL can make its socket in `dir`, whatever its port.
pub(crate) fn socket_fits(dir: &Path) -> bool {
    socket_path(dir, u16::MAX).as_os_str().len() <= SOCKET_PATH_MAX
}

fn anyone_may_enter(dir: &Path) -> bool {
    dir.ancestors().all(|step| fs::metadata(step).is_ok_and(|about| about.permissions().mode() & 0o001 != 0))
}

fn can_run(dir: &Path, account: &Account) -> bool {
    let mut command = Command::new(dir.join("postgres"));
    command.arg("--version").current_dir("/").process_group(0);
    account.apply(&mut command);
    command.output().is_ok_and(|output| output.status.success())
}

/// Runs a program to its end; what it wrote is the error.
pub(crate) fn run(command: &mut Command) -> Result<(), Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(Error::system(format!("run {name}")))?;
    if output.status.success() {
        return Ok(());
    }
    let wrote = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    Err(Error::Program { name, wrote })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_is_ours_alone_and_goes_with_us() {
        let home = Home::create(None, None).expect("the temporary directory is writable");
        let dir = home.dir.clone();
        assert_eq!(fs::metadata(&dir).expect("just made").permissions().mode() & 0o777, 0o700);
        assert!(socket_fits(&dir));
        drop(home);
        assert!(!dir.exists());
    }

    #[test]
    fn long_paths_hold_no_socket() {
        assert!(socket_fits(Path::new("/tmp")));
        // The name `/.s.PGSQL.65535` takes 15 bytes of the 107.
        assert!(socket_fits(Path::new(&format!("/{}", "x".repeat(91)))));
        assert!(!socket_fits(Path::new(&format!("/{}", "x".repeat(92)))));
    }

    #[test]
    fn a_private_directory_is_not_for_anyone() {
        let home = Home::create(None, None).expect("the temporary directory is writable");
        assert!(!anyone_may_enter(&home.dir) && anyone_may_enter(Path::new("/")));
    }
}
