//! The PostgreSQL that is tested: the user's own, or an embedded one that goes with the run.

use std::path::Path;

use client::Place;
use demo::{Cluster, Options, find_or_install};
use measure::login::Account;
use measure::machine::{machine_memory, memory_limit};

use crate::encryption::Encryption;

/// The name that all of this program's connections go by; a pooler hands its clients' on.
pub(crate) const APPLICATION: &str = "pgweir bench";

/// Where it is, and who we are there.
#[derive(Clone, Debug)]
pub struct Target {
    /// A name, an address, or the directory of a Unix socket.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: Option<String>,
    pub database: String,
    /// The user's SCRAM verifier as PostgreSQL keeps it, where that may be read; found out by the run.
    pub verifier: Option<String>,
    /// `None`: never.
    pub encryption: Option<Encryption>,
}

impl Target {
    pub(crate) fn place(&self) -> Result<Place, String> {
        Place::of(&self.host, self.port)
    }

    pub(crate) fn account(&self) -> Account {
        self.account_as(APPLICATION)
    }

    /// Under another application's name.
    pub(crate) fn account_as(&self, application: &str) -> Account {
        Account::new(&self.user, self.password.as_deref(), &self.database, application)
    }
}

/// How the embedded one is set up; what is not named here is PostgreSQL's default.
#[derive(Clone, Debug)]
pub(crate) struct Embedded {
    pub(crate) max_connections: u32,
    pub(crate) fsync: bool,
}

impl Embedded {
    /// Finds or installs PostgreSQL and starts one. `cache`: where an installation of ours lies.
    pub(crate) fn start(&self, cache: &Path) -> Result<(Cluster, Target), String> {
        let binaries = find_or_install(cache, &mut |text| eprintln!("{text}")).map_err(|error| error.to_string())?;
        let setting = |name: &str, value: String| (name.to_owned(), value);
        let extra = vec![
            setting("shared_buffers", format!("{}MB", Self::shared_buffers_mb())),
            setting("max_wal_size", "4GB".to_owned()),
            // The pooler's and the load's logins are not news.
            setting("log_min_messages", "fatal".to_owned()),
        ];
        let Self { max_connections, fsync } = *self;
        let options = Options { max_connections, fsync, extra, ..Options::default() };
        let cluster = Cluster::start(&binaries, options).map_err(|error| error.to_string())?;
        let target = Target {
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
    fn shared_buffers_mb() -> u64 {
        let all = machine_memory().0;
        (memory_limit().map_or(all, |limit| limit.min(all)) >> 23).clamp(128, 1024)
    }
}
