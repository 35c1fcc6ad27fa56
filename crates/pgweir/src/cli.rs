//! The command line: PgBouncer's flags and one file, or one of four commands of our own.
//!
//! The first argument that is no option decides: `run`, `dev`, `bench`, `check`, anything else is a configuration file. A file
//! with one of these names is reachable as `./run`.
//= pgbouncer usage.md#command-line-switches

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use config::url::SERVERS_MAX;
use lexopt::{Arg, Parser, ValueExt};
use pooling::settings::{PoolSize, Settings};

use crate::bench::Wishes;

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    Help,
    Version,
    /// Serve what a file says.
    Serve {
        file: PathBuf,
        flags: Flags,
    },
    /// Serve one upstream, without a file.
    Run {
        url: String,
        listen: Option<String>,
        pool_size: PoolSize,
        flags: Flags,
    },
    /// Serve a PostgreSQL of one's own.
    Dev {
        port: Option<u16>,
        data: Option<PathBuf>,
        pool_size: PoolSize,
        flags: Flags,
    },
    /// Rerun the published tests.
    Bench {
        /// `None`: on a PostgreSQL of its own.
        url: Option<String>,
        wishes: Wishes,
    },
    /// Read a file and say what it means.
    Check {
        file: PathBuf,
    },
}

/// What holds for everything that serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) daemon: bool,
    /// Nothing on stderr.
    pub(crate) quiet: bool,
    /// How often `-v` was given.
    pub(crate) verbose: u8,
    /// Take over from a running process.
    pub(crate) reboot: bool,
    /// Who to run as.
    pub(crate) user: Option<String>,
}

/// What is wrong with the command line, without the program's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misuse(pub(crate) String);

/// Everything an option can say, wherever it stands.
#[derive(Default)]
struct Given {
    flags: Flags,
    words: Vec<OsString>,
    listen: Option<String>,
    port: Option<u16>,
    data: Option<PathBuf>,
    pool_size: Option<PoolSize>,
    /// An option of `bench`, if one was given, and what they all say.
    bench: Option<&'static str>,
    wishes: Wishes,
}

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Misuse> {
    let mut given = Given::default();
    let mut parser = Parser::from_args(arguments);
    while let Some(arg) = parser.next().map_err(misuse)? {
        match arg {
            Arg::Short('h') | Arg::Long("help") => return Ok(Invocation::Help),
            Arg::Short('V') | Arg::Long("version") => return Ok(Invocation::Version),
            Arg::Short('d') | Arg::Long("daemon") => given.flags.daemon = true,
            Arg::Short('q') | Arg::Long("quiet") => given.flags.quiet = true,
            Arg::Short('v') | Arg::Long("verbose") => given.flags.verbose = given.flags.verbose.saturating_add(1),
            Arg::Short('R') | Arg::Long("reboot") => given.flags.reboot = true,
            Arg::Short('u') | Arg::Long("user") => given.flags.user = Some(text(parser.value(), "--user")?),
            Arg::Long("listen") => given.listen = Some(text(parser.value(), "--listen")?),
            Arg::Long("port") => given.port = Some(port(&text(parser.value(), "--port")?)?),
            Arg::Long("pool-size") => given.pool_size = Some(pool_size(&text(parser.value(), "--pool-size")?)?),
            Arg::Long("data") => given.data = Some(parser.value().map_err(misuse)?.into()),
            Arg::Value(word) => given.words.push(word),
            Arg::Long(name) if Wishes::option(name).is_some() => {
                given.bench = Wishes::option(name);
                let option = given.bench.expect("asked in the line above");
                given.wishes.take(option, || text(parser.value(), option))?;
            }
            other => return Err(misuse(other.unexpected())),
        }
    }
    given.into_invocation()
}

