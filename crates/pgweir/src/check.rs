//! `pgweir check FILE`: what a file means on stdout, what is wrong with it on stderr. `pgweir import FILE`: the same, with how pgweir
//! differs from PgBouncer.

use std::path::Path;
use std::process::ExitCode;

use config::{Config, Problem};

use crate::{settings, startable};

/// Status 0 if a process with the file would start on this machine, warnings or not; 1 if not.
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
            let refused = startable::problems(&config);
            if refused.is_empty() {
                print!("{}", words(&config));
            }
            complain(&refused);
            complain(&config.warnings);
            if refused.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
