//! `pgweir check FILE`: what a file means on stdout, what is wrong with it on stderr. `pgweir import FILE`: the same, with how pgweir
//! differs from PgBouncer.

use std::path::Path;
use std::process::ExitCode;

use config::{Config, Problem};

use crate::settings;

/// Status 0 if the file can be used, warnings or not; 1 if not.
pub(crate) fn check(file: &Path, cores: u16) -> ExitCode {
    say(file, cores, config::explain)
}

/// As [`check`].
pub(crate) fn import(file: &Path, cores: u16) -> ExitCode {
    say(file, cores, config::import)
}

fn say(file: &Path, cores: u16, words: fn(&Config) -> String) -> ExitCode {
    match settings::load(file, cores) {
        Ok(config) => {
            print!("{}", words(&config));
            complain(&config.warnings);
            ExitCode::SUCCESS
        }
        Err(problems) => {
            complain(&problems);
            ExitCode::FAILURE
        }
    }
}

fn complain(problems: &[Problem]) {
    for problem in problems {
        eprintln!("{}: {problem}", problem.severity.as_str());
    }
}
