//! The command line: PgBouncer's flags and one file, or one of our own commands.
//!
//! The first argument that is no option decides: `run`, `dev`, `bench`, `auth-setup`, `observe-setup`, `check`, `import`, `health`, `doctor`, `profile`, `top`, `report`, `help`, anything else is a configuration file.
//! A file with one of these names is reachable as `./run`. Mistakes are worded as getopt_long(3) words them, which is what
//! scripts know, and end with status 1, as PgBouncer's.
//= pgbouncer usage.md#command-line-switches

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgAction, Args, CommandFactory, Parser, Subcommand};
use programs::{Errand, Sized};
use settings::PoolSize;

mod commands;
mod mistakes;
mod profile;

pub(crate) use commands::{Examination, Report, ReportFormat, Watching};

pub(crate) use mistakes::{Misuse, meant};
pub(crate) use profile::{Look, Looked};

/// What the user asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// The text to print.
    Help(String),
    Version,
    /// Serve what a file says.
    Serve {
        file: PathBuf,
        flags: Flags,
    },
    /// Serve what URLs say, or else the environment.
    Run {
        urls: Vec<String>,
        listen: Option<String>,
        pool_size: Option<PoolSize>,
        flags: Flags,
    },
    /// A command of pgweir-bench: a PostgreSQL of one's own, or the published tests.
    Beside(Errand),
    /// Let the pooler look users up in a database.
    AuthSetup {
        url: String,
        role: String,
        apply: bool,
    },
    /// Let the observer see what all backends do.
    ObserveSetup {
        url: String,
        role: String,
        apply: bool,
    },
    /// Read a file and say what it means.
    Check {
        file: PathBuf,
    },
    /// Read PgBouncer's file and say what will differ.
    Import {
        file: PathBuf,
    },
    /// Ask a running pgweir whether it is well.
    Health {
        address: Option<String>,
        only_live: bool,
    },
    /// Say what is wrong with a pooler and its PostgreSQL.
    Doctor(Examination),
    /// Draw a flame graph of the pooler or of PostgreSQL's backends.
    Profile {
        looked: Looked,
        look: Look,
    },
    /// Show what goes on in a running pgweir.
    Top(Watching),
    /// Show what was waited for.
    Report(Report),
}

/// What holds for everything that serves.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Run in background (as a daemon)
    #[arg(short, long)]
    pub(crate) daemon: bool,
    /// Run quietly: on stderr only what keeps it from starting
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Do an online reboot: take over from the running process
    #[arg(short = 'R', long)]
    pub(crate) reboot: bool,
    /// Assume identity of USERNAME
    #[arg(short, long, value_name = "USERNAME", allow_hyphen_values = true)]
    pub(crate) user: Option<String>,
    /// Increase verbosity; may be repeated
    #[arg(short, long, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// The flags that `run` has too.
#[derive(Args)]
struct RunFlags {
    /// Run quietly: on stderr only what keeps it from starting
    #[arg(short, long)]
    quiet: bool,
    /// Assume identity of USERNAME
    #[arg(short, long, value_name = "USERNAME", allow_hyphen_values = true)]
    user: Option<String>,
    /// Increase verbosity; may be repeated
    #[arg(short, long, action = ArgAction::Count)]
    verbose: u8,
}

/// pgweir is a connection pooler and queue for PostgreSQL. CONFIG_FILE is a pgbouncer.ini, read as PgBouncer would read it.
#[derive(Parser)]
#[command(
    name = "pgweir",
    // The text is control::version's, which scripts compare.
    version = "",
    override_usage = "pgweir [OPTION]... CONFIG_FILE\n       pgweir COMMAND [OPTION]...",
    after_help = TOP_EXAMPLES,
    // As getopt_long has it: a flag may be given twice, and a long one may be cut where it is clear.
    args_override_self = true,
    infer_long_args = true,
    subcommand_value_name = "COMMAND"
)]
struct Line {
    #[command(flatten)]
    flags: Flags,
    // Several, so that a second one is answered in our words. Hidden, because the usage has it.
    #[arg(value_name = "CONFIG_FILE", num_args = 0.., hide = true)]
    words: Vec<OsString>,
    #[command(subcommand)]
    command: Option<Command>,
}

const TOP_EXAMPLES: &str = "\
Examples:
  pgweir /etc/pgbouncer/pgbouncer.ini
  pgweir check /etc/pgbouncer/pgbouncer.ini
  pgweir run 'postgres://app@db.example/shop' --listen 6432

