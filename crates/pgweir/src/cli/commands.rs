//! The arguments of `doctor`, `top` and `report`.

use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use programs::count;

use super::interval;

/// The arguments of `doctor`.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Examination {
    /// The pooler: its file, or its console's URL
    #[arg(value_name = "CONFIG_FILE|URL")]
    pub(crate) pooler: Option<String>,
    /// The PostgreSQL to look at, and one of its databases; the first that the
    /// file leads to unless given
    #[arg(long, value_name = "URL", verbatim_doc_comment)]
    pub(crate) postgres: Option<String>,
    /// Processes of the pooler with these settings, as pods; 1 unless said
    /// otherwise
    #[arg(long, value_name = "N", value_parser = count, verbatim_doc_comment)]
    pub(crate) replicas: Option<u32>,
    /// Cores of PostgreSQL's machine, if it is another one
    #[arg(long, value_name = "N", value_parser = count)]
    pub(crate) cores: Option<u32>,
    /// After how many seconds the application's clients give up
    #[arg(long, value_name = "S", value_parser = count)]
    pub(crate) client_timeout: Option<u32>,
    /// Transactions longer than so many seconds are long; 300 unless said
    /// otherwise
    #[arg(long, value_name = "S", value_parser = count, verbatim_doc_comment)]
    pub(crate) long: Option<u32>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The arguments of `top`.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Watching {
    /// The console's URL
    pub(crate) url: Option<String>,
    /// What is shown first: overview, pools, classes, waits, statements,
    /// holders, locks, clients
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    pub(crate) view: Option<String>,
    /// Which table of the view, by the name that its first line has; of
    /// waits: event, statement, pool, blocker, class, "tag NAME"
    #[arg(long, value_name = "NAME", verbatim_doc_comment)]
    pub(crate) table: Option<String>,
    /// Of waits: 15min, LAST 90s, or FROM '14:03' TO '14:04'; 5 minutes
    /// unless said otherwise
    #[arg(long, value_name = "SPAN", verbatim_doc_comment)]
    pub(crate) span: Option<String>,
    /// The column with the greatest first
    #[arg(long, value_name = "COLUMN")]
    pub(crate) sort: Option<String>,
    /// Only rows that have this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Seconds between two looks; 1 unless said otherwise
    #[arg(long, value_name = "S", value_parser = interval)]
    pub(crate) interval: Option<Duration>,
    /// Print the view as text, and end
    #[arg(long)]
    pub(crate) once: bool,
}

/// The options of `report`.
#[derive(clap::Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// The console to ask: postgres://USER@HOST:PORT/pgbouncer
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,
    /// The file of observe_file to read instead
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// From when on; five minutes before the end unless said otherwise
    #[arg(long, value_name = "TIME")]
    pub(crate) from: Option<String>,
    /// Until when; now unless said otherwise
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<String>,
    /// How it is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "html")]
    pub(crate) format: ReportFormat,
    /// Where to; standard output unless given
    #[arg(short, long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    #[default]
    Html,
    Csv,
    Json,
}
