//! `pgweir bench`: from the command line to the published tests (`trials`), on the user's PostgreSQL or on an embedded one.

use std::path::PathBuf;

use programs::{Bench, companion, memory, url};
use trials::Options;

/// How often the contestants take turns without `--rounds` and `--quick`.
const ROUNDS: u32 = 3;
/// Without `--scale`, as large as a small machine can make within a minute: 10 million rows.
const SCALE: u32 = 100;

/// Runs the tests.
///
/// # Errors
/// What is wrong with the URL, or what ended the run.
pub(crate) fn bench(pgweir: PathBuf, Bench { url, wishes }: Bench) -> Result<(), String> {
    let target = url.as_deref().map(url::target).transpose()?;
    let rounds = if wishes.quick { 1 } else { ROUNDS };
    trials::run(&Options {
        target,
        only: wishes.only,
        rounds: wishes.rounds.unwrap_or(rounds),
        scale: wishes.scale.unwrap_or(SCALE),
        quick: wishes.quick,
        fsync: !wishes.no_fsync,
        memory_limit: memory::limit(),
        out: wishes.out,
        cache: crate::cache(),
        pgweir,
        version: companion::VERSION.to_owned(),
    })
}
