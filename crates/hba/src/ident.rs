//! pg_ident.conf: which database users a system user may be, by the name of a map.
//!
//! ```text
//!   MAP  SYSTEM-USER          DATABASE-USER
//!   ops  /^(.*)@example\.org$ \1
//! ```
//!
//! //= pg18 auth-username-maps

use crate::Read;
use crate::address::only;
use crate::mistake::{MISTAKES_MAX, Mistake, Wrong, quoted};
use crate::names::{Budget, Names};
use crate::pattern::Pattern;
use crate::text::{self, Line, Word};

/// What stands for the first group of the system user's expression.
const GROUP: &str = "\\1";

#[derive(Clone, Debug, PartialEq)]
enum SystemUser {
    Exactly(String),
    Matching(Pattern),
}

#[derive(Clone, Debug, PartialEq)]
enum DatabaseUser {
    Names(Names),
    /// A name with the first group in its place.
    WithGroup {
        before: String,
        after: String,
    },
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    map: String,
    system: SystemUser,
    user: DatabaseUser,
}

/// All maps of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Maps(Vec<Entry>);

impl Maps {
    /// Whether a map lets a system user log in as a database user. Without a map the names must be the same.
    #[must_use]
    pub fn allow(&self, map: Option<&str>, system: &str, user: &str) -> bool {
        match map {
            None => system == user,
            Some(map) => self.0.iter().any(|entry| entry.map == map && entry.allows(system, user)),
        }
    }

    /// Whether there is a map of that name.
    #[must_use]
    pub fn has(&self, map: &str) -> bool {
        self.0.iter().any(|entry| entry.map == map)
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Entry {
    fn allows(&self, system: &str, user: &str) -> bool {
        let group = match &self.system {
            SystemUser::Exactly(name) if name == system => "",
            SystemUser::Exactly(_) => return false,
            SystemUser::Matching(pattern) => match pattern.first_group(system) {
                Some(group) => group,
                None => return false,
            },
        };
        match &self.user {
            DatabaseUser::Names(names) => names.has_user(user),
            // An empty name is nobody's.
            DatabaseUser::WithGroup { before, after } => {
                let rest = user.strip_prefix(before.as_str()).and_then(|rest| rest.strip_suffix(after.as_str()));
                !user.is_empty() && rest == Some(group)
            }
        }
    }

    fn read(line: Line, budget: &mut Budget) -> Result<Entry, Wrong> {
        let mut fields = line.fields.into_iter();
        let map = only(fields.next(), "the name of a map")?;
        let system = only(fields.next(), "a system user")?;
        let user = only(fields.next(), "a database user")?;
        if fields.next().is_some() {
            return Err(Wrong::new("more than three fields", "a map, a system user and a database user"));
        }
        let system = match system.text.strip_prefix('/') {
            Some(text) => SystemUser::Matching(budget.pattern(text)?),
            None => SystemUser::Exactly(system.text),
        };
        let user = database_user(user, &system, budget)?;
        Ok(Entry { map: map.text, system, user })
    }
}

fn database_user(word: Word, system: &SystemUser, budget: &mut Budget) -> Result<DatabaseUser, Wrong> {
    let has_meaning = word.text.starts_with('/') || word.text.starts_with('+') && !word.has_quotes;
    match (system, word.text.split_once(GROUP)) {
        (SystemUser::Matching(pattern), Some((before, after))) if !has_meaning => {
            if !pattern.has_group() {
                let expected = "a group in parentheses in the regular expression of the system user";
                return Err(Wrong::new(quoted(&word.text), expected));
            }
            Ok(DatabaseUser::WithGroup { before: before.to_owned(), after: after.to_owned() })
        }
        _ => Ok(DatabaseUser::Names(Names::users(vec![word], budget)?)),
    }
}

/// Reads the file and what it includes.
///
/// # Errors
/// All that is wrong with it, in the order of its lines.
pub fn read_maps(name: &str, read: &Read) -> Result<Maps, Vec<Mistake>> {
    let (lines, mut mistakes) = text::lines(name, read);
    let mut budget = Budget::default();
    let mut entries = Vec::new();
    for line in lines {
        let (file, number) = (line.file.clone(), line.number);
        match Entry::read(line, &mut budget) {
            Ok(entry) => entries.push(entry),
            Err(wrong) => mistakes.push(wrong.at(&file, number)),
        }
        if mistakes.len() >= MISTAKES_MAX {
            break;
        }
    }
    if mistakes.is_empty() { Ok(Maps(entries)) } else { Err(mistakes) }
}
