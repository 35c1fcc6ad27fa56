//! What is said of a command line that cannot be read: in the words of getopt_long(3), with what was probably meant.

use std::ffi::OsString;
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

use super::Invocation;

/// What is wrong with the command line, without the program's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Misuse {
    pub(crate) text: String,
    /// The command whose help says more.
    command: Option<String>,
}

impl Misuse {
    pub(super) fn new(text: String) -> Misuse {
        Misuse { text, command: None }
    }

    pub(super) fn of(command: &str, text: String) -> Misuse {
        Misuse { text, command: Some(command.to_owned()) }
    }

    /// What the user types to read more.
    pub(crate) fn help(&self, program: &str) -> String {
        match &self.command {
            Some(command) => format!("{program} help {command}"),
            None => format!("{program} --help"),
        }
    }
}

/// An answer to what clap did not take as a command line: what was asked to be printed, or what is wrong.
pub(super) fn answer(error: &Error, arguments: &[OsString], line: &Command) -> Result<Invocation, Misuse> {
    let words = arguments.iter().filter_map(|word| word.to_str());
    let first = words.clone().find(|word| !word.starts_with('-')).unwrap_or_default();
    let command = line.find_subcommand(first).map(|command| command.get_name().to_owned());
    let text = match error.kind() {
        ErrorKind::DisplayHelp => return Ok(Invocation::Help(error.to_string())),
        ErrorKind::DisplayVersion => return Ok(Invocation::Version),
        ErrorKind::UnknownArgument => {
            if let Some(misuse) = meant(Path::new(first)).filter(|_| command.is_none()) {
                return Err(misuse);
            }
            unknown(error, line)
        }
        ErrorKind::InvalidSubcommand => format!("there is no command {}", invalid(error)),
        ErrorKind::MissingRequiredArgument => match command.as_deref() {
            Some(name @ ("auth-setup" | "observe-setup")) => {
                format!("{name} needs a URL, as in {name} 'postgres://user@host/db'")
            }
            Some(name) => format!("{name} needs a configuration file"),
            None => "check needs a configuration file".to_owned(),
        },
        _ => paragraph(error),
    };
    Err(Misuse { text, command })
}

/// An option, or a word too many.
fn unknown(error: &Error, line: &Command) -> String {
    let option = invalid(error);
    let Some(long) = option.strip_prefix("--") else {
        return match option.strip_prefix('-') {
            Some(letter) => format!("invalid option -- '{letter}'"),
            None => format!("one argument too many: {option}"),
        };
    };
    let has_it = |command: &&Command| command.get_arguments().any(|arg| arg.get_long() == Some(long));
    let whose: Vec<String> =
        line.get_subcommands().filter(has_it).map(|command| format!("\"{}\"", command.get_name())).collect();
    if !whose.is_empty() {
        return format!("{option} is for {} only", whose.join(" and "));
    }
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(near)) => format!("unrecognized option '{option}'; did you mean '{near}'?"),
        _ => format!("unrecognized option '{option}'"),
    }
}

fn invalid(error: &Error) -> String {
    let found = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand].into_iter().find_map(|kind| error.get(kind));
    found.map(ToString::to_string).unwrap_or_default()
}

/// What clap says, without its "error:" and its advice.
fn paragraph(error: &Error) -> String {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.trim().trim_start_matches("error: ").to_owned()
}

/// The command that a word was probably meant to be. A name with a dot or a slash is a file's.
pub(crate) fn meant(word: &Path) -> Option<Misuse> {
    let word = word.to_str().filter(|word| !word.is_empty() && !word.contains(['.', '/']))?;
    // clap knows what is near where there is nothing else that a word could be.
    let commands = [
        "run",
        "dev",
        "bench",
        "auth-setup",
        "observe-setup",
        "check",
        "import",
        "health",
        "doctor",
        "profile",
        "top",
        "report",
        "help",
    ]
    .map(Command::new);
    let strict = Command::new("pgweir").disable_help_subcommand(true).subcommands(commands);
    let error = strict.try_get_matches_from(["pgweir", word]).err()?;
    let near = match error.get(ContextKind::SuggestedSubcommand)? {
        ContextValue::String(near) => near.clone(),
        ContextValue::Strings(near) => near.last()?.clone(),
        _ => return None,
    };
    Some(Misuse::new(format!("unrecognized command '{word}'; did you mean '{near}'?")))
}
