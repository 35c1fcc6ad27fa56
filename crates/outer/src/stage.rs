//! A PostgreSQL with a pooler before it, as one test wishes them.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use client::{Connection as Client, Gone, frontend};
use demo::{Binaries, Cluster, Options};

use crate::patience::eventually;
use crate::pooler::Pooler;
use crate::slots::Slot;

/// The database the tests use; the one user is `postgres`.
const DATABASE: &str = "postgres";
const USER: &str = "postgres";

/// What a test needs that is not the same for all.
pub struct Wishes {
    /// `default_pool_size`.
    pub pool: u32,
    /// `workers`; 0 leaves the key out.
    pub workers: u32,
    /// How clients prove who they are: `trust`, `scram-sha-256`, …
    pub auth: &'static str,
    /// More lines for the section `[pgbouncer]`; they win.
    pub settings: Vec<(&'static str, String)>,
    /// So many more names for the same database: `alias_0` and so on.
    pub aliases: u32,
    /// PostgreSQL's own limit.
    pub max_connections: u32,
    /// The most descriptors the pooler may have.
    pub fds: Option<u32>,
    /// An entry `*`: any database may be named.
    pub any_database: bool,
    /// More settings of PostgreSQL's.
    pub postgres: Vec<(&'static str, &'static str)>,
    /// No other test runs meanwhile: for tests that measure the machine, keep it busy, or hold more than 4,000 descriptors.
    pub alone: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            pool: 20,
            workers: 0,
            auth: "trust",
            settings: Vec::new(),
            aliases: 0,
            max_connections: 100,
            fds: None,
            any_database: false,
            postgres: Vec::new(),
            alone: false,
        }
    }
}

pub struct Stage {
    // In the order they go: the pooler first.
    pub pooler: Pooler,
    pub cluster: Cluster,
    pub binaries: Binaries,
    // After they have gone, the next test may begin.
    _slot: Slot,
}

/// The directory with an installed PostgreSQL and templates of clusters, which later tests use again.
fn cache() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cache")
}

/// `/dev/shm`, a file system in memory: a cluster has a thousand small files, which some disks make twenty times slower.
/// `None`: there is no room for the data of a few tests (containers often have 64 MB).
fn memory() -> Option<PathBuf> {
    const ROOM: u64 = 4 << 30;
    let about = rustix::fs::statvfs("/dev/shm").ok()?;
    (about.f_bavail * about.f_frsize >= ROOM).then(|| PathBuf::from("/dev/shm"))
}

/// A PostgreSQL of one's own, its data directory copied from a template.
///
/// Each test has its own, and none is shared: so it serves within some 0.2 s, while one that is handed on would have to be searched for
/// roles, databases, settings and sessions that the test before has left.
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn cluster(binaries: &Binaries, mut options: Options) -> Cluster {
    options.template = Some(cache().join("clusters"));
    options.base = memory();
    Cluster::start(binaries, options).unwrap_or_else(|error| panic!("PostgreSQL does not start: {error}"))
}

impl Stage {
    /// Starts both.
    ///
    /// # Panics
    /// If either does not come up.
    #[must_use]
    pub fn set(wishes: &Wishes) -> Self {
        let binaries = demo::find_or_install(&cache(), &mut |line| println!("{line}"));
        Self::set_on(binaries.expect("PostgreSQL is here or can be installed"), wishes)
    }

    /// The same on a PostgreSQL of the caller's choice.
    ///
    /// # Panics
    /// If either does not come up.
    #[must_use]
    pub fn set_on(binaries: Binaries, wishes: &Wishes) -> Self {
        let slot = if wishes.alone { Slot::alone() } else { Slot::any() };
        let extra = wishes.postgres.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = Options { max_connections: wishes.max_connections, extra, ..Options::default() };
        let cluster = cluster(&binaries, options);
        let users = format!("\"{USER}\" \"{}\"\n", cluster.password());
        let pooler = Pooler::start(&ini(wishes, &cluster), &users, wishes.fds);
        Self { pooler, cluster, binaries, _slot: slot }
    }