\"pgweir help COMMAND\" says more of one. A file that is called like a command is given as ./run.";

#[derive(Subcommand)]
enum Command {
    /// Serve PostgreSQL by its URL or by the environment, without a file
    #[command(after_help = "\
A URL is postgres://user[:password]@host[:port]/database. Without a password there, PGPASSWORD or ~/.pgpass has it.
Clients prove the same user and password, and get each a server for a transaction. Several URLs are several databases;
clients call one otherwise with NAME= in front of it.

Without a URL here the environment says what to serve: DATABASE_URL (several with spaces between them), or else PGHOST,
PGPORT, PGUSER, PGPASSWORD and PGDATABASE. If it does not either, the file /etc/pgweir/pgweir.ini is served, as it is.
PGWEIR_<SETTING> sets any setting of [pgbouncer], such as PGWEIR_POOL_MODE=session; what the command line says counts
more. Each of these variables may be given by a file that has its value: PGPASSWORD_FILE=/run/secrets/password.

Once it serves, it prints how to reach it, its console and its page; \"pgweir top\" of the same user finds it.

Examples:
  pgweir run 'postgres://app@db.example/shop'
  PGPASSWORD=secret pgweir run 'postgres://app@db.example/shop' --listen 27450 --pool-size 20
  PGPASSWORD=secret pgweir run 'postgres://app@/shop?host=/var/run/postgresql' --listen '*:6432'
  PGPASSWORD=secret pgweir run 'postgres://app@db1/shop' 'logs=postgres://app@db2/shop'
  DATABASE_URL=postgres://app:secret@db.example/shop PGWEIR_DEFAULT_POOL_SIZE=20 pgweir run")]
    Run {
        /// The PostgreSQL to serve, as [NAME=]postgres://…
        #[arg(value_name = "URL", num_args = 0..)]
        urls: Vec<String>,
        /// Where to listen: a port, an address, or both, as in 27450,
        /// 10.0.0.5, *:6432 or [::1]:6432; 127.0.0.1:6432 unless said
        /// otherwise
        #[arg(long, value_name = "ADDR", verbatim_doc_comment)]
        listen: Option<String>,
        #[command(flatten)]
        size: Sized,
        #[command(flatten)]
        flags: RunFlags,
    },
    #[command(flatten)]
    Beside(Errand),
    /// Print the SQL that lets auth_query look users up, and run it if asked
    #[command(after_help = "\
It makes a role that may call one function, and the function, which knows no superusers and no replication roles. Comments at the
end say what to write into pg_hba.conf, pgbouncer.ini and auth_file. The user of the URL must be a superuser for --apply; without
it nothing is connected to.

Examples:
  pgweir auth-setup 'postgres://postgres@db.example/shop' | psql 'postgres://postgres@db.example/shop'
  PGPASSWORD=secret pgweir auth-setup 'postgres://postgres@db.example/shop' --apply")]
    AuthSetup {
        /// The database in which users are looked up
        url: String,
        /// The role that looks them up: auth_user
        #[arg(long, value_name = "NAME", default_value = "pgweir_auth", value_parser = role)]
        role: String,
        /// Run it there, too
        #[arg(long)]
        apply: bool,
    },
    /// Print the SQL that lets observe_user see what all backends do, and run it if asked
    #[command(after_help = "\
It makes a role that has pg_monitor. Comments at the end say what to write into pg_hba.conf, pgbouncer.ini and auth_file. The user of the
URL must be a superuser for --apply; without it nothing is connected to.

Examples:
  pgweir observe-setup 'postgres://postgres@db.example/shop' | psql 'postgres://postgres@db.example/shop'
  PGPASSWORD=secret pgweir observe-setup 'postgres://postgres@db.example/shop' --apply")]
    ObserveSetup {
        /// A database of the server
        url: String,
        /// The role that asks: observe_user
        #[arg(long, value_name = "NAME", default_value = "pgweir_observer", value_parser = role)]
        role: String,
        /// Run it there, too
        #[arg(long)]
        apply: bool,
    },
    /// Say what a file means, and what is wrong with it
    #[command(after_help = "\
What the file means goes to stdout, what is wrong with it to stderr; the status is 0 if it can be used.

Examples:
  pgweir check /etc/pgbouncer/pgbouncer.ini")]
    Check {
        /// A pgbouncer.ini
        #[arg(value_name = "CONFIG_FILE")]
        file: PathBuf,
    },
    /// Say how pgweir would serve PgBouncer's file: what is as before, what is not
    #[command(after_help = "\
What differs goes to stdout, what is wrong with the file to stderr; the status is 0 if pgweir can serve it. Nothing is written: the
file stays as it is, for both.

Examples:
  pgweir import /etc/pgbouncer/pgbouncer.ini")]
    Import {
        /// A pgbouncer.ini
        #[arg(value_name = "CONFIG_FILE")]
        file: PathBuf,
    },
    /// Ask a running pgweir whether it takes clients, for health checks
    #[command(after_help = "\
It asks http_listen for /ready. The status is 0 if it takes clients, and 1, with the reason on stderr, if it does not or does
not answer within 5 s.

Examples:
  pgweir health
  pgweir health --live 10.0.0.5:9127
  pgweir health unix:/run/pgweir/http")]
    Health {
        /// Where to ask: an address as in http_listen; PGWEIR_HTTP_LISTEN, or
        /// else 127.0.0.1:9127, unless given
        #[arg(value_name = "ADDRESS", verbatim_doc_comment)]
        address: Option<String>,
        /// It is enough that it lives, though it may take no clients
        #[arg(long)]
        live: bool,
    },
    /// Say what is wrong with a pooler and its PostgreSQL, and what mends it
    #[command(after_help = "\
It reads a file, the console and PostgreSQL, and changes nothing. The role in PostgreSQL needs no more than pg_monitor; what it
cannot see is said at the end. On PostgreSQL's machine, as root or as PostgreSQL's user, it also measures backends. The status
is 0 if nothing critical and no warning is found, 1 if something is, and 2 if it could not look.

Examples:
  pgweir doctor /etc/pgweir/pgweir.ini
  pgweir doctor /etc/pgweir/pgweir.ini --postgres 'postgres://watcher@db.example/shop' --replicas 3
  pgweir doctor 'postgres://stats@pooler.example:6432/pgbouncer' --postgres 'postgres://watcher@db.example/shop' --json
  pgweir doctor --postgres 'postgres://watcher@db.example/shop'")]
    Doctor {
        #[command(flatten)]
        examination: Examination,
    },
    /// Draw a flame graph of a running pgweir, or of PostgreSQL's backends
    #[command(after_help = profile::NOTES)]
    Profile {
        #[command(flatten)]
        look: Look,
    },
    /// Show what goes on in a running pgweir: who waits, for what, behind whom
    #[command(after_help = "\
It asks the console, from any machine that reaches it, as a user of admin_users or stats_users; only the first see statements and may
end queries. Without a URL it looks at what \"pgweir dev\" or \"pgweir run\" serves on this machine for the same user (of several the
newest), else where \"pgweir run\" would serve with the same environment, else at the socket of a package, else at 127.0.0.1:6432. The key ? shows all keys. Where stdout is no terminal, it is as with --once.

