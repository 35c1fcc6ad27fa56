//! The command lines of `dev` and `bench`: what pgweir lists, checks and hands on, and pgweir-bench carries out.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use settings::PoolSize;

use crate::addresses::bracketed;

/// What pgweir-bench can be asked for.
#[derive(Subcommand, Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Serve a PostgreSQL of its own, for trying things
    #[command(after_help = "\
It prints how to reach the pooler, its console, its page, pgweir top and PostgreSQL, and serves until Ctrl-C. The page is at
127.0.0.1:9127, or at a free port if that is taken; it has no TLS, and stays on this machine. PostgreSQL is the one in PGWEIR_PG_BIN
or on PATH; it is fetched into XDG_CACHE_HOME if this machine has none. No other variable counts: neither PGWEIR_<SETTING> nor
libpq's.

Examples:
  pgweir dev
  pgweir dev --listen '*:7000' --data ./data --pool-size 20")]
    Dev(Dev),
    /// Rerun the published tests of pooling, on yours or on a PostgreSQL of its own
    #[command(after_help = "\
It says first how long it takes and what it needs. PgBouncer is measured too if it is on PATH, or named by PGBOUNCER.

Examples:
  pgweir bench --quick --only percona
  pgweir bench 'postgres://app@db.example/test' --out ./report
  PGBOUNCER=/opt/pgbouncer pgweir bench --only cern --only linux-6")]
    Bench(Bench),
}

/// The options of `dev`.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Dev {
    /// Where pgweir listens: a port, an address, or both, as in 7000,
    /// 10.0.0.5, *:6432 or [::1]:6432; 127.0.0.1:6432 unless said otherwise
    #[arg(long, value_name = "ADDR", value_parser = listen, verbatim_doc_comment)]
    pub listen: Option<Listen>,
    /// A port alone, as --listen takes it, too
    #[arg(long, value_name = "PORT", value_parser = port, conflicts_with = "listen")]
    pub port: Option<u16>,
    /// Where PostgreSQL's data stay; without it they go with the run
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub size: Sized,
    /// Run quietly: nothing of pgweir's on stderr
    #[arg(short, long)]
    pub quiet: bool,
    /// Increase verbosity; may be repeated
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// One address; `*` is all of them.
    pub address: String,
    pub port: u16,
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", bracketed(&self.address), self.port)
    }
}

/// What `bench` is about.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Bench {
    /// The PostgreSQL to load; one of its own unless given
    pub url: Option<String>,
    #[command(flatten)]
    pub wishes: Wishes,
}

#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Sized {
    /// How many connections PostgreSQL gets for one database. auto: as many
    /// as give the most throughput, found by trying, from 2 to 80, and at
    /// most 90 for all databases; SHOW SIZING tells which and why. auto
    /// unless said otherwise
    #[arg(long, value_name = "N|auto", value_parser = pool_size, verbatim_doc_comment)]
    pub pool_size: Option<PoolSize>,
}

/// The options of `bench`.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// These tests only: cern, percona, linux-6 (may be repeated)
    #[arg(long, value_name = "NAME")]
    pub only: Vec<String>,
    /// Rounds in which the contestants take turns; 3 unless said otherwise
    #[arg(long, value_name = "N", value_parser = count)]
    pub rounds: Option<u32>,
    /// Size of the tables, 100,000 rows each; 100 unless said otherwise
    #[arg(long, value_name = "N", value_parser = count)]
    pub scale: Option<u32>,
    /// One round of a second or two: a look, not a record
    #[arg(long)]
    pub quick: bool,
    /// Where the report goes; a new directory here unless said otherwise
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The PostgreSQL of its own need not survive a crash
    #[arg(long)]
    pub no_fsync: bool,
}

