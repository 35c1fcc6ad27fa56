//! `pgweir bench`: from the command line to the published tests (`trials`), on the user's PostgreSQL or on an embedded one.

use std::process::ExitCode;

use config::{Problem, Upstream};
use trials::{Options, Target};

use crate::cli::Wishes;
use crate::{dev, run, settings, upstream};

/// Contestants take turns so many times, unless told otherwise.
const ROUNDS: u32 = 3;
/// As large as a small machine can make within a minute: 10 million rows.
const SCALE: u32 = 100;

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
pub(crate) fn target(url: &str) -> Result<Target, String> {
    let variable = |name: &str| std::env::var(name).ok();
    let passfile = run::passfile();
    let upstream = Upstream {
        env: &variable,
        assignments: &[],
        passfile: passfile.as_deref(),
        listen: None,
        pool_size: None,
        cores: settings::cores(),
        built: settings::built(),
    };
    let problems = |problems: Vec<Problem>| problems.iter().map(Problem::to_string).collect::<Vec<_>>().join("; ");
    let config = config::from_urls(&[url.to_owned()], &upstream, &config::read_file).map_err(problems)?;
    Ok(upstream::targets(&config)?.into_iter().next().expect("a URL names a host"))
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
