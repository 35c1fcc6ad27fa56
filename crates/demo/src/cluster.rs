//! A running PostgreSQL with a data directory, a port and a socket of its own.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::account::{Account, unprivileged};
use crate::binaries::Binaries;
use crate::error::Error;
use crate::guard::Guard;
use crate::home::{Home, run, socket_fits};
use crate::port::free_port;
use crate::query::{Line, socket_path};
use crate::random::random_password;
use crate::template::Template;

/// How long a start (with crash recovery) or a stop may take; PostgreSQL's own tools wait 60 s.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a starting PostgreSQL is asked whether it serves.
const ASK_EVERY: Duration = Duration::from_millis(10);
/// Somebody may take a free port before PostgreSQL does.
const PORT_TRIES: usize = 5;

/// What kind of PostgreSQL to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// On 127.0.0.1 and ::1. `None`: a free one.
    pub port: Option<u16>,
    /// Kept afterwards; made if it is missing or empty. `None`: a temporary one, removed afterwards.
    pub data: Option<PathBuf>,
    /// `None`: a temporary one. The path of the socket in it must not exceed 107 bytes.
    pub socket_dir: Option<PathBuf>,
    pub superuser: String,
    /// For TCP; data that were kept get it as their new password, unless they are a standby's.
    pub password: String,
    pub max_connections: u32,
    /// More settings as in postgresql.conf; they win over ours.
    pub extra: Vec<(String, String)>,
    /// Off, a crash of the machine may lose the data, and everything is faster.
    pub fsync: bool,
    /// The directory for the cluster's temporary files. `None`: `$TMPDIR` or `/tmp`.
    pub base: Option<PathBuf>,
    /// A directory in which data directories are kept that temporary clusters copy, instead of an `initdb` for each. For tests:
    /// who can write there decides what PostgreSQL runs. `None`: no copies.
    pub template: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            port: None,
            data: None,
            socket_dir: None,
            superuser: "postgres".to_owned(),
            password: random_password(),
            max_connections: 100,
            extra: Vec::new(),
            fsync: false,
            base: None,
            template: None,
        }
    }
}

/// PostgreSQL's three ways to stop.
//= pg18 server-shutdown
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Waits until all clients have left.
    Smart,
    /// Ends all sessions, writes everything down.
    Fast,
    /// Ends everything at once; the next start recovers as after a crash.
    Immediate,
}

/// A running PostgreSQL. Dropping it stops it at once and removes what was temporary.
pub struct Cluster {
    options: Options,
    account: Option<Account>,
    /// The programs as PostgreSQL's account can reach them.
    programs: PathBuf,
    port: u16,
    data: PathBuf,
    socket_dir: PathBuf,
    log: PathBuf,
    postmaster: Option<Child>,
    // Fields drop in this order: the guard is dismissed before the home goes.
    guard: Guard,
    _home: Home,
}

impl Cluster {
    /// Starts PostgreSQL and returns when it accepts connections.
    ///
    /// # Errors
    /// Says what the data directory, the port or PostgreSQL itself had against it, with the end of PostgreSQL's log.
    pub fn start(binaries: &Binaries, options: Options) -> Result<Self, Error> {
        let account = unprivileged();
        let home = Home::create(options.base.as_deref(), account.as_ref())?;
        let programs = home.bring(binaries, account.as_ref())?;
        let socket_dir = options.socket_dir.clone().unwrap_or_else(|| home.dir.clone());
        if !socket_fits(&socket_dir) {
            return Err(Error::data(&socket_dir, "a Unix socket's path may have 107 bytes, and this one has more"));
        }
        let data = options.data.clone().unwrap_or_else(|| home.dir.join("data"));
        let log = if options.data.is_some() { data.join("pgweir-postgres.log") } else { home.dir.join("log") };
        let signal = if options.data.is_some() { "INT" } else { "QUIT" };
        let guard = Guard::start(&home.dir, signal, account.as_ref())?;
        let port = options.port.unwrap_or_else(free_port);
        let mut cluster =
            Self { options, account, programs, port, data, socket_dir, log, postmaster: None, guard, _home: home };
        let has_our_password = cluster.prepare(binaries)?;
        cluster.start_on_some_port()?;
        // A standby has the primary's passwords.
        let is_standby = cluster.data.join("standby.signal").exists();
        if !has_our_password && !is_standby {
            cluster.set_password()?;
        }
        Ok(cluster)
    }

