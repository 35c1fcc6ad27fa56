//! `pgweir dev`: a PostgreSQL of its own behind a pgweir, for trying things. What `make run` runs.
//!
//! ```text
//!   this process ──► demo::Cluster (PostgreSQL)          TCP by SCRAM; its Unix socket, which only it and pgweir reach, by trust
//!        │
//!        └──────────► child: pgweir FILE.ini            the program beside this one, with a file as a user has it
//! ```
//!
//! Prints two lines on stdout, `pooled` and `direct`, and nothing else. Ctrl-C ends both; what was temporary is removed,
//! even if this process is killed.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use config::url::SERVERS_MAX;
use demo::{Account, Cluster, Options, find_or_install};
use programs::{Dev, announce};
use rustix::process::{Pid, Signal, kill_process};
use settings::PoolSize;
use signal_hook::consts::signal::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// Where PgBouncer listens unless told otherwise.
const PORT: u16 = 6432;

/// How long the child may take to release its servers before it is told to end at once.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts both, prints the two lines, waits for a signal, ends both.
///
/// # Errors
/// What does not start, or has ended by itself.
pub(crate) fn dev(pgweir: &Path, wanted: Dev) -> Result<(), String> {
    let port = wanted.port.unwrap_or(PORT);
    // From now on signals are ours to act on, even those that come while PostgreSQL starts.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGCHLD]).map_err(|why| format!("no signals: {why}"))?;
    let say = &mut |text: &str| eprintln!("{text}");
    let binaries = find_or_install(&crate::cache(), say).map_err(|why| why.to_string())?;
    let options = Options { data: wanted.data.clone(), ..Options::default() };
    let cluster = Cluster::start(&binaries, options).map_err(|why| why.to_string())?;
    let file = write_files(&cluster, port, &wanted).map_err(|why| format!("cannot write pgweir.ini: {why}"))?;
    let mut child =
        start(pgweir, &file, cluster.account(), &wanted).map_err(|why| format!("cannot start pgweir: {why}"))?;
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

/// Writes the files that the child serves from, beside PostgreSQL's socket, where they go when it goes.
fn write_files(cluster: &Cluster, port: u16, wanted: &Dev) -> io::Result<PathBuf> {
    let dir = cluster.socket_dir();
    let users = dir.join("userlist.txt");
    write_private(&users, &format!("\"{}\" \"{}\"\n", cluster.user(), cluster.password()), cluster.account())?;
    let file = dir.join("pgweir.ini");
    let text = ini(cluster, port, wanted.verbose > 0) + &sizes(wanted.size.pool_size.unwrap_or(PoolSize::Auto));
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
observe_when = always
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
    // A process group of its own: a terminal's Ctrl-C comes to us alone.
    command.arg(file).env(announce::ENDS_WITH_PARENT, "1").stdin(Stdio::null()).process_group(0);
    announce::ask(&mut command);
    command.spawn()
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
