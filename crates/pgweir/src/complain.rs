//! What is said before there is a log: lines on stderr in the log's shape, and what is wrong with a file.
//!
//! Ends with a status, because whoever complains here does not go on.

use std::io;
use std::process::ExitCode;

use config::{Problem, Severity};
use engine::{Log, LogOptions};
use jiff::Zoned;
use machine::Level;

use crate::identity;

/// Exit status of everything that went wrong, as PgBouncer's.
const FAILURE: u8 = 1;

/// What `-q` leaves out.
const WARNING: &str = "WARNING";

/// One line in the log's shape. With `-q` no warnings: an error that keeps the program from starting is said nowhere else.
pub(crate) fn line(quiet: bool, level: &str, text: &str) {
    if quiet && level == WARNING {
        return;
    }
    let now = Zoned::now().strftime("%Y-%m-%d %H:%M:%S%.3f %Z").to_string();
    eprintln!("{now} [{}] {level} {}", std::process::id(), without_passwords(text));
}

/// Leaves out user and password of a URL that the message repeats, as `config::quoted` does: from the URL's slashes to the message's last `@`,
/// since a password may contain any character. The slashes may be mistyped.
pub(crate) fn without_passwords(text: &str) -> String {
    let is_scheme =
        |at: usize| !text[..at].ends_with(|before: char| before.is_alphanumeric() || "/._-".contains(before));
    let Some((scheme, _)) = text.match_indices("postgres").find(|(at, _)| is_scheme(*at)) else {
        return text.to_owned();
    };
    let behind = text[scheme..].trim_start_matches("postgres").trim_start_matches("ql");
    let login = text.len() - behind.trim_start_matches([':', '/']).len();
    match text.rfind('@') {
        Some(host) if login < host && behind.starts_with([':', '/']) && text[login..host].contains(':') => {
            format!("{}…{}", &text[..login], &text[host..])
        }
        _ => text.to_owned(),
    }
}

/// The last line before the end.
pub(crate) fn fatal(text: &str) -> ExitCode {
    line(false, "FATAL", text);
    ExitCode::from(FAILURE)
}

/// The same, where the log is too: whoever starts a daemon does not see its stderr. Not as root, whose file the log could not be afterwards.
pub(crate) fn fatal_in_log(options: &LogOptions, text: &str) -> ExitCode {
    if !identity::is_root() {
        Log::say_once(&LogOptions { stderr: false, ..options.clone() }, Level::Fatal, text);
    }
    fatal(text)
}

/// A file that cannot be used: all that is wrong with it, then the end.
pub(crate) fn unusable(quiet: bool, problems: &[Problem]) -> ExitCode {
    list(quiet, problems);
    fatal("cannot load config file")
}

/// One line each.
pub(crate) fn list(quiet: bool, problems: &[Problem]) {
    for problem in problems {
        line(quiet, level(problem), &problem.to_string());
    }
}

/// The system's words for an error, without its number.
pub(crate) fn why(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

/// The same for a file that could not be read, and who has to be able to.
pub(crate) fn why_unread(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!("{}: user \"{}\" has to be able to read it", why(error), identity::own_name())
        }
        _ => why(error),
    }
}

/// How the log calls a problem.
pub(crate) fn level(problem: &Problem) -> &'static str {
    match problem.severity {
        Severity::Error => "ERROR",
        Severity::Warning => WARNING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_named_without_its_password() {
        for (text, expected) in [
            ("postgres://u:secret@h/db", "postgres://…@h/db"),
            ("postgresql://u:se:cr/e@t@h:5432/db?x=1", "postgresql://…@h:5432/db?x=1"),
            ("postgres:/u:secret@h/db: no such file", "postgres:/…@h/db: no such file"),
            ("postgres//u:secret@h", "postgres//…@h"),
            ("could not load file \"postgres://u:se cr\"et@h\": why", "could not load file \"postgres://…@h\": why"),
            ("postgres://u:secret@h, postgres://v:other@i", "postgres://…@i"),
            ("postgres://u@h:5432/db", "postgres://u@h:5432/db"),
            ("postgres://h:5432/db", "postgres://h:5432/db"),
            ("could not find user 'postgres' to switch to", "could not find user 'postgres' to switch to"),
            ("/home/postgres/a.ini: found a:b@c", "/home/postgres/a.ini: found a:b@c"),
        ] {
            assert_eq!(without_passwords(text), expected, "{text}");
        }
    }
}
