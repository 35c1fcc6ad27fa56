//! The PostgreSQL that is tested: the user's own, or an embedded one that goes with the run.

use std::path::Path;
use std::time::Duration;

use ask::{Monitor, Target};
use demo::{Cluster, Options, find_or_install};
use measure::machine::machine_memory;

/// The name that all of this program's connections go by; a pooler hands its clients' on.
pub(crate) const APPLICATION: &str = "pgweir bench";

/// Making ten million rows may take a while; an answer within a load of thousands too.
const PATIENCE: Duration = Duration::from_secs(600);

/// A connection of our own beside the load: makes tables, asks PostgreSQL about itself.
///
/// # Errors
/// In the server's words, with its SQLSTATE in front.
pub(crate) fn monitor(target: &Target) -> Result<Monitor, String> {
    Monitor::connect(target, APPLICATION, PATIENCE)
}

/// The query for the load's connections that began after `since` (by [`Monitor::now`]): of our role, in our database, and by
/// the load's name, pgbench's, or none, as a pooler opens a server before it knows for which client. An application of the same
/// role has a name of its own.
pub(crate) fn ours(since: f64) -> String {
    format!(
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = session_user \
         AND application_name IN ('{APPLICATION}', 'pgbench', '') AND backend_start >= to_timestamp({since:.6}) \
         AND pid <> pg_backend_pid()"
    )
}

/// How the embedded one is set up; what is not named here is PostgreSQL's default.
#[derive(Clone, Debug)]
pub(crate) struct Embedded {
    pub(crate) max_connections: u32,
    pub(crate) fsync: bool,
    /// In bytes; `None`: the machine's.
    pub(crate) memory_limit: Option<u64>,
}

impl Embedded {
    /// Finds or installs PostgreSQL and starts one. `cache`: where an installation of ours lies.
    pub(crate) fn start(&self, cache: &Path) -> Result<(Cluster, Target), String> {
        let binaries = find_or_install(cache, &mut |text| eprintln!("{text}")).map_err(|error| error.to_string())?;
        let setting = |name: &str, value: String| (name.to_owned(), value);
        let extra = vec![
            setting("shared_buffers", format!("{}MB", self.shared_buffers_mb())),
            setting("max_wal_size", "4GB".to_owned()),
            // The pooler's and the load's logins are not news.
            setting("log_min_messages", "fatal".to_owned()),
        ];
        let Self { max_connections, fsync, .. } = *self;
        let options = Options { max_connections, fsync, extra, ..Options::default() };
        let cluster = Cluster::start(&binaries, options).map_err(|error| error.to_string())?;
        let target = Target {
            address: None,
            host: cluster.host().to_owned(),
            port: cluster.port(),
            user: cluster.user().to_owned(),
            password: Some(cluster.password().to_owned()),
            database: "postgres".to_owned(),
            verifier: None,
            encryption: None,
        };
        Ok((cluster, target))
    }

    /// An eighth of the memory, as much as 1 GB.
    fn shared_buffers_mb(&self) -> u64 {
        let all = machine_memory().0;
        (self.memory_limit.map_or(all, |limit| limit.min(all)) >> 23).clamp(128, 1024)
    }
}
