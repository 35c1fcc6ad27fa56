//! Regular expressions, as far as PostgreSQL's and those of the crate `regex` mean the same.
//!
//! Promises that an expression that would mean something else here is refused. Matching takes time in the length of the
//! name, whatever the expression.
//!
//! //= pg18 functions-matching#POSIX-SYNTAX-DETAILS

use std::fmt;

use regex::{Regex, RegexBuilder};

use crate::mistake::{Wrong, quoted};

/// Compiled.
const BYTES_MAX: usize = 1 << 20;
const LEN_MAX: usize = 1024;

#[derive(Clone)]
pub(crate) struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.as_str())
    }
}

impl Pattern {
    /// The expression behind the slash.
    pub(crate) fn new(text: &str) -> Result<Pattern, Wrong> {
        let wrong = |expected: String| Wrong::new(quoted(&format!("/{text}")), expected);
        if text.len() > LEN_MAX {
            return Err(wrong(format!("a regular expression of at most {LEN_MAX} bytes")));
        }
        if let Some(odd) = otherwise_in_postgresql(text) {
            return Err(wrong(format!("a regular expression without {odd}")));
        }
        let built = RegexBuilder::new(text).dot_matches_new_line(true).size_limit(BYTES_MAX).nest_limit(50).build();
        built.map(Pattern).map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => wrong("a smaller regular expression".to_owned()),
            _ => wrong("a regular expression".to_owned()),
        })
    }

    /// Anywhere in the name, unless the expression has anchors.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }

    /// Whether it matches, and what its first group has then; an optional group may have nothing.
    pub(crate) fn first_group<'a>(&self, name: &'a str) -> Option<&'a str> {
        let captures = self.0.captures(name)?;
        Some(captures.get(1).map_or("", |group| group.as_str()))
    }

    pub(crate) fn has_group(&self) -> bool {
        self.0.captures_len() > 1
    }
}

/// What has another meaning there, or none.
fn otherwise_in_postgresql(text: &str) -> Option<&'static str> {
    let mut rest = text.strip_prefix("(?i)").unwrap_or(text);
    if rest.starts_with("***") {
        return Some("*** at its beginning");
    }
    let mut in_brackets = false;
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let escaped = after.chars().next();
                let is_same = |c: char| "dDwWsStnrfv".contains(c) || c.is_ascii_punctuation() && !"<>".contains(c);
                if !escaped.is_some_and(is_same) {
                    return Some(
                        "escapes other than \\d \\w \\s \\D \\W \\S \\t \\n \\r \\f \\v and a backslash before punctuation",
                    );
                }
                rest = &after[1..];
                continue;
            }
            '(' if !in_brackets && after.starts_with('?') && !after.starts_with("?:") => {
                return Some("(? other than (?: and, at its beginning, (?i)");
            }
            '[' if in_brackets => {
                let class = after.strip_prefix(':').and_then(|name| name.split_once(":]"));
                let Some((_, after)) = class else { return Some("[ within brackets, but for classes like [:digit:]") };
                rest = after;
                continue;
            }
            '[' => {
                in_brackets = true;
                // There a closing bracket stands for itself.
                let after = after.strip_prefix('^').unwrap_or(after);
                rest = after.strip_prefix(']').unwrap_or(after);
                continue;
            }
            ']' => in_brackets = false,
            '&' | '-' | '~' if in_brackets && after.starts_with(c) => return Some("&&, -- or ~~ within brackets"),
            _ => {}
        }
        rest = after;
    }
    None
}
