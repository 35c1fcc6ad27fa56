//! `pgweir check FILE`: on stdout what a file means, with mistakes what it would mean without them, and on stderr what is wrong with it.
//! `pgweir import FILE`: what a sound file means, with how pgweir differs from PgBouncer.

use std::path::Path;
use std::process::ExitCode;

use config::{Config, Problem, Severity};

use crate::{complain, settings, startable};

/// Status 0 if a process with the file would start on this machine, warnings or not; 1 if not.
pub(crate) fn check(file: &Path, cores: u16) -> ExitCode {
    say(file, cores, |config, is_refused| {
        let heading = if is_refused { "Without its mistakes the file means:\n\n" } else { "" };
        format!("{heading}{}", config::explain(config))
    })
}

/// As [`check`], and nothing on stdout if the file has a mistake.
pub(crate) fn import(file: &Path, cores: u16) -> ExitCode {
    say(file, cores, |config, is_refused| if is_refused { String::new() } else { config::import(config) })
}

/// `words`: of what the file means, and whether it is refused.
fn say(file: &Path, cores: u16, words: fn(&Config, bool) -> String) -> ExitCode {
    let (config, mut problems) = settings::load_without_mistakes(file, cores);
    if let Some(config) = config {
        problems.extend(startable::problems(&config));
        print!("{}", words(&config, is_refused(&problems)));
    }
    print_problems(&problems);
    if is_refused(&problems) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn is_refused(problems: &[Problem]) -> bool {
    problems.iter().any(|problem| problem.severity == Severity::Error)
}

fn print_problems(problems: &[Problem]) {
    for problem in problems {
        let text = complain::without_passwords(&problem.to_string());
        eprintln!("{}: {text}", problem.severity.as_str());
    }
}
