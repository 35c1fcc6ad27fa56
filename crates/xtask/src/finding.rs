//! One place where the tree breaks a rule, as a line that editors can follow.

use std::fmt;

/// One place where the tree breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// What is there.
    pub(crate) what: String,
    /// What the rule is.
    pub(crate) rule: &'static str,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>, rule: &'static str) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into(), rule }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.path, self.line, self.what, self.rule)
    }
}