    /// A client of the pooler.
    ///
    /// # Panics
    /// If it is not let in.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::login(self.pooler.address(), USER, DATABASE).unwrap_or_else(|gone| panic!("login: {gone}"))
    }

    /// `postgres://…` through the pooler, with the password.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The same for another database, such as the console's.
    #[must_use]
    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{USER}:{}@127.0.0.1:{}/{database}", self.cluster.password(), self.pooler.port)
    }

    /// One value straight from PostgreSQL, past the pooler.
    ///
    /// # Panics
    /// If PostgreSQL refuses.
    #[must_use]
    pub fn direct(&self, sql: &str) -> String {
        self.cluster.psql(DATABASE, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// Cancels each `pg_sleep` that still runs after its client has gone. The pooler cancels only statements that it knows to read, and on a
    /// busy machine it may not have read the catalogue yet.
    pub fn end_sleepers(&self) {
        let _ = self.direct("select pg_cancel_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'");
    }

    /// Asserts that a new client is served, PostgreSQL has no open transaction, and the pooler is alive.
    ///
    /// # Panics
    /// If not.
    pub fn assert_healthy(&mut self) {
        // A new client that is not served fails by its own timeout of a minute.
        let answer = self.client().query("select 'well'").expect("a newcomer is served");
        assert_eq!(answer.value(), Some("well"), "{answer:?}");
        let open = "select count(*) from pg_stat_activity where backend_type = 'client backend' \
                    and pid <> pg_backend_pid() and state <> 'idle'";
        eventually("no transaction is left open", || {
            self.end_sleepers();
            self.direct(open) == "0"
        });
        assert!(self.pooler.is_alive());
    }

    /// Backends that serve the pooler's clients.
    #[must_use]
    pub fn backends(&self) -> usize {
        let sql = "select count(*) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid() \
                   and application_name <> 'pgweir observer'";
        self.direct(sql).parse().expect("a count")
    }
}

impl Drop for Stage {
    /// A failed test shows the sessions of both sides as they were when it failed.
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let backends = "select string_agg(concat_ws(' ', pid, application_name, state, wait_event_type, wait_event, \
                        now() - state_change, left(query, 200)), e'\\n' order by pid) from pg_stat_activity where pid <> pg_backend_pid()";
        match self.cluster.psql(DATABASE, backends) {
            Ok(rows) => eprintln!("PostgreSQL's backends:\n{rows}"),
            Err(error) => eprintln!("PostgreSQL does not list its backends: {error}"),
        }
        for show in ["show clients", "show servers"] {
            match console_rows(self.pooler.address(), show) {
                Ok(rows) => eprintln!("{show}:\n{rows}"),
                Err(gone) => eprintln!("{show}: {gone}"),
            }
        }
    }
}

/// The rows of a SHOW, a line each. The console may be what has failed: waits for five seconds at most.
fn console_rows(address: SocketAddr, show: &str) -> Result<String, Gone> {
    let mut console = Client::open(address.into(), Duration::from_secs(5))?;
    console.send(&frontend::startup(&[("user", USER), ("database", "pgbouncer")]))?;
    console.answer()?;
    let answer = console.query(show)?;
    let lines = answer.rows.iter().map(|row| {
        let values: Vec<&str> = row.iter().map(|value| value.as_deref().unwrap_or("-")).collect();
        values.join(" ")
    });
    Ok(lines.collect::<Vec<_>>().join("\n"))
}

fn ini(wishes: &Wishes, cluster: &Cluster) -> String {
    let upstream =
        format!("host={} port={} user={USER} password={}", cluster.host(), cluster.port(), cluster.password());
    let any = if wishes.any_database { format!("* = {upstream}\n") } else { String::new() };
    let aliases: String =
        (0..wishes.aliases).map(|number| format!("alias_{number} = {upstream} dbname={DATABASE}\n")).collect();
    let mut text = format!("[databases]\n{DATABASE} = {upstream}\n{aliases}{any}[pgbouncer]\n");
    let mut settings: Vec<(&str, String)> = vec![
        ("listen_addr", "127.0.0.1".to_owned()),
        ("listen_port", "{port}".to_owned()),
        ("unix_socket_dir", String::new()),
        ("auth_type", wishes.auth.to_owned()),
        ("auth_file", "{dir}/users.txt".to_owned()),
        ("admin_users", USER.to_owned()),
        ("pool_mode", "transaction".to_owned()),
        ("default_pool_size", wishes.pool.to_string()),
        ("max_client_conn", "10000".to_owned()),
        ("server_login_retry", "1".to_owned()),
        ("ignore_startup_parameters", "extra_float_digits".to_owned()),
    ];
    if wishes.workers > 0 {
        settings.push(("workers", wishes.workers.to_string()));
    }
    // Its connections are not those that most tests count.
    let is_observed = wishes.settings.iter().any(|(name, _)| name.starts_with("observe") || *name == "http_page");
    settings.push(match is_observed {
        true => ("observe_when", "always".to_owned()),
        false => ("observe_interval", "0".to_owned()),
    });
    if !wishes.settings.iter().any(|(name, _)| name.starts_with("host_")) {
        settings.push(("host_check_interval", "0".to_owned()));
    }
    settings.extend(wishes.settings.iter().cloned());
    for (name, value) in settings {
        writeln!(text, "{name} = {value}").expect("writing to a String cannot fail");
    }
    text
}
