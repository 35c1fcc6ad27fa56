//! What the user asks for.

use std::path::PathBuf;

use ask::Target;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// `None`: an embedded PostgreSQL.
    pub target: Option<Target>,
    /// Names of tests, or what they begin with; all if empty.
    pub only: Vec<String>,
    pub rounds: u32,
    /// 100,000 accounts each.
    pub scale: u32,
    pub quick: bool,
    /// Of the embedded PostgreSQL.
    pub fsync: bool,
    /// Bytes that a control group leaves to this program and its children; `None`: there is no limit.
    pub memory_limit: Option<u64>,
    /// Where the record goes; `None`: a new directory here.
    pub out: Option<PathBuf>,
    /// Where an installed PostgreSQL is kept.
    pub cache: PathBuf,
    /// The pgweir that takes part, and its version.
    pub pgweir: PathBuf,
    pub version: String,
}
