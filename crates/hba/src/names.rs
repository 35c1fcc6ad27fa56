//! The databases and users of a rule, and the users of a map.
//!
//! What would need the roles of a server (`+group`, samerole) is refused: a pooler knows of users, not of their groups.

use std::collections::BTreeSet;

use crate::mistake::{Wrong, quoted};
use crate::pattern::Pattern;
use crate::text::Word;

/// Regular expressions of one load: each takes up to a megabyte.
const PATTERNS_MAX: usize = 100;

/// How many regular expressions a load may still have.
#[derive(Debug)]
pub(crate) struct Budget(usize);

impl Default for Budget {
    fn default() -> Budget {
        Budget(PATTERNS_MAX)
    }
}

impl Budget {
    pub(crate) fn pattern(&mut self, text: &str) -> Result<Pattern, Wrong> {
        let Some(left) = self.0.checked_sub(1) else {
            return Err(Wrong::new("one more regular expression", format!("at most {PATTERNS_MAX}")));
        };
        self.0 = left;
        Pattern::new(text)
    }
}

/// Names by themselves and by what they match.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Names {
    all: bool,
    /// Of databases: that of the user's name.
    same_user: bool,
    /// Of databases: a connection for replication that names none.
    replication: bool,
    exact: BTreeSet<String>,
    patterns: Vec<Pattern>,
}

impl Names {
    pub(crate) fn databases(words: Vec<Word>, budget: &mut Budget) -> Result<Names, Wrong> {
        let mut names = Names::default();
        for word in words {
            match word.text.as_str() {
                "sameuser" if !word.has_quotes => names.same_user = true,
                "replication" if !word.has_quotes => names.replication = true,
                "samerole" | "samegroup" if !word.has_quotes => {
                    let expected =
                        "sameuser, or names of databases: which roles a user has is known to the server only";
                    return Err(Wrong::new(word.text, expected));
                }
                _ => names.add(word, budget)?,
            }
        }
        Ok(names)
    }

    pub(crate) fn users(words: Vec<Word>, budget: &mut Budget) -> Result<Names, Wrong> {
        let mut names = Names::default();
        for word in words {
            if word.text.starts_with('+') && !word.has_quotes {
                let expected =
                    "names of users, or @ and a file that lists them: who is in a group is known to the server only";
                return Err(Wrong::new(quoted(&word.text), expected));
            }
            names.add(word, budget)?;
        }
        Ok(names)
    }

    fn add(&mut self, word: Word, budget: &mut Budget) -> Result<(), Wrong> {
        if word.is_keyword("all") {
            self.all = true;
        } else if let Some(text) = word.text.strip_prefix('/') {
            self.patterns.push(budget.pattern(text)?);
        } else {
            self.exact.insert(word.text);
        }
        Ok(())
    }

    pub(crate) fn has_user(&self, user: &str) -> bool {
        self.all || self.exact.contains(user) || self.patterns.iter().any(|pattern| pattern.matches(user))
    }

    /// Replication without a database has no name that could match.
    pub(crate) fn has_database(&self, database: &str, user: &str, is_replication: bool) -> bool {
        if is_replication {
            return self.replication;
        }
        self.has_user(database) || self.same_user && database == user
    }
}
