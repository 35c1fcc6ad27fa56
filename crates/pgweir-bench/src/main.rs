//! The program beside pgweir, for trying things: `pgweir dev` and `pgweir bench` start it.
//!
//! ```text
//!   pgweir dev|bench … ─ exec ─► this program ─┬─► dev     demo PostgreSQL + a pgweir with a file
//!                                              └─► bench   trials: the published tests, with pgweir as a child
//! ```
//!
//! This is a separate program so that pgweir, which holds passwords and keys, has none of this code in it. Promises that the pgweir it runs
//! is of its own version, and that no password is on a command line of its own making.

mod bench;
mod dev;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use programs::Errand;
use programs::companion::{self, PGWEIR};

/// As pgweir has it: what makes load should not wait for memory either.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Has the commands "dev" and "bench" of pgweir, which starts this program for them.
#[derive(Parser)]
#[command(name = "pgweir-bench", version)]
struct Line {
    /// The pgweir that is run; the one beside this program, or on PATH,
    /// unless given
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pgweir: Option<PathBuf>,
    /// A file that has the URL of "bench", so that no command line has it
    #[arg(long, value_name = "FILE")]
    url_from: Option<PathBuf>,
    #[command(subcommand)]
    errand: Errand,
}

fn main() -> ExitCode {
    // Before any file with secrets is read.
    programs::core_files::forbid();
    let Line { pgweir, url_from, errand } = Line::parse();
    // As the user calls it.
    let name = errand.name();
    match carry_out(pgweir, url_from.as_deref(), errand) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("pgweir {name}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(pgweir: Option<PathBuf>, url_from: Option<&Path>, errand: Errand) -> Result<(), String> {
    let pgweir = pgweir.map_or_else(|| companion::find(PGWEIR), Ok)?;
    companion::agree(&pgweir)?;
    match errand {
        Errand::Dev(dev) => dev::dev(&pgweir, dev),
        Errand::Bench(mut bench) => {
            if let Some(path) = url_from {
                let read = std::fs::read_to_string(path);
                let url = read.map_err(|why| format!("cannot read the URL from {}: {why}", path.display()))?;
                bench.url = Some(url.trim_end().to_owned());
            }
            bench::bench(pgweir, bench)
        }
    }
}

/// The directory for a PostgreSQL that had to be downloaded.
fn cache() -> PathBuf {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    variable("XDG_CACHE_HOME")
        .or_else(|| variable("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("pgweir")
}
