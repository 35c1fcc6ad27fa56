//! What can go wrong, in words that say what to do next.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why there is no PostgreSQL to work with, or why it did not do what was asked.
#[derive(Debug)]
pub enum Error {
    /// No directory with `initdb` and `postgres` side by side; `looked` lists where we looked.
    NotFound { looked: Vec<String> },
    /// Every way to install one failed; `tried` has one line a way.
    NotInstalled { tried: Vec<String> },
    /// A program failed: its name and what it wrote.
    Program { name: String, wrote: String },
    /// The data directory cannot be used, and why.
    Data { path: PathBuf, why: String },
    /// PostgreSQL ended or stayed silent instead of serving; `log` is the tail of its log.
    NotServing { why: String, log: String },
    /// PostgreSQL answered a statement with an error.
    Refused { sqlstate: String, message: String },
    /// The operating system refused something.
    System { doing: String, source: io::Error },
}

impl Error {
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::System { doing, source }
    }

    pub(crate) fn data(path: &Path, why: impl Into<String>) -> Self {
        Self::Data { path: path.to_owned(), why: why.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { looked } => write!(
                f,
                "found no PostgreSQL (initdb and postgres side by side); looked in {}. \
                 Set PGWEIR_PG_BIN to such a directory, or install one: on Debian `apt-get install postgresql`",
                looked.join(", ")
            ),
            Self::NotInstalled { tried } => write!(
                f,
                "could not install PostgreSQL:\n  {}\nInstall it yourself (on Debian `apt-get install postgresql`) \
                 or set PGWEIR_PG_BIN to a directory with initdb and postgres",
                tried.join("\n  ")
            ),
            Self::Program { name, wrote } => write!(f, "{name} failed: {}", wrote.trim()),
            Self::Data { path, why } => write!(f, "data directory {}: {why}", path.display()),
            Self::NotServing { why, log } => write!(f, "PostgreSQL does not serve: {why}; its log ends with:\n{log}"),
            Self::Refused { sqlstate, message } => write!(f, "PostgreSQL says {sqlstate}: {message}"),
            Self::System { doing, source } => write!(f, "{doing}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::System { source, .. } => Some(source),
            _ => None,
        }
    }
}
