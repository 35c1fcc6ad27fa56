//! A pooler of a trial: a child process from an ini file, the same lines for pgweir and PgBouncer.
//!
//! Promises: it runs as an unprivileged account if we are root, out of reach of the terminal's Ctrl-C, and is gone with its
//! directory when its value is dropped, or when we are killed.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ask::Target;
use client::Place;
use demo::{Account, Guard, free_port, random_password, unprivileged};
use measure::{login, program};
use rustix::process::Signal;

use crate::plan::Mode;
use crate::target::APPLICATION;

/// What clients of a pooler call the database.
const DATABASE: &str = "bench";
/// Who they are where they cannot be the server's user.
const USER: &str = "load";

/// How long it may take to listen, and to end.
const PATIENCE: Duration = Duration::from_secs(20);
/// Somebody may take a free port before the pooler does.
const TRIES: usize = 3;

/// The most servers of a pool whose size is found: the setting's default.
pub(crate) const AUTO_SIZE_MAX: u32 = 80;

/// How many servers a pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Fixed(u32),
    /// As many as pgweir finds best, up to this.
    Found {
        most: u32,
    },
}

impl Size {
    /// As lines of the ini file.
    fn lines(self) -> String {
        match self {
            Size::Fixed(size) => format!("default_pool_size = {size}"),
            Size::Found { most } => format!("default_pool_size = auto\nauto_pool_size_max = {most}"),
        }
    }
}

/// A program that reads a `pgbouncer.ini`.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) version: String,
    /// Keeps the descriptor open that `path` names, if it names one.
    _file: Option<Arc<File>>,
}

impl Program {
    /// By a descriptor, so that every round runs the same file, even if an installation or a build replaces it meanwhile.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn pgweir(path: &Path, version: &str) -> Result<Self, String> {
        let file = File::open(path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        let path = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
        Ok(Self { name: "pgweir", path, version: version.to_owned(), _file: Some(Arc::new(file)) })
    }

    /// `$PGBOUNCER`, or on PATH, or where Debian has it.
    ///
    /// # Errors
    /// `PGBOUNCER` is set and is no PgBouncer.
    pub(crate) fn pgbouncer() -> Result<Option<Self>, String> {
        if let Some(path) = std::env::var_os("PGBOUNCER") {
            let path = PathBuf::from(path);
            let found = Self::asked(&path);
            return found.map(Some).ok_or_else(|| format!("PGBOUNCER={} is no PgBouncer", path.display()));
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        Ok(places
            .map(|place| place.join("pgbouncer"))
            .filter(|path| path.is_file())
            .find_map(|path| Self::asked(&path)))
    }

    fn asked(path: &Path) -> Option<Self> {
        let version = program::version(path).ok()?.lines().next()?.strip_prefix("PgBouncer ")?.to_owned();
        Some(Self { name: "pgbouncer", path: path.to_owned(), version, _file: None })
    }
}

/// A pooler at work.
pub(crate) struct Pooler {
    port: u16,
    /// Whom its clients log in as.
    user: String,
    password: String,
    child: Child,
    dir: PathBuf,
    _guard: Guard,
}

impl Pooler {
    /// Starts one before `target`, and returns when it listens.
    ///
    /// # Errors
    /// What it wrote, if it does not listen.
    pub(crate) fn start(program: &Program, target: &Target, mode: Mode, pool: Size) -> Result<Self, String> {
        let mut last = String::new();
        for _ in 0..TRIES {
            match Self::try_start(program, target, mode, pool) {
                Ok(pooler) => return Ok(pooler),
                Err(why) => last = why,
            }
        }
        Err(format!("{} does not start: {last}", program.name))
    }

