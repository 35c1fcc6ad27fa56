//! `pgweir bench`: from the command line to the published tests (`trials`), on the user's PostgreSQL or on an embedded one.

use std::path::PathBuf;
use std::process::ExitCode;

use auth::Secret;
use config::Upstream;
use pooling::settings::{Host, PoolSize};
use trials::{Options, Target};

use crate::cli::Misuse;
use crate::{dev, serve, settings};

/// The options of `bench`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    pub(crate) only: Vec<String>,
    pub(crate) rounds: Option<u32>,
    pub(crate) scale: Option<u32>,
    pub(crate) quick: bool,
    pub(crate) out: Option<PathBuf>,
    pub(crate) no_fsync: bool,
}

/// Contestants take turns so many times, unless told otherwise.
const ROUNDS: u32 = 3;
/// As large as a small machine can make within a minute: 10 million rows.
const SCALE: u32 = 100;

impl Wishes {
    /// The option of this name, if there is one.
    pub(crate) fn option(name: &str) -> Option<&'static str> {
        let known = ["--only", "--rounds", "--scale", "--quick", "--out", "--no-fsync"];
        known.into_iter().find(|option| option.strip_prefix("--") == Some(name))
    }

    /// Takes one of them, and its value if it has one.
    pub(crate) fn take(&mut self, option: &str, value: impl FnOnce() -> Result<String, Misuse>) -> Result<(), Misuse> {
        match option {
            "--only" => self.only.push(value()?),
            "--rounds" => self.rounds = Some(count(option, &value()?)?),
            "--scale" => self.scale = Some(count(option, &value()?)?),
            "--out" => self.out = Some(value()?.into()),
            "--quick" => self.quick = true,
            _ => self.no_fsync = true,
        }
        Ok(())
    }
}

fn count(option: &str, text: &str) -> Result<u32, Misuse> {
    // Beyond ten thousand (a billion rows) a number is a slip.
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| Misuse(format!("{option} needs a number from 1 on, not \"{text}\"")))
}

/// Runs the tests.
pub(crate) fn bench(url: Option<&str>, wishes: Wishes) -> ExitCode {
    let ran = url.map(target).transpose().and_then(|target| {
        let rounds = if wishes.quick { 1 } else { ROUNDS };
        trials::run(&Options {
            target,
            only: wishes.only,
            rounds: wishes.rounds.unwrap_or(rounds),
            scale: wishes.scale.unwrap_or(SCALE),
            quick: wishes.quick,
            fsync: !wishes.no_fsync,
            out: wishes.out,
            cache: dev::cache(),
            version: control::version::PGWEIR.to_owned(),
        })
    });
    match ran {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pgweir bench: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Where a URL leads, as `run` would read it.
fn target(url: &str) -> Result<Target, String> {
    let variable = |name: &str| std::env::var(name).ok();
    let passfile = serve::passfile();
    let upstream = Upstream {
        env: &variable,
        passfile: passfile.as_deref(),
        listen: serve::LISTEN,
        pool_size: PoolSize::Auto,
        cores: settings::cores(),
    };
    let config = config::from_url(url, &upstream).map_err(|problem| problem.to_string())?;
    let (database, about) = config.pooling.databases.iter().next().expect("a URL is one database");
    let (user, secret) = config.pooling.secrets.iter().next().expect("a URL is one user");
    let address = about.hosts.first().expect("a database has a host");
    let host = match &address.host {
        Host::Unix(dir) => dir.clone(),
        Host::Ip(ip) => ip.to_string(),
        Host::Name(name) => name.clone(),
    };
    let password = match secret {
        Secret::Plain(password) if !password.as_str().is_empty() => Some(password.as_str().to_owned()),
        _ => None,
    };
    Ok(Target { host, port: address.port, user: user.clone(), password, database: database.clone(), verifier: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_as_run_reads_it() {
        let found = target("postgres://me:a%20b@[::1]:7777/shop").expect("a URL");
        let Target { host, port, user, password, database, .. } = found;
        assert_eq!((host.as_str(), port, user.as_str(), database.as_str()), ("::1", 7777, "me", "shop"));
        assert_eq!(password.as_deref(), Some("a b"));
        assert!(target("mysql://me@h/d").is_err());
    }
}