impl Given {
    fn into_invocation(self) -> Result<Invocation, Misuse> {
        let mut words = self.words.into_iter();
        let first = words.next().ok_or_else(|| Misuse("no configuration file specified".to_owned()))?;
        let second = words.next();
        if words.next().is_some() {
            return Err(Misuse("too many arguments".to_owned()));
        }
        let command = first.to_str().filter(|word| ["run", "dev", "bench", "check"].contains(word));
        only_for("--listen", self.listen.is_some(), &["run"], command)?;
        only_for("--port", self.port.is_some(), &["dev"], command)?;
        only_for("--data", self.data.is_some(), &["dev"], command)?;
        only_for("--pool-size", self.pool_size.is_some(), &["run", "dev"], command)?;
        only_for(self.bench.unwrap_or_default(), self.bench.is_some(), &["bench"], command)?;
        let flags = self.flags;
        let pool_size = self.pool_size.unwrap_or(PoolSize::Auto);
        match (command, second) {
            (Some("run"), Some(url)) => {
                let url = url.into_string().map_err(|_| Misuse("the URL is not text".to_owned()))?;
                Ok(Invocation::Run { url, listen: self.listen, pool_size, flags })
            }
            (Some("run"), None) => Err(Misuse("run needs a URL, as in run 'postgres://user@host/db'".to_owned())),
            (Some("dev"), None) => Ok(Invocation::Dev { port: self.port, data: self.data, pool_size, flags }),
            (Some("bench"), url) => {
                let url = url.map(|url| url.into_string().map_err(|_| Misuse("the URL is not text".to_owned())));
                Ok(Invocation::Bench { url: url.transpose()?, wishes: self.wishes })
            }
            (Some("check"), Some(file)) => Ok(Invocation::Check { file: file.into() }),
            (Some("check"), None) => Err(Misuse("check needs a configuration file".to_owned())),
            (None, None) => Ok(Invocation::Serve { file: first.into(), flags }),
            (_, Some(word)) => Err(Misuse(format!("one argument too many: {}", shown(&word)))),
            (Some(_), None) => unreachable!("the four commands are above"),
        }
    }
}

/// An option that some commands have must not be given to another.
fn only_for(option: &str, is_given: bool, commands: &[&str], found: Option<&str>) -> Result<(), Misuse> {
    if !is_given || found.is_some_and(|found| commands.contains(&found)) {
        return Ok(());
    }
    let commands: Vec<String> = commands.iter().map(|command| format!("\"{command}\"")).collect();
    Err(Misuse(format!("{option} is for {} only", commands.join(" and "))))
}

fn text(value: Result<OsString, lexopt::Error>, option: &str) -> Result<String, Misuse> {
    value.map_err(misuse)?.string().map_err(|_| Misuse(format!("the value of {option} is not text")))
}

fn port(text: &str) -> Result<u16, Misuse> {
    text.parse().map_err(|_| Misuse(format!("--port needs a number up to 65535, not \"{text}\"")))
}

fn pool_size(text: &str) -> Result<PoolSize, Misuse> {
    if text == "auto" {
        return Ok(PoolSize::Auto);
    }
    // More than ten thousand are a slip, as in auto_pool_size_max.
    let number = text.parse().ok().filter(|number| (1..=10_000).contains(number));
    number
        .map(PoolSize::Fixed)
        .ok_or_else(|| Misuse(format!("--pool-size needs auto or a number from 1 to 10000, not \"{text}\"")))
}

/// As getopt_long(3) words it, which is what scripts know.
fn misuse(error: lexopt::Error) -> Misuse {
    Misuse(match error {
        lexopt::Error::UnexpectedOption(option) => match option.strip_prefix("--") {
            Some(_) => format!("unrecognized option '{option}'"),
            None => format!("invalid option -- '{}'", option.trim_start_matches('-')),
        },
        other => other.to_string(),
    })
}

