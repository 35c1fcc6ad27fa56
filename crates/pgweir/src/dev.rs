//! `pgweir dev`: a PostgreSQL of its own behind a pgweir, for trying things. What `make run` runs.
//!
//! ```text
//!   this process ──► demo::Cluster (PostgreSQL)          TCP by SCRAM; its Unix socket, which only it and pgweir reach, by trust
//!        │
//!        └──────────► child: pgweir FILE.ini            the very program that a user runs, with a file as a user has it
//! ```
//!
//! Prints two lines on stdout, `pooled` and `direct`, and nothing else. Ctrl-C ends both; what was temporary is removed,
//! even if this process is killed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use config::url::SERVERS_MAX;
use demo::{Account, Cluster, Options, find_or_install};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use settings::PoolSize;
use signal_hook::consts::signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::announce;
use crate::cli::Flags;

/// Where PgBouncer listens unless told otherwise.
const PORT: u16 = 6432;

/// Set in the child's environment, so that it does not outlive us.
const VARIABLE: &str = "PGWEIR_DEV";

/// How long the child may take to release its servers before it is told to end at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts both, prints the two lines, waits for a signal, ends both.
pub(crate) fn dev(port: Option<u16>, data: Option<PathBuf>, pool_size: PoolSize, flags: &Flags) -> ExitCode {
    match serve(port.unwrap_or(PORT), data, pool_size, flags) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pgweir dev: {why}");
            ExitCode::FAILURE
        }
    }
}

fn serve(port: u16, data: Option<PathBuf>, pool_size: PoolSize, flags: &Flags) -> Result<(), String> {
    // From now on signals are ours to act on, even those that come while PostgreSQL starts.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGCHLD]).map_err(|why| format!("no signals: {why}"))?;
    let say = &mut |text: &str| eprintln!("{text}");
    let binaries = find_or_install(&cache(), say).map_err(|why| why.to_string())?;
    let options = Options { data, ..Options::default() };
    let cluster = Cluster::start(&binaries, options).map_err(|why| why.to_string())?;
    let file =
        write_files(&cluster, port, pool_size, flags).map_err(|why| format!("cannot write pgweir.ini: {why}"))?;
    let mut child = start(&file, cluster.account(), flags).map_err(|why| format!("cannot start pgweir: {why}"))?;
    if !announce::wait(&mut child) {
        // It has said why on stderr.
        end(&mut child);
        return Err("pgweir did not start".to_owned());
    }
    let (user, password) = (cluster.user(), cluster.password());
    println!("pooled  postgres://{user}:{password}@{}:{port}/postgres", cluster.host());
    println!("direct  {}", cluster.url("postgres"));
    let ended = wait(&mut signals, &mut child);
    end(&mut child);
    let stopped = cluster.stop().map_err(|why| why.to_string());
    ended.and(stopped)
}

/// Where a PostgreSQL that had to be fetched is kept.
pub(crate) fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("pgweir")
}

/// Writes the files that the child serves from, beside PostgreSQL's socket, where they go when it goes.
fn write_files(cluster: &Cluster, port: u16, pool_size: PoolSize, flags: &Flags) -> io::Result<PathBuf> {
    let dir = cluster.socket_dir();
    let users = dir.join("userlist.txt");
    write_private(&users, &format!("\"{}\" \"{}\"\n", cluster.user(), cluster.password()), cluster.account())?;
    let file = dir.join("pgweir.ini");
    let text = ini(cluster, port, flags.verbose > 0) + &sizes(pool_size);
    write_private(&file, &text, cluster.account())?;
    Ok(file)
}

fn ini(cluster: &Cluster, port: u16, verbose: bool) -> String {
    let (dir, server_port, user) = (cluster.socket_dir().display(), cluster.port(), cluster.user());
    let chatty = u8::from(verbose);
    format!(
        "\
[databases]
* = host={dir} port={server_port}

[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir = {dir}
auth_type = scram-sha-256
auth_file = {dir}/userlist.txt
admin_users = {user}
pool_mode = transaction
ignore_startup_parameters = extra_float_digits
max_client_conn = 10000
log_connections = {chatty}
log_disconnections = {chatty}
log_stats = {chatty}
",
        host = cluster.host(),
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

fn start(file: &Path, account: Option<&Account>, flags: &Flags) -> io::Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    // What ps shows.
    command.arg0("pgweir");
    if let Some(account) = account {
        command.arg("--user").arg(&account.name);
    }
    if flags.quiet {
        command.arg("--quiet");
    }
    command.args((0..flags.verbose).map(|_| "--verbose"));
    // A process group of its own: a terminal's Ctrl-C comes to us alone.
    command.arg(file).env(VARIABLE, "1").stdin(Stdio::null()).process_group(0);
    announce::ask(&mut command);
    command.spawn()
}

/// In the child: ends with its parent, however that ends. To be called after the change of user, which undoes it.
pub(crate) fn end_with_parent() -> io::Result<()> {
    if std::env::var_os(VARIABLE).is_some() {
        set_parent_process_death_signal(Some(Signal::QUIT))?;
    }
    Ok(())
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