    /// The address of its TCP port.
    #[must_use]
    pub fn host(&self) -> &'static str {
        "127.0.0.1"
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its Unix socket, which trusts whoever can reach it: its own account and root.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        &self.socket_dir
    }

    #[must_use]
    pub fn user(&self) -> &str {
        &self.options.superuser
    }

    #[must_use]
    pub fn password(&self) -> &str {
        &self.options.password
    }

    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// The account it runs as, if that is not our own.
    #[must_use]
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }

    /// `postgres://user:password@host:port/db`.
    #[must_use]
    pub fn url(&self, db: &str) -> String {
        let [user, password, db] = [self.user(), self.password(), db].map(percent);
        format!("postgres://{user}:{password}@{}:{}/{db}", self.host(), self.port)
    }

    /// The postmaster's process id, 0 while it is stopped.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.postmaster.as_ref().map_or(0, Child::id)
    }

    /// Stops all its processes where they are, as a machine that is paused does. Its kernel still takes connections and bytes for it.
    ///
    /// # Errors
    /// The processes cannot be listed.
    pub fn freeze(&self) -> Result<(), Error> {
        self.signal_all(Signal::STOP)
    }

    /// Resumes all processes.
    ///
    /// # Errors
    /// The processes cannot be listed.
    pub fn thaw(&self) -> Result<(), Error> {
        self.signal_all(Signal::CONT)
    }

    /// The postmaster first, so that no process is started behind us.
    fn signal_all(&self, signal: Signal) -> Result<(), Error> {
        let postmaster = self.pid();
        let send = |pid: u32| {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // The process may have ended meanwhile.
                let _ = rustix::process::kill_process(pid, signal);
            }
        };
        send(postmaster);
        children(postmaster)?.into_iter().for_each(send);
        Ok(())
    }

    /// Runs `sql` directly (past any pooler) and returns its rows as `psql -At` prints them.
    ///
    /// # Errors
    /// [`Error::Refused`] with PostgreSQL's SQLSTATE, or [`Error::System`] if it cannot be reached.
    pub fn psql(&self, db: &str, sql: &str) -> Result<String, Error> {
        let socket = socket_path(&self.socket_dir, self.port);
        Line { socket, user: self.options.superuser.clone(), database: db.to_owned(), patience: PATIENCE }.ask(sql)
    }

    /// Stops it and starts it again on the same port.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn restart(&mut self, how: Shutdown) -> Result<(), Error> {
        self.halt(how)?;
        self.resume()
    }

    /// Stops it; [`Cluster::resume`] starts it again.
    ///
    /// # Errors
    /// If it is still there after a minute (a client stays during a smart shutdown).
    pub fn halt(&mut self, how: Shutdown) -> Result<(), Error> {
        let Some(mut postmaster) = self.postmaster.take() else { return Ok(()) };
        let ended = end(&mut postmaster, how);
        if ended.is_err() {
            self.postmaster = Some(postmaster);
        }
        ended
    }

    /// Starts it again after [`Cluster::halt`], and returns when it accepts connections.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn resume(&mut self) -> Result<(), Error> {
        if self.postmaster.is_some() {
            return Ok(());
        }
        let postmaster = self.spawn()?;
        self.guard.watch(postmaster.id())?;
        self.postmaster = Some(postmaster);
        self.wait_until_serving()
    }

    /// Stops it: kept data are written down properly, temporary ones are removed.
    ///
    /// # Errors
    /// If PostgreSQL does not stop within a minute.
    pub fn stop(mut self) -> Result<(), Error> {
        let how = if self.options.data.is_some() { Shutdown::Fast } else { Shutdown::Immediate };
        self.halt(how)
    }

    /// Makes the data directory usable; true if initdb has set our password there.
    fn prepare(&self, binaries: &Binaries) -> Result<bool, Error> {
        if let Some(dir) = &self.options.socket_dir {
            self.adopt(dir)?;
        }
        if let Ok(version) = fs::read_to_string(self.data.join("PG_VERSION")) {
            return self.check_kept(version.trim(), binaries).map(|()| false);
        }
        if fs::read_dir(&self.data).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::data(&self.data, "is not empty and holds no PostgreSQL data"));
        }
        self.adopt(&self.data)?;
        let dir = self.options.template.as_ref().filter(|_| self.options.data.is_none());
        let template = dir.and_then(|dir| Template::within(dir, binaries, &self.initdb_arguments()));
        let doing = || Error::system("copy a data directory");
        if let Some(template) = &template {
            fs::set_permissions(&self.data, fs::Permissions::from_mode(0o700)).map_err(doing())?;
            if template.bring(&self.data, self.account.as_ref()).map_err(doing())? {
                return Ok(false);
            }
        }
        self.initdb()?;
        if let Some(template) = &template {
            // Without it, the next one takes longer.
            let _ = template.keep(&self.data);
        }
        Ok(true)
    }

    /// The arguments of initdb, but for the folder and the password: clusters with equal arguments can share a template.
    fn initdb_arguments(&self) -> Vec<String> {
        let user = format!("--username={}", self.options.superuser);
        let rest = ["--auth-local=trust", "--auth-host=scram-sha-256", "--encoding=UTF8", "--locale=C"];
        rest.map(str::to_owned).into_iter().chain([user]).collect()
    }

    /// Makes a directory if it is missing, and gives it to PostgreSQL's account if it is root's.
    fn adopt(&self, dir: &Path) -> Result<(), Error> {
        let doing = || Error::system(format!("prepare {}", dir.display()));
        fs::create_dir_all(dir).map_err(doing())?;
        let Some(account) = &self.account else { return Ok(()) };
        if fs::metadata(dir).map_err(doing())?.uid() == 0 {
            account.take(dir).map_err(doing())?;
        }
        Ok(())
    }

    fn check_kept(&self, version: &str, binaries: &Binaries) -> Result<(), Error> {
        if version != binaries.major() {
            let why = format!("was made by PostgreSQL {version}, but this machine's is {}", binaries.version);
            return Err(Error::data(&self.data, why));
        }
        let owner = fs::metadata(&self.data).map_err(Error::system("look at the data directory"))?.uid();
        let wanted = self.account.as_ref().map_or_else(|| rustix::process::geteuid().as_raw(), |account| account.uid);
        if owner == wanted {
            return Ok(());
        }
        let name = self.account.as_ref().map_or("this user", |account| &account.name);
        let why = format!("belongs to user {owner}, but PostgreSQL would run as {name} ({wanted}): chown -R it");
        Err(Error::data(&self.data, why))
    }

    fn initdb(&self) -> Result<(), Error> {
        let pwfile = self._home.dir.join("password");
        let doing = || Error::system("write the password file");
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&pwfile).map_err(doing())?;
        writeln!(file, "{}", self.options.password).map_err(doing())?;
        if let Some(account) = &self.account {
            account.take(&pwfile).map_err(doing())?;
        }
        let mut command = self.program("initdb");
        command.arg("-D").arg(&self.data).args(self.initdb_arguments());
        command.arg(format!("--pwfile={}", pwfile.display()));
        if !self.options.fsync {
            command.arg("--no-sync");
        }
        let made = run(&mut command);
        let _ = fs::remove_file(&pwfile);
        made
    }

    /// One of PostgreSQL's programs, with nothing of our environment that could lead it astray (PGDATA, PGPORT, a locale),
    /// in a place its account may be, and out of reach of our terminal's Ctrl-C.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        let kept = ["PATH", "LD_LIBRARY_PATH", "TZ"].map(|name| (name, std::env::var_os(name)));
        command.env_clear().envs(kept.into_iter().filter_map(|(name, value)| Some((name, value?)))).env("LC_ALL", "C");
        command.current_dir(&self._home.dir).stdin(Stdio::null()).process_group(0);
        if let Some(account) = &self.account {
            account.apply(&mut command);
        }
        command
    }

    fn start_on_some_port(&mut self) -> Result<(), Error> {
        for _ in 1..PORT_TRIES {
            match self.resume() {
                Err(Error::NotServing { log, .. }) if self.options.port.is_none() && log.contains("in use") => {
                    self.port = free_port();
                }
                other => return other,
            }
        }
        self.resume()
    }

    fn spawn(&self) -> Result<Child, Error> {
        let doing = || Error::system(format!("open {}", self.log.display()));
        let log = File::create(&self.log).map_err(doing())?;
        log.set_permissions(fs::Permissions::from_mode(0o600)).map_err(doing())?;
        if let Some(account) = &self.account {
            account.take(&self.log).map_err(doing())?;
        }
        let mut command = self.program("postgres");
        command.arg("-D").arg(&self.data);
        // Where dblink and postgres_fdw connect if nobody tells them: back to this server.
        command.env("PGHOST", &self.socket_dir);
        for (name, value) in self.settings() {
            command.arg("-c").arg(format!("{name}={value}"));
        }
        command.stdout(log.try_clone().map_err(doing())?).stderr(log);
        command.spawn().map_err(Error::system("start postgres"))
    }

    /// Settings go on the command line, so that kept data stay as their owner configured them.
    fn settings(&self) -> Vec<(String, String)> {
        let on_off = if self.options.fsync { "on" } else { "off" };
        let ours = [
            ("port", self.port.to_string()),
            ("listen_addresses", "127.0.0.1,::1".to_owned()),
            ("unix_socket_directories", quote_path(&self.socket_dir)),
            ("unix_socket_permissions", "0700".to_owned()),
            ("max_connections", self.options.max_connections.to_string()),
            ("password_encryption", "scram-sha-256".to_owned()),
            ("fsync", on_off.to_owned()),
            ("full_page_writes", on_off.to_owned()),
            ("logging_collector", "off".to_owned()),
            ("lc_messages", "C".to_owned()),
        ];
        let ours = ours.into_iter().map(|(name, value)| (name.to_owned(), value));
        ours.chain(self.options.extra.iter().cloned()).collect()
    }

    /// Asks until it answers. It may refuse (starting up, recovering) or not listen yet; if it ends, that is the answer.
    fn wait_until_serving(&mut self) -> Result<(), Error> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let refused = match self.psql("postgres", "select 1") {
                Ok(_) => return Ok(()),
                Err(Error::Refused { sqlstate, message }) if sqlstate != "57P03" => {
                    return Err(Error::Refused { sqlstate, message });
                }
                Err(error) => error,
            };
            let postmaster = self.postmaster.as_mut().expect("resume has just started it");
            if wait_for_end(postmaster, ASK_EVERY)? {
                self.postmaster = None;
                return Err(self.not_serving("it ended".to_owned()));
            }
            if Instant::now() > deadline {
                return Err(self.not_serving(format!("no answer within {} s ({refused})", PATIENCE.as_secs())));
            }
        }
    }

    fn not_serving(&self, why: String) -> Error {
        let text = fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let tail = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default();
        Error::NotServing { why, log: tail.join("\n") }
    }

    fn set_password(&self) -> Result<(), Error> {
        let user = self.options.superuser.replace('"', "\"\"");
        let password = self.options.password.replace('\'', "''");
        // As a SCRAM verifier, even if the settings choose md5: pg_hba.conf, which initdb has made, demands SCRAM over TCP.
        let settings = "set standard_conforming_strings = on; set password_encryption = 'scram-sha-256'";
        let sql = format!("{settings}; alter role \"{user}\" password '{password}'");
        self.psql("postgres", &sql).map(|_| ())
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.halt(Shutdown::Immediate);
    }
}