fn shown(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

/// The text of `--help`.
pub(crate) fn help(program: &str) -> String {
    let (most, all) = (Settings::default().auto_pool_size_max, SERVERS_MAX);
    format!(
        "\
{program} is a connection pooler and queue for PostgreSQL.

Usage:
  {program} [OPTION]... CONFIG_FILE     serve what a pgbouncer.ini says
  {program} run URL [--listen ADDR]     serve one PostgreSQL, without a file
  {program} dev [--port N] [--data DIR] serve a PostgreSQL of its own, for trying things
  {program} bench [URL] [OPTION]...     rerun the published tests of pooling, on yours or on a PostgreSQL of its own
  {program} check CONFIG_FILE           say what a file means, and what is wrong with it

Options:
  -d, --daemon         run in background (as a daemon)
  -q, --quiet          run quietly
  -R, --reboot         do an online reboot (not supported yet)
  -u, --user=USERNAME  assume identity of USERNAME
  -v, --verbose        increase verbosity
  -V, --version        show version, then exit
  -h, --help           show this help, then exit

Option of run and dev:
  --pool-size N|auto   how many connections PostgreSQL gets for one database. auto, the default: as many as give the most
                       throughput, found by trying, from 2 to {most}, and {all} for all databases. SHOW SIZING tells which and why.

Options of bench:
  --only NAME          these tests only (cern, percona, linux-6; may be repeated)
  --rounds N           rounds in which the contestants take turns (3)
  --scale N            size of the tables, 100,000 rows each (100)
  --quick              one round of a second or two: a look, not a record
  --out DIR            where the report goes (a new directory here)
  --no-fsync           the PostgreSQL of its own need not survive a crash

A URL is postgres://user[:password]@host[:port]/database. Without a password there, PGPASSWORD or ~/.pgpass has it.
A file that is called run, dev, bench or check is given as ./run, ./dev, ./bench or ./check.
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Invocation, Misuse> {
        parse(line.split_whitespace().map(OsString::from))
    }

    fn serve(file: &str, flags: Flags) -> Result<Invocation, Misuse> {
        Ok(Invocation::Serve { file: file.into(), flags })
    }

    fn dev(port: Option<u16>, data: Option<&str>, pool_size: PoolSize) -> Result<Invocation, Misuse> {
        Ok(Invocation::Dev { port, data: data.map(PathBuf::from), pool_size, flags: Flags::default() })
    }

    #[test]
    fn a_table_of_lines() {
        let nobody = || Flags { user: Some("nobody".to_owned()), ..Flags::default() };
        let table = [
            ("-h", Ok(Invocation::Help)),
            ("--help --frob", Ok(Invocation::Help)),
            ("-V", Ok(Invocation::Version)),
            ("a.ini --version", Ok(Invocation::Version)),
            ("a.ini", serve("a.ini", Flags::default())),
            ("./run", serve("./run", Flags::default())),
            ("a.ini -u nobody", serve("a.ini", nobody())),
            ("-unobody a.ini", serve("a.ini", nobody())),
            ("--user=nobody a.ini", serve("a.ini", nobody())),
            ("--user nobody a.ini", serve("a.ini", nobody())),
            ("-dqv -v a.ini", serve("a.ini", Flags { daemon: true, quiet: true, verbose: 2, ..Flags::default() })),
            ("-R a.ini", serve("a.ini", Flags { reboot: true, ..Flags::default() })),
            ("check x.ini", Ok(Invocation::Check { file: "x.ini".into() })),
            ("dev", dev(None, None, PoolSize::Auto)),
            ("dev --port 7000 --data=/d --pool-size 20", dev(Some(7000), Some("/d"), PoolSize::Fixed(20))),
            ("dev --pool-size auto", dev(None, None, PoolSize::Auto)),
            ("bench", Ok(Invocation::Bench { url: None, wishes: Wishes::default() })),
            (
                "bench postgres://h/d --quick --scale 3",
                Ok(Invocation::Bench {
                    url: Some("postgres://h/d".to_owned()),
                    wishes: Wishes { quick: true, scale: Some(3), ..Wishes::default() },
                }),
            ),
            (
                "run postgres://h/d --listen :7000",
                Ok(Invocation::Run {
                    url: "postgres://h/d".to_owned(),
                    listen: Some(":7000".to_owned()),
                    pool_size: PoolSize::Auto,
                    flags: Flags::default(),
                }),
            ),
        ];
        for (line, expected) in table {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }

    #[test]
    fn a_table_of_mistakes() {
        let table = [
            ("", "no configuration file specified"),
            ("-q", "no configuration file specified"),
            ("--frob a.ini", "unrecognized option '--frob'"),
            ("-x", "invalid option -- 'x'"),
            ("a.ini b.ini", "one argument too many: b.ini"),
            ("a.ini b.ini c.ini", "too many arguments"),
            ("run", "run needs a URL, as in run 'postgres://user@host/db'"),
            ("check", "check needs a configuration file"),
            ("dev x", "one argument too many: x"),
            ("dev --port 70000", "--port needs a number up to 65535, not \"70000\""),
            ("dev --pool-size 0", "--pool-size needs auto or a number from 1 to 10000, not \"0\""),
            ("a.ini --pool-size 5", "--pool-size is for \"run\" and \"dev\" only"),
            ("a.ini --port 7000", "--port is for \"dev\" only"),
            ("bench --scale 0", "--scale needs a number from 1 on, not \"0\""),
            ("dev --quick", "--quick is for \"bench\" only"),
            ("bench a b", "too many arguments"),
            ("dev --listen :1", "--listen is for \"run\" only"),
        ];
        for (line, expected) in table {
            assert_eq!(parsed(line), Err(Misuse(expected.to_owned())), "{line}");
        }
        assert!(parsed("a.ini -u").is_err());
    }

    #[test]
    fn help_names_every_option() {
        let help = help("pgweir");
        for option in [
            "-d,",
            "-q,",
            "-R,",
            "-u,",
            "-v,",
            "-V,",
            "-h,",
            "--listen",
            "--port",
            "--data",
            "--pool-size",
            "check",
            "dev",
            "bench",
            "--only",
        ] {
            assert!(help.contains(option), "{option}");
        }
    }
}