impl Errand {
    /// As the user calls it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Errand::Dev(_) => "dev",
            Errand::Bench(_) => "bench",
        }
    }

    /// Takes what may have a password in it: it must not be among the words.
    pub fn take_url(&mut self) -> Option<String> {
        match self {
            Errand::Dev(_) => None,
            Errand::Bench(bench) => bench.url.take(),
        }
    }

    /// The words that mean the same once more.
    #[must_use]
    pub fn words(&self) -> Vec<OsString> {
        let mut words = Words(vec![self.name().into()]);
        match self {
            Errand::Dev(Dev { listen, port, data, size, quiet, verbose }) => {
                words.option("--listen", listen.as_ref().map(Listen::to_string));
                words.option("--port", port.map(|port| port.to_string()));
                words.option("--data", data.as_ref());
                words.option("--pool-size", size.pool_size.map(|size| size.to_string()));
                words.flag("--quiet", u8::from(*quiet));
                words.flag("--verbose", *verbose);
            }
            Errand::Bench(Bench { url, wishes }) => {
                let Wishes { only, rounds, scale, quick, out, no_fsync } = wishes;
                only.iter().for_each(|name| words.option("--only", Some(name)));
                words.option("--rounds", rounds.map(|count| count.to_string()));
                words.option("--scale", scale.map(|count| count.to_string()));
                words.flag("--quick", u8::from(*quick));
                words.option("--out", out.as_ref());
                words.flag("--no-fsync", u8::from(*no_fsync));
                if let Some(url) = url {
                    words.0.extend(["--".into(), url.into()]);
                }
            }
        }
        words.0
    }
}

struct Words(Vec<OsString>);

impl Words {
    /// In one word, so that a value may begin with a dash.
    fn option(&mut self, name: &str, value: Option<impl Into<OsString>>) {
        let Some(value) = value else { return };
        let mut word = OsString::from(format!("{name}="));
        word.push(value.into());
        self.0.push(word);
    }

    fn flag(&mut self, name: &str, times: u8) {
        self.0.extend((0..times).map(|_| OsString::from(name)));
    }
}

/// An address, a port, or both.
///
/// # Errors
/// It is none of them.
fn listen(text: &str) -> Result<Listen, String> {
    let (address, port) = config::url::listen(text).map_err(|problem| format!("{} is needed", problem.expected))?;
    Ok(Listen { address, port })
}

/// A port's number.
///
/// # Errors
/// It is none.
pub fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| "a port is a number up to 65535".to_owned())
}

/// A number of something.
///
/// # Errors
/// It is none, or a slip.
pub fn count(text: &str) -> Result<u32, String> {
    // Beyond ten thousand (a billion rows) a number is a slip.
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.ok_or_else(|| "a number from 1 to 10000 is needed".to_owned())
}

/// A pool's size.
///
/// # Errors
/// It is none.
pub fn pool_size(text: &str) -> Result<PoolSize, String> {
    if text == "auto" {
        return Ok(PoolSize::Auto);
    }
    // More than ten thousand are a slip, as in auto_pool_size_max.
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number.map(PoolSize::Fixed).ok_or_else(|| "auto or a number from 1 to 10000 is needed".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        errand: Errand,
    }

    #[test]
    fn words_mean_the_same_once_more() {
        let all = [
            "dev",
            "dev --port 7000 --data -d --pool-size 20 -q -vv",
            "dev --pool-size auto",
            "dev --listen *:7000",
            "dev --listen [::1]:7000",
            "bench",
            "bench postgres://h/d --only cern --only linux-6 --rounds 2 --scale 3 --quick --out o --no-fsync",
        ];
        for line in all {
            let line = line.replace("--data -d", "--data=-d");
            let words = std::iter::once("pgweir-bench").chain(line.split(' '));
            let errand = Line::try_parse_from(words).expect("a line").errand;
            let again = std::iter::once("pgweir-bench".into()).chain(errand.words());
            assert_eq!(Line::try_parse_from(again).expect("words").errand, errand, "{line}");
        }
    }

    #[test]
    fn a_url_that_was_taken_is_in_no_word() {
        let bench = Bench { url: Some("postgres://u:secret@h/d".to_owned()), wishes: Wishes::default() };
        let mut errand = Errand::Bench(bench);
        assert_eq!(errand.take_url().as_deref(), Some("postgres://u:secret@h/d"));
        assert_eq!(errand.words(), ["bench"]);
    }
}
