//! A small shell beside us that ends a server and removes its files if we are killed without a chance to do it.
//!
//! It reads from a pipe whose other end only we hold. When we die the pipe ends, however we died; then it acts. While we
//! live it sleeps in that read and costs nothing. It runs as the server's account, so it can do no more than that.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

use crate::account::Account;
use crate::error::Error;

/// The last line read is the process to end, or `done`. `$1` is the directory to remove, `$2` the signal.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
pid=
while read -r line; do pid=$line; done
if [ "$pid" = done ]; then exit 0; fi
if [ -n "$pid" ]; then
  kill -"$2" "$pid"
  left=600
  while kill -0 "$pid" && [ "$left" -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
fi 2>/dev/null
rm -rf -- "$1"
"#;

/// Kills all processes whose working directory is `$1` or below it, by their numbers, until there is none.
const SCRIPT_OF_A_FOLDER: &str = r#"
trap '' HUP INT TERM
last=
while read -r line; do last=$line; done
if [ "$last" = done ]; then exit 0; fi
left=100
while [ "$left" -gt 0 ]; do
  found=
  for process in /proc/[0-9]*; do
    case $(readlink "$process/cwd") in "$1" | "$1"/*) kill -KILL "${process#/proc/}" && found=1 ;; esac
  done
  [ -n "$found" ] || break
  left=$((left - 1))
  sleep 0.1
done 2>/dev/null
rm -rf -- "$1"
"#;

/// Watches over one server process at a time, or over all processes that run in a folder, until it is dropped.
pub struct Guard {
    shell: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Would remove the directory `home` and send `signal` (for PostgreSQL, INT writes everything down first, QUIT does not
    /// wait for that). It acts as `account`, which must be allowed to do both.
    ///
    /// # Errors
    /// If there is no `/bin/sh` to run.
    pub fn start(home: &Path, signal: &str, account: Option<&Account>) -> Result<Self, Error> {
        Self::run(SCRIPT, &[home.as_os_str(), signal.as_ref()], account)
    }

    /// Would kill all processes whose working directory is `folder` or below it, and remove the folder.
    ///
    /// # Errors
    /// If there is no `/bin/sh` to run.
    pub fn of_folder(folder: &Path, account: Option<&Account>) -> Result<Self, Error> {
        Self::run(SCRIPT_OF_A_FOLDER, &[folder.as_os_str()], account)
    }

    fn run(script: &str, arguments: &[&OsStr], account: Option<&Account>) -> Result<Self, Error> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script, "pgweir-guard"]).args(arguments);
        // Our terminal's Ctrl-C must not reach it, and it must not hold our standard output open.
        command.current_dir("/").stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        if let Some(account) = account {
            account.apply(&mut command);
        }
        let mut shell = command.spawn().map_err(Error::system("start the guard (/bin/sh)"))?;
        let pipe = shell.stdin.take();
        Ok(Self { shell, pipe })
    }

    /// From now on `pid` is what must not outlive us.
    ///
    /// # Errors
    /// If the guard itself has been killed.
    pub fn watch(&mut self, pid: u32) -> Result<(), Error> {
        self.tell(&pid.to_string())
    }

    fn tell(&mut self, line: &str) -> Result<(), Error> {
        let pipe = self.pipe.as_mut().expect("the pipe is closed only when the guard is dropped");
        writeln!(pipe, "{line}").map_err(Error::system("tell the guard"))
    }
}

impl Drop for Guard {
    /// Dismissed: the server has been stopped, and nothing is left to guard.
    fn drop(&mut self) {
        let _ = self.tell("done");
        drop(self.pipe.take());
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_runs_in_a_folder_ends_when_nobody_is_left_to_dismiss_the_guard() {
        let folder = std::env::temp_dir().join(format!("pgweir-guarded-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("below")).expect("the number is ours");
        let folder = std::fs::canonicalize(folder).expect("it is there");
        let sleep = |folder: &Path| Command::new("/bin/sleep").arg("600").current_dir(folder).spawn().expect("a sleep");
        let (mut inside, mut outside) = (sleep(&folder.join("below")), sleep(Path::new("/")));
        let mut guard = Guard::of_folder(&folder, None).expect("there is a shell");
        // As the kernel does it when this process is killed.
        drop(guard.pipe.take());
        guard.shell.wait().expect("it is our child");
        std::mem::forget(guard);
        let ended = inside.wait().expect("it is our child");
        assert!(!ended.success() && !folder.exists());
        assert!(outside.try_wait().expect("it is our child").is_none(), "it is none of the guard's");
        outside.kill().and_then(|()| outside.wait()).expect("it is ours");
    }
}
