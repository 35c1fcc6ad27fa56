//! The command line of `profile`: what is looked at, which is one of five, and how.

use std::path::PathBuf;

use stacks::{GDB_RATE_MAX, PERF_RATE_MAX, SECONDS_MAX, Tool};

use super::Misuse;

pub(super) const NOTES: &str = "\
perf counts time on a CPU and stops nothing; it is used where it is installed and permitted. gdb counts time, also time spent
waiting, and stops a process for 0.1 to 0.5 s a sample: it is used with --by gdb, for --waiting, and where perf cannot be, and asks
for --yes. Both see processes of this machine alone, and mostly need root.

Examples:
  pgweir profile /etc/pgweir/pgweir.ini
  pgweir profile --postgres 'postgres://postgres@/postgres?host=/var/run/postgresql' --seconds 30
  pgweir profile --postgres 'postgres://postgres@localhost/shop' --waiting LWLock:BufferMapping --yes
  pgweir profile --backend 4711 --by gdb --yes --folded -";

/// What is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// The pooler that this file is for: its pidfile says which.
    File(PathBuf),
    PidFile(PathBuf),
    Pooler(u32),
    Backend(u32),
    /// The backends of the PostgreSQL at a URL: all, or those that wait for an event.
    Backends {
        url: String,
        event: Option<String>,
    },
}

/// The options of `profile`.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// The configuration of the pgweir to look at: its pidfile is used
    #[arg(value_name = "CONFIG_FILE")]
    pub(crate) file: Option<PathBuf>,
    /// The pgweir with this process id
    #[arg(long, value_name = "PID", value_parser = pid)]
    pub(crate) pid: Option<u32>,
    /// The pgweir whose process id this file has
    #[arg(long, value_name = "FILE")]
    pub(crate) pid_file: Option<PathBuf>,
    /// All backends of the PostgreSQL at this URL, on this machine
    #[arg(long, value_name = "URL")]
    pub(crate) postgres: Option<String>,
    /// With --postgres: those backends that wait for this event at the
    /// moment of the sample, as pg_stat_activity has it, such as
    /// LWLock:BufferMapping or Lock:tuple; a class alone, such as IO, is
    /// any event of it
    #[arg(long, value_name = "EVENT", verbatim_doc_comment)]
    pub(crate) waiting: Option<String>,
    /// The backend of PostgreSQL with this process id
    #[arg(long, value_name = "PID", value_parser = pid)]
    pub(crate) backend: Option<u32>,
    /// perf or gdb; perf where it can be used unless said otherwise, gdb
    /// for --waiting
    #[arg(long, value_name = "TOOL", value_parser = tool, verbatim_doc_comment)]
    pub(crate) by: Option<Tool>,
    /// How long; 10 seconds unless said otherwise
    #[arg(long, value_name = "N", value_parser = seconds)]
    pub(crate) seconds: Option<u32>,
    /// Samples a second: 49 of each process by perf, 2 of all together by
    /// gdb, unless said otherwise
    #[arg(long, value_name = "N", value_parser = rate, verbatim_doc_comment)]
    pub(crate) rate: Option<u32>,
    /// How long gdb may stop a process for one sample, in seconds; 2 unless
    /// said otherwise. A sample that takes longer ends the profile
    #[arg(long, value_name = "N", value_parser = pause, verbatim_doc_comment)]
    pub(crate) pause_max: Option<u32>,
    /// Let gdb stop processes
    #[arg(long)]
    pub(crate) yes: bool,
    /// Where the flame graph goes; profile.svg unless said otherwise, - is
    /// stdout
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pub(crate) svg: Option<PathBuf>,
    /// Write the stacks as text, too, a line each; - is stdout. Without
    /// --svg there is no picture then
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pub(crate) folded: Option<PathBuf>,
}

impl Look {
    /// Exactly one.
    pub(super) fn looked(&self) -> Result<Looked, Misuse> {
        let all = [
            self.file.clone().map(Looked::File),
            self.pid.map(Looked::Pooler),
            self.pid_file.clone().map(Looked::PidFile),
            self.postgres.clone().map(|url| Looked::Backends { url, event: self.waiting.clone() }),
            self.backend.map(Looked::Backend),
        ];
        let mut given = all.into_iter().flatten();
        let wrong = |text: &str| Err(Misuse::of("profile", text.to_owned()));
        match (given.next(), given.next()) {
            (None, _) => wrong("profile needs a configuration file, --pid, --pid-file, --postgres or --backend"),
            (_, Some(_)) => {
                wrong("profile looks at one: a configuration file, --pid, --pid-file, --postgres or --backend")
            }
            (Some(Looked::Backends { url, event }), None) => Ok(Looked::Backends { url, event }),
            (Some(_), None) if self.waiting.is_some() => wrong("--waiting needs --postgres"),
            (Some(looked), None) => Ok(looked),
        }
    }
}

fn pid(text: &str) -> Result<u32, String> {
    let number = text.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
    number.ok_or_else(|| "a process id is a number from 1".to_owned())
}

fn tool(text: &str) -> Result<Tool, String> {
    let tool = [Tool::Perf, Tool::Gdb].into_iter().find(|tool| tool.as_str() == text);
    tool.ok_or_else(|| "perf or gdb is needed".to_owned())
}

fn seconds(text: &str) -> Result<u32, String> {
    within(text, SECONDS_MAX)
}

fn rate(text: &str) -> Result<u32, String> {
    within(text, PERF_RATE_MAX)
}

fn pause(text: &str) -> Result<u32, String> {
    // Nobody waits longer for a backend.
    within(text, 60)
}

fn within(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("a number from 1 to {most} is needed"))
}

impl Look {
    /// Samples a second by a tool.
    ///
    /// # Errors
    /// More than gdb may take.
    pub(crate) fn rate(&self, tool: Tool) -> Result<u32, String> {
        match (tool, self.rate) {
            (Tool::Gdb, Some(rate)) if rate > GDB_RATE_MAX => {
                Err(format!("--rate {rate} is too much for gdb: at most {GDB_RATE_MAX} a second"))
            }
            (_, Some(rate)) => Ok(rate),
            (Tool::Perf, None) => Ok(49),
            (Tool::Gdb, None) => Ok(2),
        }
    }
}