Examples:
  pgweir top
  pgweir top 'postgres://dba@pooler.example:6432/pgbouncer'
  pgweir top --view locks
  pgweir top --once --view waits --table statement --span 15min
  pgweir top --once --view holders --filter 'idle in transaction'")]
    Top {
        #[command(flatten)]
        watching: Watching,
    },
    /// Show who waited for what, as one HTML page, from a console or a file
    #[command(after_help = "\
The page is one file without scripts, and no request leaves it: for a ticket, or a colleague. CSV and JSON are what SHOW HISTORY has.
Times are a time of day, of today or else of yesterday, or a day and a time, or such with an offset. An administrator is told
statements and tags.

Examples:
  pgweir report 'postgres://admin@pooler.example:6432/pgbouncer' --from 14:00 --to 14:10 -o incident.html
  pgweir report --file /var/lib/pgweir/history --from '2026-07-01 14:00' --to '2026-07-01 14:10' --format csv")]
    Report(Report),
}

/// Reads the arguments that follow the program's name.
pub(crate) fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Invocation, Misuse> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let with_name = std::iter::once("pgweir".into()).chain(arguments.iter().cloned());
    match Line::try_parse_from(with_name) {
        Ok(line) => line.into_invocation(),
        Err(error) => mistakes::answer(&error, &arguments, &Line::command()),
    }
}

