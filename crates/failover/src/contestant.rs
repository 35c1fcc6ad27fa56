//! The way from clients to the cluster: pgweir, PgBouncer, or nothing.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use demo::{Account as User, free_port};
use measure::login::Account;
use measure::program;
use rustix::process::Signal;

use crate::cluster::Cluster;
use crate::ledger::{DATABASE, ROLE};
use crate::session::Access;

const STARTS_WITHIN: Duration = Duration::from_secs(60);
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// Clients for each server of a pooler. A third of them is idle.
const CLIENTS_OF_A_SERVER: usize = 10;
/// With fewer servers hardly any would be in a transaction when the fault comes.
const SERVERS_MIN: usize = 5;

/// PgBouncer has no roles: this query of each new connection ends it at a standby, and then the next host is tried.
const TRICK: &str = "load_balance_hosts=disable connect_query='do $$ begin if pg_is_in_recovery() then \
                     perform pg_terminate_backend(pg_backend_pid()); end if; end $$'";

/// A way from clients to the cluster.
#[derive(Clone, Debug)]
pub struct Contestant {
    pub name: &'static str,
    /// As its program prints it.
    pub version: String,
    program: Option<PathBuf>,
    /// Behind `host=a,b,c` and the account.
    database: &'static str,
}

impl Contestant {
    /// # Errors
    /// It cannot be run.
    pub fn pgweir(program: &Path) -> Result<Self, String> {
        Self::pooler("pgweir", program, "target_session_attrs=primary")
    }

    /// Adds words about its build, such as its commit.
    #[must_use]
    pub fn of_build(self, build: &str) -> Self {
        Self { version: format!("{}, {build}", self.version), ..self }
    }

    /// # Errors
    /// It cannot be run.
    pub fn pgbouncer(program: &Path) -> Result<Self, String> {
        Self::pooler("PgBouncer", program, TRICK)
    }

    /// Clients that know all hosts, as libpq does with `target_session_attrs=read-write`.
    #[must_use]
    pub fn direct() -> Self {
        Self { name: "direct", version: "several hosts, read-write".to_owned(), program: None, database: "" }
    }

    #[must_use]
    pub fn is_pooler(&self) -> bool {
        self.program.is_some()
    }

    fn pooler(name: &'static str, program: &Path, database: &'static str) -> Result<Self, String> {
        // The first line of pgweir's names the PgBouncer that it replaces.
        let printed = program::version(program)?;
        let own = printed.lines().find(|line| line.starts_with("pgweir "));
        let version = own.or(printed.lines().next()).unwrap_or_default().to_owned();
        Ok(Self { name, version, program: Some(program.to_owned()), database })
    }
}

/// Where a pooler listens, and its folder.
pub(crate) struct Pooler<'a> {
    pub(crate) place: SocketAddr,
    pub(crate) folder: &'a Path,
}

/// A contestant at work.
pub(crate) struct Running {
    pub(crate) access: Access,
    folder: Option<PathBuf>,
    process: Option<Child>,
}

impl Running {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(
        contestant: &Contestant,
        cluster: &Cluster,
        clients: usize,
        password: &str,
    ) -> Result<Self, String> {
        let places = cluster.places();
        let Some(original) = &contestant.program else {
            let account = Arc::new(Account::new(ROLE, Some(password), DATABASE, "direct"));
            return Ok(Self { access: Access::Many { places, account }, folder: None, process: None });
        };
        let (port, servers) = (free_port(), SERVERS_MIN.max(clients / CLIENTS_OF_A_SERVER));
        let room = cluster.make_room(&format!("pooler-{port}"))?;
        let words = |error: std::io::Error| format!("cannot start {}: {error}", contestant.name);
        program::place(original, &room.join("program"))?;
        let ini = room.join("pooler.ini");
        fs::write(&ini, configuration(contestant, &places, (port, servers), password)).map_err(words)?;
        // There is a password in it.
        fs::set_permissions(&ini, fs::Permissions::from_mode(0o600)).map_err(words)?;
        let log = File::create(room.join("log")).map_err(words)?;
        let mut command = Command::new(room.join("program"));
        if let Some(user) = cluster.account() {
            let User { uid, gid, .. } = user;
            std::os::unix::fs::chown(&ini, Some(*uid), Some(*gid)).map_err(words)?;
            user.apply(&mut command);
        }
        command.arg("pooler.ini").current_dir(&room).stdin(Stdio::null()).process_group(0);
        command.stdout(log.try_clone().map_err(words)?).stderr(log);
        let process = command.spawn().map_err(words)?;
        let place = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let account = Arc::new(Account::new(ROLE, None, DATABASE, "ledger"));
        let access = Access::One { place, account, patience: None };
        let mut running = Self { access, folder: Some(room), process: Some(process) };
        let listens = running.process.as_mut().is_some_and(|child| program::awaits_clients(child, port, STARTS_WITHIN));
        if listens { Ok(running) } else { Err(format!("{} does not listen:\n{}", contestant.name, running.log())) }
    }

    /// `None`: there is no pooler.
    pub(crate) fn pooler(&self) -> Option<Pooler<'_>> {
        match (&self.access, &self.folder) {
            (Access::One { place, .. }, Some(folder)) => Some(Pooler { place: *place, folder }),
            _ => None,
        }
    }

    /// Whether it runs as it did when it was started.
    pub(crate) fn is_alive(&mut self) -> bool {
        self.process.as_mut().is_none_or(|process| matches!(process.try_wait(), Ok(None)))
    }

    /// The text of its log.
    pub(crate) fn log(&self) -> String {
        let log = self.folder.as_ref().and_then(|folder| fs::read(folder.join("log")).ok()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            program::end(process, Signal::QUIT, ENDS_WITHIN);
        }
    }
}

fn configuration(
    contestant: &Contestant,
    places: &[SocketAddr],
    (port, servers): (u16, usize),
    password: &str,
) -> String {
    let hosts: Vec<String> = places.iter().map(|place| place.ip().to_string()).collect();
    let (hosts, server_port) = (hosts.join(","), places[0].port());
    format!(
        "[databases]\n{DATABASE} = host={hosts} port={server_port} user={ROLE} password={password} {}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
         max_client_conn = 2000\ndefault_pool_size = {servers}\nserver_login_retry = 1\ntcp_user_timeout = 5000\n",
        contestant.database
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_poolers_have_the_same_file_but_for_their_way_to_the_primary() {
        let places = [11, 12].map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 5432)));
        let of = |database| Contestant { database, ..Contestant::direct() };
        let text = configuration(&of("target_session_attrs=primary"), &places, (6432, 20), "secret");
        let line = "postgres = host=127.0.0.11,127.0.0.12 port=5432 user=ledger password=secret target_session_attrs=primary\n";
        assert!(text.contains(line), "{text}");
        let other = configuration(&of(TRICK), &places, (6432, 20), "secret");
        assert_eq!(other.replace(TRICK, "target_session_attrs=primary"), text);
    }
}
