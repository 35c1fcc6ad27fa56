//! What is measured: a program that takes a `pgbouncer.ini`, started, pinned and ended alike for all.
//!
//! Promises: all contestants run as the same unprivileged user, from a copy of their program (a build that goes on
//! beside the measurement does not change it), and end when their value is dropped.
//! Does not: know what makes one contestant different from another, beyond the ini lines in its description.

use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use demo::{free_port, unprivileged};
use measure::{process, program};
use rustix::process::Signal;

/// How long a contestant may take to listen, and to end. Callgrind reads a program's lines first, and writes its file at last.
const STARTS_WITHIN: Duration = Duration::from_secs(180);
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// The description of a contestant.
#[derive(Clone, Debug)]
pub struct Contestant {
    pub name: String,
    /// `None` is the direct connection: nothing between client and server.
    pub program: Option<PathBuf>,
    /// What goes between the program and its ini file.
    pub argument: Option<&'static str>,
    /// What `PROGRAM --version` says of itself.
    pub version: String,
    /// The commit it was built from, where that is known.
    pub commit: Option<String>,
    /// Ini lines of its own, below `[pgbouncer]`, in every scenario.
    pub settings: Vec<(String, String)>,
    /// Ten classes of clients, and rules for them; pgweir only.
    pub classes: bool,
    /// Three hosts, of which one is the primary; pgweir only.
    pub hosts: bool,
}

impl Contestant {
    /// Reads `NAME=PROGRAM[,KEY=VALUE…]`. Errors: no such program, or it does not say its version.
    pub fn parse(text: &str) -> Result<Contestant, String> {
        let wrong = || format!("'{text}' is not NAME=PROGRAM[,KEY=VALUE…]");
        let mut parts = text.split(',');
        let (name, program) = parts.next().and_then(|first| first.split_once('=')).ok_or_else(wrong)?;
        let pair = |part: &str| part.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        let settings = parts.map(|part| pair(part).ok_or_else(wrong)).collect::<Result<_, _>>()?;
        let program = fs::canonicalize(program).map_err(|error| format!("no program {program}: {error}"))?;
        let version = program::version(&program)?;
        Ok(Contestant { program: Some(program), settings, ..Contestant::bare(name, own_version(&version)) })
    }

    /// The direct connection.
    pub fn direct() -> Contestant {
        Contestant::bare("direct", "no pooler")
    }

    /// This program as a relay: what copying alone costs. Errors: it does not know where it lies.
    pub fn relay() -> Result<Contestant, String> {
        let program = std::env::current_exe().map_err(|error| format!("where is this program? {error}"))?;
        let bare = Contestant::bare("relay", "recv and send, nothing else; a server for each client");
        Ok(Contestant { program: Some(program), argument: Some("relay"), ..bare })
    }

    fn bare(name: &str, version: &str) -> Contestant {
        let (name, version) = (name.to_owned(), version.to_owned());
        let (classes, hosts) = (false, false);
        Contestant { name, version, program: None, argument: None, commit: None, settings: Vec::new(), classes, hosts }
    }

    /// Version and commit, for people.
    pub fn described(&self) -> String {
        self.commit.as_ref().map_or_else(|| self.version.clone(), |commit| format!("{}, {commit}", self.version))
    }

    /// The same program under another name, with more settings.
    pub fn variant(&self, name: &str, settings: &[(&str, &str)]) -> Contestant {
        let more = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let settings = self.settings.iter().cloned().chain(more).collect();
        Contestant { name: name.to_owned(), settings, ..self.clone() }
    }
}

/// pgweir prints the version of the PgBouncer whose console it has first, and then its own. Earlier ones have both in one line.
fn own_version(printed: &str) -> &str {
    let first = printed.lines().next().unwrap_or_default();
    let inner = first.split_once('(').and_then(|(_, rest)| rest.split_once(')')).map(|(inner, _)| inner);
    let own = inner.into_iter().chain(printed.lines()).find(|words| words.starts_with("pgweir "));
    own.unwrap_or(first)
}

/// A folder for one run or for one part of it, which the unprivileged user can read, and that user.
///
/// The folder goes with its value, however the measurement ended, unless it is to be kept.
#[derive(Debug)]
pub struct Premises {
    pub folder: PathBuf,
    /// User and group of the contestants, where this program is root.
    pub user: Option<(u32, u32)>,
    /// Where the copies of the contestants' programs lie: in the run's own folder, for every room of it.
    programs: PathBuf,
    keep: bool,
}

impl Premises {
    /// Makes the folder. Errors: root without a user `postgres` or `nobody`, or a folder that cannot be made.
    pub fn open(keep: bool) -> Result<Premises, String> {
        let user = unprivileged().map(|account| (account.uid, account.gid));
        if user.is_none() && rustix::process::geteuid().is_root() {
            return Err("root needs a user 'postgres' or 'nobody' to run the contestants as".to_owned());
        }
        // A run that was killed leaves its folder, and its process number comes again one day.
        let path = |turn: u32| std::env::temp_dir().join(format!("pgweir-bench-{}-{turn}", std::process::id()));
        let make = |folder: PathBuf| Premises::make(folder.clone(), user, folder, keep);
        let place = (0..99).find_map(|turn| make(path(turn)).ok()).map_or_else(|| make(path(99)), Ok)?;
        if keep {
            eprintln!("keeping {}", place.folder.display());
        }
        Ok(place)
    }

    /// A fresh folder below this one, for one part of the run. Errors: there is one of that name already.
    pub fn room(&self, name: &str) -> Result<Premises, String> {
        Premises::make(self.folder.join(name), self.user, self.programs.clone(), self.keep)
    }

