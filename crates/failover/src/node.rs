//! One host of a cluster: Patroni, and the PostgreSQL that it has started.
//!
//! All processes of a host have the host's folder or one below it as their working directory: that is how they are found, also those
//! that PostgreSQL has started, and those whose parent has ended.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use demo::Account;
use measure::process;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::network::Network;
use crate::stock::Programs;

/// How long processes may take to stop by SIGSTOP, or to end by SIGKILL.
const OBEYS_WITHIN: Duration = Duration::from_secs(30);

/// Ports and the password, which all hosts have in common.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) etcd: SocketAddr,
    /// The superuser's, who replicates too.
    pub(crate) password: String,
    pub(crate) postgres_port: u16,
    pub(crate) rest_port: u16,
}

/// A host, running or not.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) number: usize,
    pub(crate) folder: PathBuf,
    pub(crate) postgres: SocketAddr,
    pub(crate) rest: SocketAddr,
}

impl Node {
    /// Its folder with Patroni's file, the account's own.
    pub(crate) fn prepare(
        number: usize,
        home: &Path,
        network: &Network,
        site: &Site,
        programs: &Programs,
        account: Option<&Account>,
    ) -> Result<Self, String> {
        let address = network.host(number);
        let folder = home.join((number + 1).to_string());
        let node = Self {
            number,
            postgres: (address, site.postgres_port).into(),
            rest: (address, site.rest_port).into(),
            folder: folder.clone(),
        };
        let words = |error: std::io::Error| format!("cannot prepare {}: {error}", folder.display());
        fs::create_dir(&folder).map_err(words)?;
        fs::write(folder.join("patroni.json"), node.configuration(site, &programs.postgresql).to_string())
            .map_err(words)?;
        if let Some(Account { uid, gid, .. }) = account {
            for path in [folder.clone(), folder.join("patroni.json")] {
                std::os::unix::fs::chown(path, Some(*uid), Some(*gid)).map_err(words)?;
            }
        }
        Ok(node)
    }

    /// As Patroni knows it.
    pub(crate) fn name(&self) -> String {
        format!("host{}", self.number + 1)
    }

    /// Starts Patroni.
    pub(crate) fn start(
        &self,
        network: &Network,
        programs: &Programs,
        account: Option<&Account>,
    ) -> Result<std::process::Child, String> {
        let words = |error: std::io::Error| format!("cannot start Patroni: {error}");
        let log = File::options().create(true).append(true).open(self.folder.join("patroni.log")).map_err(words)?;
        let (python, module) = programs.patroni();
        let mut command = network.command(self.number, &python, account);
        command.args(module).arg("patroni.json").current_dir(&self.folder).stdin(Stdio::null());
        command
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("LC_ALL", "C.UTF-8")
            .env("PYTHONPATH", programs.python_path());
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("HOME", &self.folder);
        command.stdout(log.try_clone().map_err(words)?).stderr(log);
        // A terminal's Ctrl-C is for this program, which ends the cluster in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn().map_err(words)
    }

    pub(crate) fn processes(&self) -> Vec<u32> {
        process::within(&self.folder)
    }

    /// Stops all processes as they are: nobody answers any more but the kernel.
    pub(crate) fn freeze(&self) -> Result<(), String> {
        let limit = Instant::now() + OBEYS_WITHIN;
        loop {
            // A process that was being started when the others were stopped is found in the next round.
            let moving: Vec<u32> = self.processes().into_iter().filter(|pid| !process::is_still(*pid)).collect();
            if moving.is_empty() {
                return Ok(());
            }
            moving.iter().for_each(|pid| signal(*pid, Signal::STOP));
            if Instant::now() > limit {
                return Err(format!("processes {moving:?} do not stop"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn thaw(&self) {
        self.processes().into_iter().for_each(|pid| signal(pid, Signal::CONT));
    }

    /// kill -9 for Patroni and the postmaster. PostgreSQL's other processes notice that and end by themselves.
    pub(crate) fn kill(&self, patroni: u32) {
        let postmaster = fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
        let postmaster = postmaster.lines().next().and_then(|line| line.trim().parse().ok());
        [Some(patroni), postmaster].into_iter().flatten().for_each(|pid| signal(pid, Signal::KILL));
    }

    /// The end of what Patroni has written.
    pub(crate) fn log(&self) -> String {
        let log = fs::read(self.folder.join("patroni.log")).unwrap_or_default();
        measure::program::last_lines(&String::from_utf8_lossy(&log), 8)
    }

    /// The file that Patroni reads: YAML, of which JSON is a part.
    fn configuration(&self, site: &Site, programs: &Path) -> Value {
        let Site { etcd, password, .. } = site;
        let superuser = json!({ "username": "postgres", "password": password });
        let folder = self.folder.display().to_string();
        let parameters = json!({
            "max_connections": 400, "shared_buffers": "32MB", "wal_keep_size": "256MB", "wal_log_hints": "on",
            "max_wal_senders": 10, "password_encryption": "scram-sha-256",
        });
        json!({
            "scope": "ledger",
            "name": self.name(),
            "restapi": { "listen": self.rest, "connect_address": self.rest },
            "etcd3": { "host": etcd },
            "bootstrap": {
                "dcs": {
                    "ttl": 20, "loop_wait": 2, "retry_timeout": 3, "maximum_lag_on_failover": 1_048_576,
                    "synchronous_mode": true,
                    "postgresql": { "use_pg_rewind": true, "parameters": parameters },
                },
                "initdb": [{ "encoding": "UTF8" }, { "locale": "C" }, "no-sync"],
            },
            "postgresql": {
                "listen": self.postgres, "connect_address": self.postgres,
                "data_dir": format!("{folder}/data"), "bin_dir": programs, "pgpass": format!("{folder}/pgpass"),
                "authentication": { "superuser": superuser, "replication": superuser, "rewind": superuser },
                "basebackup": [{ "checkpoint": "fast" }, "no-sync"],
                "remove_data_directory_on_rewind_failure": true,
                "remove_data_directory_on_diverged_timelines": true,
                "parameters": { "unix_socket_directories": folder, "fsync": "off", "log_min_messages": "log" },
                "pg_hba": ["local all all scram-sha-256", "host all all all scram-sha-256",
                    "host replication postgres all scram-sha-256"],
            },
            "watchdog": { "mode": "off" },
        })
    }
}

/// To a process that may have ended.
pub(crate) fn signal(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Kills all processes that run in a folder.
pub(crate) fn clear(folder: &Path) {
    let limit = Instant::now() + OBEYS_WITHIN;
    loop {
        let left: Vec<u32> = process::within(folder);
        left.iter().for_each(|pid| signal(*pid, Signal::KILL));
        if left.is_empty() || Instant::now() > limit {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