/// Asks a postmaster to stop, and waits until it has.
fn end(postmaster: &mut Child, how: Shutdown) -> Result<(), Error> {
    let signal = match how {
        Shutdown::Smart => Signal::TERM,
        Shutdown::Fast => Signal::INT,
        Shutdown::Immediate => Signal::QUIT,
    };
    // A child that has been waited for has no process id any more: the number may be somebody else's.
    if postmaster.try_wait().map_err(Error::system("look after postgres"))?.is_some() {
        return Ok(());
    }
    let pid = Pid::from_child(postmaster);
    rustix::process::kill_process(pid, signal).map_err(|error| Error::system("signal postgres")(error.into()))?;
    if wait_for_end(postmaster, PATIENCE)? {
        return Ok(());
    }
    Err(Error::Program { name: "postgres".to_owned(), wrote: format!("still runs a minute after {how:?} shutdown") })
}

/// The processes that this one has started.
fn children(parent: u32) -> Result<Vec<u32>, Error> {
    let listed = |pid: &str| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name of the program, in parentheses, may have spaces.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        (fields.nth(1)?.parse() == Ok(parent)).then(|| pid.parse().ok())?
    };
    let entries = fs::read_dir("/proc").map_err(Error::system("list processes"))?;
    Ok(entries.flatten().filter_map(|entry| listed(entry.file_name().to_str()?)).collect())
}

/// Waits for a child's end, but no longer than `patience`; true if it ended.
fn wait_for_end(child: &mut Child, patience: Duration) -> Result<bool, Error> {
    let doing = || Error::system("wait for postgres");
    if child.try_wait().map_err(doing())?.is_some() {
        return Ok(true);
    }
    let process = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty())
        .map_err(|error| doing()(error.into()))?;
    let timeout = Timespec::try_from(patience).expect("a minute fits");
    match rustix::event::poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&timeout)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(child.try_wait().map_err(doing())?.is_some()),
        Err(error) => Err(doing()(error.into())),
    }
}

/// A path as an element of a list setting.
fn quote_path(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('"', "\"\""))
}

/// Percent-encodes what has a meaning of its own in a URL.
fn percent(text: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._~".contains(b);
    text.as_bytes().iter().map(|b| if plain(b) { char::from(*b).to_string() } else { format!("%{b:02X}") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_paths_are_quoted() {
        assert_eq!(percent("a-b_c.~9"), "a-b_c.~9");
        assert_eq!(percent("p@ss/wörd"), "p%40ss%2Fw%C3%B6rd");
        assert_eq!(quote_path(Path::new("/a, b\"c")), "\"/a, b\"\"c\"");
    }
}