impl Line {
    fn into_invocation(self) -> Result<Invocation, Misuse> {
        let mut flags = self.flags;
        let Some(command) = self.command else { return serve(self.words, flags) };
        if let Some(word) = self.words.first() {
            return Err(Misuse::new(format!("one argument too many: {}", word.to_string_lossy())));
        }
        match command {
            Command::Run { urls, listen, size: Sized { pool_size }, flags: own } => {
                flags.refuse("run", &["daemon", "reboot"])?;
                flags.quiet |= own.quiet;
                flags.verbose = flags.verbose.saturating_add(own.verbose);
                flags.user = own.user.or(flags.user);
                Ok(Invocation::Run { urls, listen, pool_size, flags })
            }
            Command::Beside(Errand::Dev(mut dev)) => {
                flags.refuse("dev", &["daemon", "reboot", "user"])?;
                dev.quiet |= flags.quiet;
                dev.verbose = dev.verbose.saturating_add(flags.verbose);
                Ok(Invocation::Beside(Errand::Dev(dev)))
            }
            Command::Beside(Errand::Bench(bench)) => {
                flags.refuse("bench", &Flags::ALL)?;
                Ok(Invocation::Beside(Errand::Bench(bench)))
            }
            Command::AuthSetup { url, role, apply } => {
                flags.refuse("auth-setup", &Flags::ALL)?;
                Ok(Invocation::AuthSetup { url, role, apply })
            }
            Command::ObserveSetup { url, role, apply } => {
                flags.refuse("observe-setup", &Flags::ALL)?;
                Ok(Invocation::ObserveSetup { url, role, apply })
            }
            Command::Check { file } => {
                flags.refuse("check", &Flags::ALL)?;
                Ok(Invocation::Check { file })
            }
            Command::Import { file } => {
                flags.refuse("import", &Flags::ALL)?;
                Ok(Invocation::Import { file })
            }
            Command::Report(wanted) => {
                flags.refuse("report", &Flags::ALL)?;
                Ok(Invocation::Report(wanted))
            }
            Command::Health { address, live } => {
                flags.refuse("health", &Flags::ALL)?;
                Ok(Invocation::Health { address, only_live: live })
            }
            Command::Doctor { examination } => {
                flags.refuse("doctor", &Flags::ALL)?;
                if examination.pooler.is_none() && examination.postgres.is_none() {
                    let needed = "doctor needs a configuration file, a console's URL, or --postgres URL";
                    return Err(Misuse::of("doctor", needed.to_owned()));
                }
                Ok(Invocation::Doctor(examination))
            }
            Command::Profile { look } => {
                flags.refuse("profile", &Flags::ALL)?;
                Ok(Invocation::Profile { looked: look.looked()?, look })
            }
            Command::Top { watching } => {
                flags.refuse("top", &Flags::ALL)?;
                Ok(Invocation::Top(watching))
            }
        }
    }
}

/// Exactly one file.
fn serve(words: Vec<OsString>, flags: Flags) -> Result<Invocation, Misuse> {
    let mut words = words.into_iter();
    let first = words.next().ok_or_else(|| Misuse::new("no configuration file specified".to_owned()))?;
    match words.next() {
        None => Ok(Invocation::Serve { file: first.into(), flags }),
        Some(second) => Err(meant(Path::new(&first))
            .unwrap_or_else(|| Misuse::new(format!("one argument too many: {}", second.to_string_lossy())))),
    }
}

impl Flags {
    const ALL: [&'static str; 5] = ["daemon", "quiet", "reboot", "user", "verbose"];

    /// Given in front of a command that does not have them, they would be passed over in silence.
    fn refuse(&self, command: &'static str, names: &[&str]) -> Result<(), Misuse> {
        let given = [self.daemon, self.quiet, self.reboot, self.user.is_some(), self.verbose > 0];
        let given = Flags::ALL.iter().zip(given).find(|(name, given)| *given && names.contains(name));
        match given {
            None => Ok(()),
            Some((name, _)) => Err(Misuse::of(command, format!("\"{command}\" has no option --{name}"))),
        }
    }
}

fn interval(text: &str) -> Result<Duration, String> {
    // More often than ten times a second nobody can read.
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "a number of seconds from 0.1 to 3600 is needed".to_owned())
}

fn role(text: &str) -> Result<String, String> {
    let is_name = (1..=63).contains(&text.len()) && !text.contains(char::is_control);
    if is_name { Ok(text.to_owned()) } else { Err("a role's name has 1 to 63 bytes".to_owned()) }
}

#[cfg(test)]
mod generated;
#[cfg(test)]
mod tests;