    fn try_start(program: &Program, target: &Target, mode: Mode, pool: Size) -> Result<Self, String> {
        let account = unprivileged();
        let words = |error: std::io::Error| format!("cannot write its files: {error}");
        let dir = std::env::temp_dir().join(format!("pgweir-bench-{}", random_password()));
        fs::DirBuilder::new().mode(0o700).create(&dir).map_err(words)?;
        let give = |path: &Path| match &account {
            Some(account) => chown(path, Some(account.uid), Some(account.gid)),
            None => Ok(()),
        };
        give(&dir).map_err(words)?;
        let mut guard = Guard::start(&dir, "QUIT", account.as_ref()).map_err(|error| error.to_string())?;
        let proof = Proof::for_clients(target);
        let port = free_port();
        for (name, text) in
            [("users.txt", proof.auth_file()), ("pooler.ini", ini(&dir, target, &proof, mode, pool, port))]
        {
            let path = dir.join(name);
            fs::write(&path, text).and_then(|()| give(&path)).map_err(words)?;
        }
        let child = spawn(program, &dir, account.as_ref())?;
        guard.watch(child.id()).map_err(|error| error.to_string())?;
        let Proof { user, password, .. } = proof;
        let mut pooler = Self { port, user, password, child, dir, _guard: guard };
        pooler.wait_until_it_listens()?;
        Ok(pooler)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Who its clients are.
    pub(crate) fn account(&self) -> login::Account {
        login::Account::new(&self.user, Some(&self.password), DATABASE, APPLICATION)
    }

    pub(crate) fn place(&self) -> Place {
        Place::Tcp((Ipv4Addr::LOCALHOST, self.port).into())
    }

    /// The end of its log, where it says what went wrong.
    pub(crate) fn complaints(&self) -> String {
        program::last_lines(&fs::read_to_string(self.dir.join("log")).unwrap_or_default(), 4)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        if program::awaits_clients(&mut self.child, self.port, PATIENCE) {
            return Ok(());
        }
        Err(format!("it does not listen\n{}", self.complaints()))
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        program::end(&mut self.child, Signal::QUIT, PATIENCE);
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn spawn(program: &Program, dir: &Path, account: Option<&Account>) -> Result<Child, String> {
    let words = |error: std::io::Error| format!("cannot start it: {error}");
    let log = File::create(dir.join("log")).map_err(words)?;
    // The account may not reach a build directory; pgweir becomes the account itself once it runs, PgBouncer is copied.
    let changes_itself = program.path.starts_with("/proc");
    let path = if changes_itself { program.path.clone() } else { dir.join(program.name) };
    if !changes_itself {
        program::place(&program.path, &path)?;
    }
    let mut command = in_its_own_session(&path);
    match account {
        Some(account) if changes_itself => drop(command.arg("--user").arg(&account.name)),
        Some(account) => account.apply(&mut command),
        None => {}
    }
    command.arg(dir.join("pooler.ini")).current_dir(dir).stdin(Stdio::null());
    command.stdout(log.try_clone().map_err(words)?).stderr(log);
    command.spawn().map_err(words)
}

/// As a daemon is: a kernel that shares cores out by session (autogroup) must not count the pooler and the load as one, while each
/// of PostgreSQL's processes counts for itself. Also keeps the terminal's Ctrl-C away.
fn in_its_own_session(path: &Path) -> Command {
    const SETSID: &str = "/usr/bin/setsid";
    if Path::new(SETSID).is_file() {
        let mut command = Command::new(SETSID);
        command.arg(path);
        return command;
    }
    let mut command = Command::new(path);
    command.process_group(0);
    command
}

/// How a pooler's clients log in, in words.
pub(crate) fn login_of_clients(target: &Target) -> &'static str {
    if Proof::for_clients(target).verifier.is_some() { login::SCRAM } else { login::MD5 }
}

/// How clients prove to the pooler who they are. Where PostgreSQL's own SCRAM verifier may be read it is the pooler's too, and the
/// clients' keys open the servers; elsewhere clients have a password of their own, by md5, and the file says the servers'.
struct Proof {
    user: String,
    password: String,
    verifier: Option<String>,
}

impl Proof {
    fn for_clients(target: &Target) -> Self {
        match (&target.verifier, &target.password) {
            (Some(verifier), Some(password)) => {
                Self { user: target.user.clone(), password: password.clone(), verifier: Some(verifier.clone()) }
            }
            _ => Self { user: USER.to_owned(), password: random_password(), verifier: None },
        }
    }

    fn auth_file(&self) -> String {
        let secret = self.verifier.as_deref().unwrap_or(&self.password);
        format!("\"{}\" \"{secret}\"\n", self.user.replace('"', "\"\""))
    }

    fn auth_type(&self) -> &'static str {
        if self.verifier.is_some() { "scram-sha-256" } else { "md5" }
    }
}

fn ini(dir: &Path, target: &Target, proof: &Proof, mode: Mode, pool: Size, port: u16) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let Target { host, port: server_port, user, database, .. } = target;
    let [host, database] = [host, database].map(|text| quoted(text));
    let password = target.password.as_deref().map(|word| format!(" password={}", quoted(word))).unwrap_or_default();
    let whom = if proof.verifier.is_some() { String::new() } else { format!(" user={}{password}", quoted(user)) };
    let (auth_type, mode, pool, dir) = (proof.auth_type(), mode.name(), pool.lines(), dir.display());
    format!(
        "\
[databases]
{DATABASE} = host={host} port={server_port} dbname={database}{whom}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = {auth_type}
auth_file = {dir}/users.txt
pool_mode = {mode}
{pool}
max_client_conn = 10000
query_wait_timeout = 0
log_connections = 0
log_disconnections = 0
log_stats = 0
"
    )
}
