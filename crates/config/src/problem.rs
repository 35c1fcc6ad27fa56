//! What is wrong with the user's words: where it stands, what was found there and what was expected.
//!
//! Promises that every message fits on one line and never repeats a password. Does not decide what to do about it:
//! an error keeps a file from being loaded, a warning does not.

use std::borrow::Cow;
use std::fmt;

/// At most this many are kept of one load: more are rarely read.
pub const PROBLEMS_MAX: usize = 100;

/// Longest piece of the user's text that a message repeats, in characters.
const QUOTED_CHARS_MAX: usize = 60;

/// Longest key that a message names, in characters: room for a section, a long name and a parameter.
const KEY_CHARS_MAX: usize = 200;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file must not be used.
    Error,
    /// The file can be used, but something in it has no effect or not the effect that its words suggest.
    Warning,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

/// A file and a line in it. Line 0 means the file as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    /// Counted from 1.
    pub line: u32,
}

/// One message. `Display` gives `file:line: key: found X, expected Y`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    /// Counted from 1; 0 means the file as a whole.
    pub line: u32,
    /// The setting, or for an entry of a section `databases.name.parameter`.
    pub key: Option<String>,
    /// What stands there; what is quoted from the file is in quotes already.
    pub found: String,
    pub expected: String,
    pub severity: Severity,
}

impl Problem {
    #[must_use]
    pub(crate) fn error(place: &Place, key: &str, found: String, expected: String) -> Problem {
        Problem {
            file: place.file.clone(),
            line: place.line,
            key: (!key.is_empty()).then(|| key.to_owned()),
            found,
            expected,
            severity: Severity::Error,
        }
    }

    #[must_use]
    pub(crate) fn warning(place: &Place, key: &str, found: String, expected: String) -> Problem {
        Problem { severity: Severity::Warning, ..Problem::error(place, key, found, expected) }
    }

    /// What is wrong with a variable of the environment.
    #[must_use]
    pub fn of_variable(name: &str, found: &str, expected: &str) -> Problem {
        Problem::error(&Place::default(), name, found.to_owned(), expected.to_owned())
    }

    /// A name that nothing is called by, with the nearest one that exists.
    #[must_use]
    pub(crate) fn unknown(place: &Place, key: &str, what: &str, known: &[&str]) -> Problem {
        let expected = match settings::nearest(key.rsplit('.').next().unwrap_or(key), known) {
            Some(name) => format!("{what}; did you mean {name}?"),
            None => what.to_owned(),
        };
        Problem::error(place, key, "an unknown name".to_owned(), expected)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            f.write_str(&clean(&self.file))?;
            if self.line > 0 {
                write!(f, ":{}", self.line)?;
            }
            f.write_str(": ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{}: ", shown(key, KEY_CHARS_MAX))?;
        }
        write!(f, "found {}, expected {}", self.found, self.expected)
    }
}

/// The user's text as a message repeats it: in quotes, without control characters, cut if long; `nothing` if empty. The user
/// and the password of a URL are left out.
#[must_use]
pub fn quoted(text: &str) -> String {
    if text.is_empty() {
        return "nothing".to_owned();
    }
    format!("\"{}\"", shown(&without_login(text), QUOTED_CHARS_MAX))
}

/// Leaves out the text between `://` and the last `@`. A password in it may contain any character.
fn without_login(text: &str) -> Cow<'_, str> {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(end)) if scheme < end => Cow::Owned(format!("{}://…{}", &text[..scheme], &text[end..])),
        _ => Cow::Borrowed(text),
    }
}

/// Without control characters, which would speak to the terminal, and cut if long.
fn shown(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", clean(&text[..end])),
        None => clean(text),
    }
}

/// The text with a `?` for each control character, ends of lines too.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_repeated_without_its_password() {
        let table = [
            ("http://u:secret@collector/v1", "\"http://…@collector/v1\""),
            ("postgres://u:se/c@ret@h/d", "\"postgres://…@h/d\""),
            ("a=postgres://u:secret@h, postgres://u:secret@h", "\"a=postgres://…@h\""),
            ("http://collector/v1", "\"http://collector/v1\""),
            ("ann@example.org", "\"ann@example.org\""),
        ];
        for (text, expected) in table {
            assert_eq!(quoted(text), expected);
        }
    }

    /// Found by fuzzing: names of sections, keys and files were shown as they are.
    #[test]
    fn no_part_of_a_message_speaks_to_the_terminal() {
        let place = Place { file: "a\x1b[2J.ini".to_owned(), line: 3 };
        let problem = Problem::error(&place, "[\0\x07\r]", quoted("\x1b"), "a name".to_owned());
        assert_eq!(problem.to_string(), "a?[2J.ini:3: [???]: found \"?\", expected a name");
    }

    #[test]
    fn a_long_name_is_cut() {
        let problem = Problem::error(&Place::default(), &"é".repeat(1000), quoted("x"), "a name".to_owned());
        assert_eq!(problem.to_string(), format!("{}…: found \"x\", expected a name", "é".repeat(200)));
    }
}
