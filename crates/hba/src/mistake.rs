//! What is wrong with a file: where it stands, what was found there and what was expected.

use std::fmt;

/// At most this many are kept of one load: more are rarely read.
pub(crate) const MISTAKES_MAX: usize = 100;
/// Longest piece of the user's text that a message repeats, in characters.
const QUOTED_CHARS_MAX: usize = 60;

/// One message. `Display` gives `file:line: found X, expected Y`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    pub file: String,
    /// Counted from 1; of a continued line its first one. 0 means the file as a whole.
    pub line: u32,
    /// What is quoted from the file is in quotes already, without control characters, and cut.
    pub found: String,
    pub expected: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mistake { file, line, found, expected } = self;
        write!(f, "{}:{line}: found {found}, expected {expected}", clean(file))
    }
}

/// What is wrong with some words, wherever they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub(crate) found: String,
    pub(crate) expected: String,
}

impl Wrong {
    pub(crate) fn new(found: impl Into<String>, expected: impl Into<String>) -> Wrong {
        Wrong { found: found.into(), expected: expected.into() }
    }

    pub(crate) fn at(self, file: &str, line: u32) -> Mistake {
        Mistake { file: file.to_owned(), line, found: self.found, expected: self.expected }
    }
}

/// The user's text as a message repeats it; `nothing` if empty.
pub(crate) fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS_MAX) {
        _ if text.is_empty() => "nothing".to_owned(),
        Some((end, _)) => format!("\"{}…\"", clean(&text[..end])),
        None => format!("\"{}\"", clean(text)),
    }
}

fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
