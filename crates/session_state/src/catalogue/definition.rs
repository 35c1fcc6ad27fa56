//! A definition that a client makes, as it is announced to every pool of its database: CREATE FUNCTION, ALTER TABLE, DO.
//!
//! A pool that learns of it suspects the texts that meet what was defined, until the pool has read the catalogue anew. The
//! names in the text are sent along and not its side effects: each pool knows best what they do.
//!
//! Does not do: telling DROP, GRANT or COMMENT apart from nothing. They add no side effects.

use std::collections::BTreeSet;
use std::sync::Arc;

use sql::{Rules, Summary, Text, Word};
use units::{ConnId, Time, WorkerId};

use super::statement::StatementWords;
use super::{Known, SideEffects};

/// What is defined, and by which server's transaction.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    /// The database's name at its server. Its address has no say: one server has many.
    pub database: Box<str>,
    /// Its transaction may go on until the mail `Settled` names it.
    pub server: ConnId,
    pub what: What,
}

/// A definition that its session has not sent yet.
#[derive(Debug)]
pub struct Announcement {
    pub definition: Arc<Definition>,
    /// Workers that have not noted it yet.
    pub missing: BTreeSet<WorkerId>,
}

#[derive(Debug, PartialEq, Eq)]
pub enum What {
    Text(Texts),
    /// Nobody knows what: every text is suspect.
    Anything,
    /// A table or the like, of which nobody has read the text: the next poll tells whether it has side effects.
    Relation,
}

/// What a command tag tells of a definition whose text nobody has read. `None`: it is not one, or has no side effects.
#[cold]
pub fn of_tag(tag: &[u8]) -> Option<What> {
    const RELATIONS: [&[u8]; 4] = [b"TABLE", b"INDEX", b"SEQUENCE", b"FOREIGN TABLE"];
    #[rustfmt::skip]
    const CODE: [&[u8]; 21] = [
        b"AGGREGATE", b"CAST", b"CONVERSION", b"DOMAIN", b"EVENT TRIGGER", b"EXTENSION", b"FUNCTION", b"LANGUAGE",
        b"MATERIALIZED VIEW", b"OPERATOR", b"OPERATOR CLASS", b"OPERATOR FAMILY", b"POLICY", b"PROCEDURE", b"ROUTINE", b"RULE",
        b"SCHEMA", b"TRANSFORM", b"TRIGGER", b"TYPE", b"VIEW",
    ];
    let tag = tag.strip_suffix(b"\0").unwrap_or(tag);
    let object = tag.strip_prefix(b"CREATE ").or_else(|| tag.strip_prefix(b"ALTER "))?;
    match object {
        _ if CODE.contains(&object) => Some(What::Anything),
        _ if RELATIONS.contains(&object) => Some(What::Relation),
        _ => None,
    }
}

/// The texts of statements as a client sends them: read once, whatever number of pools learn of them.
#[derive(Debug, PartialEq, Eq)]
pub struct Texts {
    source: Box<[u8]>,
    rules: Rules,
    /// Those that define something.
    pub(super) statements: Box<[StatementWords]>,
    /// All names in them, in order.
    pub(super) mentioned: Arc<[Word]>,
    /// What they do by themselves, without the side effects of what they name.
    pub(super) side_effects: SideEffects,
    pub(super) is_extension: bool,
    pub(super) others_see: bool,
}

impl What {
    pub fn read(source: &[u8], rules: Rules) -> What {
        let text = Text::new(source, rules);
        // One by one: a table that is made beside a function says nothing of the function.
        let statements = text.statements().map(|statement| statement.source).filter(|source| !is_drop(source));
        let statements: Box<[StatementWords]> = statements.map(|source| StatementWords::read(source, rules)).collect();
        let mut mentioned: Vec<Word> = statements.iter().flat_map(|statement| &statement.mentioned).copied().collect();
        mentioned.sort_unstable();
        mentioned.dedup();
        let side_effects = statements
            .iter()
            .fold(SideEffects::NONE, |sum, statement| sum | statement.side_effects | statement.certain);
        What::Text(Texts {
            source: source.into(),
            rules,
            side_effects,
            is_extension: statements.iter().any(|statement| statement.is_extension),
            others_see: statements.iter().any(|statement| statement.others_see),
            mentioned: mentioned.into(),
            statements,
        })
    }

    /// Whether it was read from this text, by these rules.
    pub fn is_of(&self, source: &[u8], rules: Rules) -> bool {
        matches!(self, What::Text(texts) if texts.rules == rules && *texts.source == *source)
    }
}

impl Known {
    /// A definition is about to be sent, or was, by a server of this database. Whether it may have side effects: then other pools
    /// of the database are to know it, too.
    pub fn learn(&mut self, what: &What, server: ConnId, now: Time) -> bool {
        match what {
            What::Anything => {
                self.doubt(server, now);
                true
            }
            What::Relation => {
                self.query_soon(now);
                true
            }
            What::Text(texts) => self.is_blank() | self.learn_texts(texts, server, now),
        }
    }
}

/// What is dropped has no side effects, and clients with temporary tables drop them all the time.
fn is_drop(statement: &[u8]) -> bool {
    let words = Summary::of(&Text::new(statement.trim_ascii_start().get(..5).unwrap_or_default(), Rules::default()));
    words.words().iter().any(|word| word.name() == Word::of(b"drop"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_show_definitions_with_side_effects() {
        let of = |tag: &str| of_tag(format!("{tag}\0").as_bytes());
        for tag in ["CREATE FUNCTION", "ALTER VIEW", "CREATE EVENT TRIGGER", "CREATE EXTENSION"] {
            assert_eq!(of(tag), Some(What::Anything), "{tag}");
        }
        for tag in ["CREATE TABLE", "ALTER TABLE", "CREATE INDEX"] {
            assert_eq!(of(tag), Some(What::Relation), "{tag}");
        }
        for tag in ["COMMIT", "COPY 5", "CREATE ROLE", "CREATE DATABASE", "DROP FUNCTION", "ALTER SYSTEM", "SELECT 1"] {
            assert_eq!(of(tag), None, "{tag}");
        }
    }
}
