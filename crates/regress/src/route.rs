//! The ways from a client to PostgreSQL that are compared.

use std::fmt::Write as _;
use std::path::Path;

/// Which program stands between.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Between {
    Nobody,
    Pgweir,
    Pgbouncer,
}

/// One way.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Route {
    pub(crate) name: &'static str,
    pub(crate) between: Between,
    /// `session`, `transaction`; for a direct connection nothing.
    pub(crate) mode: &'static str,
    /// Servers that are open before the first test; 0: they are opened when needed, up to [`SESSIONS`].
    pub(crate) servers: u32,
    pub(crate) settings: &'static [(&'static str, &'static str)],
    /// Of the `[databases]` entry, in front of a space.
    pub(crate) database: &'static str,
}

/// As many sessions as the widest group of tests has, and room for what a test opens besides.
const SESSIONS: u32 = 40;

const fn pgweir(name: &'static str, settings: &'static [(&'static str, &'static str)]) -> Route {
    Route { name, between: Between::Pgweir, mode: "transaction", servers: 8, settings, database: "" }
}

const fn pgbouncer(name: &'static str, settings: &'static [(&'static str, &'static str)]) -> Route {
    Route { name, between: Between::Pgbouncer, mode: "transaction", servers: 8, settings, database: "" }
}

const fn session(name: &'static str, between: Between) -> Route {
    let mode = if matches!(between, Between::Nobody) { "" } else { "session" };
    Route { name, between, mode, servers: 0, settings: &[], database: "" }
}

pub(crate) const ROUTES: [Route; 11] = [
    session("direct", Between::Nobody),
    session("session", Between::Pgweir),
    // Transaction mode for clients that ask for their server's own process id: as good as session mode.
    Route { database: "stable_backend_pid=1 ", ..session("stable", Between::Pgweir) }.in_mode("transaction"),
    // One client alone nearly always gets the server it had: a flattering figure.
    pgweir("transaction", &[]),
    pgweir("rotate", &[("chaos_rotate", "1")]),
    // A stranger leaves its state on every server before each transaction.
    pgweir("poison", &[("chaos_rotate", "1"), ("chaos_poison", "1")]),
    // What is known of a server is held against what it has, after each transaction.
    pgweir("check", &[("chaos_rotate", "1"), ("chaos_check", "1")]),
    // A pool that refills itself: else every transaction would wait for a login.
    pgweir("close", &[("chaos_close", "1"), ("min_pool_size", "8")]),
    session("pgbouncer-session", Between::Pgbouncer),
    pgbouncer("pgbouncer-transaction", &[]),
    pgbouncer("pgbouncer-rotate", &[("server_round_robin", "1")]),
];

impl Route {
    const fn in_mode(mut self, mode: &'static str) -> Route {
        self.mode = mode;
        self
    }

    pub(crate) fn named(name: &str) -> Result<Route, String> {
        let names = || ROUTES.map(|route| route.name).join(", ");
        ROUTES
            .into_iter()
            .find(|route| route.name == name)
            .ok_or_else(|| format!("no path '{name}'; there are {}", names()))
    }

    /// The pooler's file, in which `{port}` and `{dir}` stand for what its start chooses. Everybody is let in, on both
    /// sides, because tests connect as users that they make. `wait_s`: for how long a test may wait for a server.
    pub(crate) fn ini(&self, socket_dir: &Path, port: u16, user: &str, wait_s: u32) -> String {
        let size = if self.servers > 0 { self.servers } else { SESSIONS };
        let mut text =
            format!("[databases]\n* = {}host={} port={port}\n[pgbouncer]\n", self.database, socket_dir.display());
        let (size, wait) = (size.to_string(), wait_s.to_string());
        let settings = [
            ("listen_addr", "127.0.0.1"),
            ("listen_port", "{port}"),
            ("unix_socket_dir", ""),
            ("auth_type", "trust"),
            ("auth_file", "{dir}/users.txt"),
            ("admin_users", user),
            ("pool_mode", self.mode),
            ("default_pool_size", &size),
            ("max_client_conn", "200"),
            // A test that cannot get a server fails; it does not hang.
            ("query_wait_timeout", &wait),
            ("server_login_retry", "1"),
            ("server_idle_timeout", "0"),
            ("server_lifetime", "86400"),
        ];
        for (name, value) in settings.into_iter().chain(self.settings.iter().copied()) {
            writeln!(text, "{name} = {value}").expect("writing to a String cannot fail");
        }
        text
    }
}