    fn make(folder: PathBuf, user: Option<(u32, u32)>, programs: PathBuf, keep: bool) -> Result<Premises, String> {
        fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        let place = Premises { folder, user, programs, keep };
        place.give(&place.folder)?;
        Ok(place)
    }

    /// Makes a file or folder the unprivileged user's own.
    pub fn give(&self, path: &Path) -> Result<(), String> {
        let Some((user, group)) = self.user else { return Ok(()) };
        chown(path, Some(user), Some(group)).map_err(|error| format!("cannot give {} away: {error}", path.display()))
    }

    /// Writes a file that the unprivileged user owns.
    pub fn write(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        self.give(&path)?;
        Ok(path)
    }

    /// A command that will run as the unprivileged user, in the folder, with its output in a file.
    pub fn command(&self, program: &Path, log: &str) -> Result<Command, String> {
        let log = self.folder.join(log);
        let file = File::create(&log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
        let copy = file.try_clone().map_err(|error| error.to_string())?;
        let mut command = Command::new(program);
        command.current_dir(&self.folder).stdin(Stdio::null()).stdout(file).stderr(copy);
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        Ok(command)
    }

    /// A copy of a program that the unprivileged user can run, wherever the original lies.
    pub fn copy(&self, contestant: &str, original: &Path) -> Result<PathBuf, String> {
        let path = self.programs.join(format!("program-{contestant}"));
        if !path.exists() {
            program::place(original, &path)?;
        }
        Ok(path)
    }
}

impl Drop for Premises {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// A contestant at work.
#[derive(Debug)]
pub struct Running {
    pub name: String,
    pub port: u16,
    /// The ini file's text for the record; the folder of the run, which is gone afterwards, is written as FOLDER.
    pub ini: String,
    child: Option<Child>,
    log: PathBuf,
}

impl Running {
    /// Starts a contestant on a free port and waits until it answers. `wrapper` is put before the program.
    pub fn start(
        place: &Premises,
        contestant: &Contestant,
        ini: impl Fn(u16) -> String,
        wrapper: &[String],
        cores: &[usize],
    ) -> Result<Running, String> {
        let program = contestant.program.as_deref().ok_or("the direct connection is not started")?;
        let program = place.copy(&contestant.name, program)?;
        let port = free_port();
        let text = ini(port);
        let file = place.write(&format!("{}-{port}.ini", contestant.name), &text)?;
        let log = format!("{}-{port}.log", contestant.name);
        let mut line: Vec<&std::ffi::OsStr> = wrapper.iter().map(std::ffi::OsStr::new).collect();
        line.push(program.as_os_str());
        line.extend(contestant.argument.map(std::ffi::OsStr::new));
        line.push(file.as_os_str());
        let mut command = place.command(Path::new(line[0]), &log)?;
        let child =
            command.args(&line[1..]).spawn().map_err(|error| format!("cannot start {}: {error}", contestant.name))?;
        let log = place.folder.join(log);
        let mut running = Running {
            name: contestant.name.clone(),
            port,
            ini: text.replace(&place.folder.display().to_string(), "FOLDER"),
            child: Some(child),
            log,
        };
        running.wait_until_it_listens()?;
        process::pin(running.pid(), cores)?;
        Ok(running)
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// What it has written so far.
    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let port = self.port;
        if self.child.as_mut().is_some_and(|child| program::awaits_clients(child, port, STARTS_WITHIN)) {
            return Ok(());
        }
        Err(format!("{} does not listen; it wrote:\n{}", self.name, self.log()))
    }

    /// Asks it to stop (SIGINT), then insists.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            program::end(&mut child, Signal::INT, ENDS_WITHIN);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::World;

    #[test]
    fn a_room_is_fresh_and_goes_with_its_value_also_after_an_error() {
        let run = Premises::open(false).expect("a folder");
        let part = || -> Result<(), String> {
            let room = run.room("tcp-8")?;
            World::open(&room.folder)?;
            assert!(run.room("tcp-8").is_err(), "two parts of a run never share a folder");
            Err("the scenario failed".to_owned())
        };
        for _ in 0..3 {
            assert_eq!(part(), Err("the scenario failed".to_owned()));
            assert!(!run.folder.join("tcp-8").exists());
        }
        let folder = run.folder.clone();
        drop(run);
        assert!(!folder.exists());
    }

    #[test]
    fn each_program_is_called_by_its_own_name() {
        assert_eq!(own_version("PgBouncer 1.25.2\npgweir 0.1.0\nfeatures: pam"), "pgweir 0.1.0");
        assert_eq!(own_version("PgBouncer 1.25.2 (pgweir 0.1.0)"), "pgweir 0.1.0");
        assert_eq!(own_version("PgBouncer 1.24.1\nlibevent 2.1.12-stable"), "PgBouncer 1.24.1");
        assert_eq!(own_version("PgBouncer 1.24.1"), "PgBouncer 1.24.1");
        assert_eq!(own_version("PgBouncer 1.24.1 (Debian)"), "PgBouncer 1.24.1 (Debian)");
        let direct = Contestant::direct();
        assert_eq!(direct.described(), "no pooler");
        let built = Contestant { commit: Some("abc".to_owned()), ..direct };
        assert_eq!(built.described(), "no pooler, abc");
    }

    #[test]
    fn a_folder_that_is_kept_stays_with_its_rooms() {
        let run = Premises::open(true).expect("a folder");
        let room = run.room("a").expect("a room").folder.clone();
        let folder = run.folder.clone();
        drop(run);
        assert!(room.exists());
        fs::remove_dir_all(folder).expect("ours");
    }
}
