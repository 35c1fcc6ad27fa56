//! A definition that a client makes, as it is told to every pool of its database: CREATE FUNCTION, ALTER TABLE, DO.
//!
//! A pool that is told of it suspects the texts that meet what was defined, until the pool has read the catalogue anew. The
//! text is sent along and not what it hides: each pool knows best what the names in it do.
//!
//! Does not do: telling DROP, GRANT or COMMENT apart from nothing. They add no side effects.

use sql::{Rules, Summary, Text, Word};

use super::Known;
use crate::id::ConnId;
use crate::time::Time;

/// What is defined, and by which server's transaction.
#[derive(Debug, PartialEq, Eq)]
pub struct Definition {
    /// The database's name at its server. Its address has no say: one server has many.
    pub(crate) database: Box<str>,
    /// Its transaction may go on until [`crate::Mail::Settled`] names it.
    pub(crate) server: ConnId,
    pub(crate) what: What,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// The texts of statements as a client sends them, and how they are read.
    Text { source: Box<[u8]>, rules: Rules },
    /// Nobody knows what: every text is suspect.
    Anything,
    /// A table or the like, of which nobody has read the text: the next poll tells whether it hides something.
    Relation,
}

/// What a command tag tells of a definition whose text nobody has read. `None`: it is not one, or hides nothing.
#[cold]
pub(crate) fn of_tag(tag: &[u8]) -> Option<What> {
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

/// Whether a text begins as CREATE FUNCTION does: nothing but calls has to do with what it makes.
fn makes_routine(text: &[u8]) -> bool {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_ascii_lowercase);
    let mut words = words.take(4).skip_while(|word| matches!(&word[..], b"create" | b"or" | b"replace"));
    words.next().is_some_and(|word| matches!(&word[..], b"function" | b"procedure" | b"aggregate"))
}

/// Whether a definition makes something that texts use without naming it: operators, casts, event triggers. Too much is found
/// rather than too little.
pub(super) fn has_no_name(text: &[u8]) -> bool {
    let text = text.to_ascii_lowercase();
    ["operator", "cast", "event"].iter().any(|word| text.windows(word.len()).any(|part| part == word.as_bytes()))
}

/// Whether what a statement makes is there for others too: it is no temporary table, which is made all the time, and no table
/// made by SELECT, which meets nothing.
pub(super) fn others_see(text: &[u8]) -> bool {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_ascii_lowercase);
    let words: Vec<Vec<u8>> = words.take(5).collect();
    let makes = words.first().is_some_and(|word| !matches!(&word[..], b"select" | b"with" | b"("));
    makes && !words.iter().any(|word| matches!(&word[..], b"temp" | b"temporary"))
}

impl Known {
    /// A definition is about to be sent, or was, by a server of this database. Whether it may hide something: then other pools
    /// of the database are to know it, too.
    pub(crate) fn learn(&mut self, what: &What, server: ConnId, now: Time) -> bool {
        let (source, rules) = match what {
            What::Text { source, rules } => (source, *rules),
            What::Anything => {
                self.doubt(server, now);
                return true;
            }
            What::Relation => {
                self.ask_soon(now);
                return true;
            }
        };
        // One by one: a table that is made beside a function says nothing of the function.
        let mut hides = self.is_blank();
        for statement in Text::new(source, rules).statements() {
            let source = statement.source;
            if is_drop(source) {
                continue;
            }
            let summary = Summary::of(&Text::new(source, rules));
            hides |= self.define(source, summary.words(), makes_routine(source), server, now);
        }
        hides
    }
}

/// What is gone hides nothing, and whoever has temporary tables drops them all the time.
fn is_drop(statement: &[u8]) -> bool {
    let words = Summary::of(&Text::new(statement.trim_ascii_start().get(..5).unwrap_or_default(), Rules::default()));
    words.words().iter().any(|word| word.name() == Word::of(b"drop"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporary_tables_are_their_sessions_own() {
        for text in
            ["create table t ()", "CREATE OR REPLACE VIEW v AS SELECT temp FROM t", "alter table temp_t add a int"]
        {
            assert!(others_see(text.as_bytes()), "{text}");
        }
        for text in ["create temp table t ()", "create  local\ntemporary table t ()", "select 1 into t"] {
            assert!(!others_see(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn tags_tell_what_hides_something() {
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
