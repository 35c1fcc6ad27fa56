//! `pgweir dev`: a PostgreSQL of its own behind a pgweir, for trying things. What `make run` runs.
//!
//! ```text
//!   this process ──► demo::Cluster (PostgreSQL)          TCP by SCRAM; its Unix socket, which only it and pgweir reach, by trust
//!        │
//!        └──────────► child: pgweir FILE.ini            the program beside this one, with a file as a user has it
//! ```
//!
//! Prints on stdout the commands that lead to them, and nothing else, and is found by `pgweir top`. Ctrl-C ends both; what was temporary
//! is removed, even if this process is killed. Promises that no variable of the environment changes what pgweir serves.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use config::url::SERVERS_MAX;
use demo::{Account, Cluster, Options, find_or_install, free_port};
use programs::addresses::{Addresses, as_typed, psql, reachable};
use programs::running::{self, Record};
use programs::{Dev, Listen, announce};
use rustix::process::{Pid, Signal, kill_process};
use settings::PoolSize;
use signal_hook::consts::signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Where PgBouncer listens unless told otherwise.
const PORT: u16 = 6432;
/// The page's, unless it is taken.
const PAGE_PORT: u16 = 9127;

/// How long the child may take to release its servers before it is told to end at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts both, prints how to reach them, waits for a signal, ends both.
///
/// # Errors
/// What does not start, or has ended by itself.
pub(crate) fn dev(pgweir: &Path, wanted: Dev) -> Result<(), String> {
    // From now on signals are ours to act on, even those that come while PostgreSQL starts.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGCHLD]).map_err(|why| format!("no signals: {why}"))?;
    let say = &mut |text: &str| eprintln!("{text}");
    let binaries = find_or_install(&crate::cache(), say).map_err(|why| why.to_string())?;
    let options = Options { data: wanted.data.clone(), ..Options::default() };
    let cluster = Cluster::start(&binaries, options).map_err(|why| why.to_string())?;
    let places = Places::of(&cluster, &wanted);
    let file = write_files(&cluster, &places, &wanted).map_err(|why| format!("cannot write pgweir.ini: {why}"))?;
    let mut child =
        start(pgweir, &file, cluster.account(), &wanted).map_err(|why| format!("cannot start pgweir: {why}"))?;
    if !announce::wait(&mut child) {
        // It has said why on stderr.
        end(&mut child);
        return Err("pgweir did not start".to_owned());
    }
    let found = running::bind();
    let is_found = found.is_some();
    let _file = found.map(|(file, socket)| {
        let record = places.record(&cluster);
        socket.answer(move || record.clone());
        file
    });
    let psql = psql(binaries.program("psql").as_deref());
    print!("{}", places.addresses(&cluster, &psql, pgweir, is_found));
    println!("direct   {psql} '{}'", cluster.url("postgres"));
    let ended = wait(&mut signals, &mut child);
    end(&mut child);
    let stopped = cluster.stop().map_err(|why| why.to_string());
    ended.and(stopped)
}

/// The addresses of the child.
struct Places {
    pooler: Listen,
    /// The page's port on the loopback.
    page: u16,
}

impl Places {
    fn of(cluster: &Cluster, wanted: &Dev) -> Places {
        let here = |port| Listen { address: cluster.host().to_owned(), port };
        let pooler = wanted.listen.clone().unwrap_or_else(|| here(wanted.port.unwrap_or(PORT)));
        let is_free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        let page = if PAGE_PORT != pooler.port && is_free(PAGE_PORT) { PAGE_PORT } else { free_port() };
        Places { pooler, page }
    }

    fn record(&self, cluster: &Cluster) -> Record {
        Record {
            command: "dev".to_owned(),
            started: running::now(),
            host: reachable(&self.pooler.address),
            port: self.pooler.port,
            user: cluster.user().to_owned(),
            password: Some(cluster.password().to_owned()),
        }
    }

    /// `is_found`: pgweir top needs no URL.
    fn addresses(&self, cluster: &Cluster, psql: &str, pgweir: &Path, is_found: bool) -> Addresses {
        let (user, password) = (cluster.user().to_owned(), cluster.password().to_owned());
        let page = format!("http://127.0.0.1:{}/ (user {user}, password {password})", self.page);
        let mut addresses = Addresses {
            psql: psql.to_owned(),
            host: reachable(&self.pooler.address),
            port: self.pooler.port,
            user,
            password: Some(password),
            database: "postgres".to_owned(),
            page,
            top: format!("{} top", as_typed(pgweir)),
        };
        if !is_found {
            addresses.top = format!("{} '{}'", addresses.top, addresses.url("postgres"));
        }
        addresses
    }
}

