//! A primary and its standby, both real, at two addresses of this machine and the same port.

use std::path::Path;
use std::process::Command;

use demo::{Cluster, Options};

use crate::patience::eventually;
use crate::stage::{Stage, Wishes};
use crate::tools::run;

pub const PRIMARY: &str = "127.0.0.2";
pub const STANDBY: &str = "127.0.0.3";

/// Both, and a pooler in front of the primary alone.
///
/// # Panics
/// If one of them does not start.
#[must_use]
pub fn pair() -> (Stage, Cluster) {
    let stage =
        Stage::set(&Wishes { postgres: vec![("listen_addresses", "127.0.0.1,127.0.0.2")], ..Wishes::default() });
    let standby = standby_of(&stage, &[]);
    (stage, standby)
}

/// A standby that streams, with these settings beside its own.
///
/// # Panics
/// If it does not start.
#[must_use]
pub fn standby_of(stage: &Stage, settings: &[(&str, &str)]) -> Cluster {
    let copy = stage.pooler.dir().join("standby");
    let target = stage.cluster.url("postgres");
    let arguments = ["-d", &target, "-D", &copy.display().to_string(), "-X", "stream", "-c", "fast", "-R"];
    run(stage, "pg_basebackup", &arguments).unwrap_or_else(|wrote| panic!("{wrote}"));
    give_to_account(&stage.cluster, &copy);
    let settings = settings.iter().chain(&[("listen_addresses", STANDBY)]);
    let options = Options {
        port: Some(stage.cluster.port()),
        data: Some(copy),
        extra: settings.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ..Options::default()
    };
    let standby = Cluster::start(&stage.binaries, options).unwrap_or_else(|error| panic!("the standby: {error}"));
    // A walsender is there before the standby has reported what it replayed; a standby is known by that report.
    eventually("it streams", || {
        stage.direct("select count(*) from pg_stat_replication where state = 'streaming' and replay_lsn is not null")
            == "1"
    });
    standby
}

/// Gives a folder to the account that runs PostgreSQL.
///
/// # Panics
/// If that is refused.
pub fn give_to_account(cluster: &Cluster, dir: &Path) {
    if let Some(account) = cluster.account() {
        let owner = format!("{}:{}", account.uid, account.gid);
        let given = Command::new("chown").args(["-R", &owner]).arg(dir).status().expect("chown is there");
        assert!(given.success());
    }
}