/// Writes the files that the child serves from, beside PostgreSQL's socket, where they go when it goes.
fn write_files(cluster: &Cluster, places: &Places, wanted: &Dev) -> io::Result<PathBuf> {
    let dir = cluster.socket_dir();
    let users = dir.join("userlist.txt");
    write_private(&users, &format!("\"{}\" \"{}\"\n", cluster.user(), cluster.password()), cluster.account())?;
    let file = dir.join("pgweir.ini");
    let text = ini(cluster, places, wanted.verbose > 0) + &sizes(wanted.size.pool_size.unwrap_or(PoolSize::Auto));
    write_private(&file, &text, cluster.account())?;
    Ok(file)
}

fn ini(cluster: &Cluster, places: &Places, verbose: bool) -> String {
    let Places { pooler: Listen { address, port }, page } = places;
    let (dir, server_port, user) = (cluster.socket_dir().display(), cluster.port(), cluster.user());
    let chatty = u8::from(verbose);
    format!(
        "\
[databases]
* = host={dir} port={server_port}

[pgbouncer]
listen_addr = {address}
listen_port = {port}
http_listen = 127.0.0.1:{page}
http_page = 1
unix_socket_dir = {dir}
auth_type = scram-sha-256
auth_file = {dir}/userlist.txt
admin_users = {user}
pool_mode = transaction
ignore_startup_parameters = extra_float_digits
max_client_conn = 10000
observe_when = always
log_connections = {chatty}
log_disconnections = {chatty}
log_stats = {chatty}
"
    )
}

/// How many connections PostgreSQL gets, as `run` has it.
fn sizes(pool_size: PoolSize) -> String {
    let all = match pool_size {
        PoolSize::Auto => format!("max_server_connections = {SERVERS_MAX}\n"),
        PoolSize::Fixed(_) => String::new(),
    };
    format!("default_pool_size = {pool_size}\n{all}")
}

/// Only the account that serves can read it: it holds the password.
fn write_private(path: &Path, text: &str, account: Option<&Account>) -> io::Result<()> {
    // What an earlier run left may belong to another account.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    if let Some(account) = account {
        chown(path, Some(account.uid), Some(account.gid))?;
    }
    Ok(())
}

fn start(pgweir: &Path, file: &Path, account: Option<&Account>, wanted: &Dev) -> io::Result<Child> {
    let mut command = Command::new(pgweir);
    // What ps shows.
    command.arg0("pgweir");
    if let Some(account) = account {
        command.arg("--user").arg(&account.name);
    }
    if wanted.quiet {
        command.arg("--quiet");
    }
    command.args((0..wanted.verbose).map(|_| "--verbose"));
    std::env::vars_os().filter(|(name, _)| is_for_another(name)).for_each(|(name, _)| _ = command.env_remove(name));
    // A process group of its own: a terminal's Ctrl-C comes to us alone.
    command.arg(file).env(announce::ENDS_WITH_PARENT, "1").stdin(Stdio::null()).process_group(0);
    announce::ask(&mut command);
    command.spawn()
}

/// Whether a variable is meant for a pgweir that serves something else: for `pgweir run`, for one in the background, or for a service.
fn is_for_another(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let starts = ["PGWEIR_", "PG", "DATABASE_URL", "LISTEN_", "WATCHDOG_", "NOTIFY_SOCKET"];
    starts.iter().any(|start| name.starts_with(start))
}

/// Until a signal says that it is enough, or the child ends by itself.
fn wait(signals: &mut Signals, child: &mut Child) -> Result<(), String> {
    for signal in signals.forever() {
        match (signal, child.try_wait()) {
            (_, Ok(Some(status))) => return Err(format!("pgweir has ended: {status}")),
            (_, Err(why)) => return Err(format!("pgweir is lost: {why}")),
            (SIGCHLD, Ok(None)) => {}
            (_, Ok(None)) => return Ok(()),
        }
    }
    Ok(())
}

/// Ends the child: politely, then not.
fn end(child: &mut Child) {
    for (signal, patience) in [(Signal::INT, PATIENCE), (Signal::QUIT, PATIENCE), (Signal::KILL, PATIENCE)] {
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile; it is not waited for yet, so that the number is still its own.
            let _ = kill_process(pid, signal);
        }
        let until = Instant::now() + patience;
        while Instant::now() < until {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
