//! What a person should know of a statement that others wait for: DDL, and which of it need not have locked them out.
//!
//! Read from its first words only. What is not recognized is said nothing of.
//= pg18 sql-createindex#SQL-CREATEINDEX-CONCURRENTLY
//= pg18 sql-altertable

use sql::{Lexer, Rules, Text, TokenKind};

/// How many words tell what a statement is.
const WORDS_MAX: usize = 8;

/// A statement that locks tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ddl {
    /// `ALTER TABLE`, `CREATE INDEX`.
    pub command: &'static str,
    /// What could be done instead, in a few words.
    pub advice: Option<&'static str>,
}

/// A row of [`TABLE`]: the first words, the word that makes it harmless if it follows, and what to do instead.
struct Known {
    command: &'static str,
    unless: Option<&'static str>,
    advice: Option<&'static str>,
}

const fn known(command: &'static str, unless: Option<&'static str>, advice: Option<&'static str>) -> Known {
    Known { command, unless, advice }
}

const SHORT_LOCK: Option<&str> = Some("SET lock_timeout, and try again: all who come after it wait behind it");

/// Longer commands stand before those that they begin with.
const TABLE: [Known; 14] = [
    known("CREATE UNIQUE INDEX", Some("CONCURRENTLY"), Some("CREATE UNIQUE INDEX CONCURRENTLY lets writers go on")),
    known("CREATE INDEX", Some("CONCURRENTLY"), Some("CREATE INDEX CONCURRENTLY lets writers go on")),
    known("DROP INDEX", Some("CONCURRENTLY"), Some("DROP INDEX CONCURRENTLY locks nobody out")),
    known("REINDEX", Some("CONCURRENTLY"), Some("REINDEX CONCURRENTLY lets writers go on")),
    known(
        "REFRESH MATERIALIZED VIEW",
        Some("CONCURRENTLY"),
        Some("REFRESH MATERIALIZED VIEW CONCURRENTLY lets readers go on"),
    ),
    known("ALTER TABLE", None, SHORT_LOCK),
    known("ALTER INDEX", None, SHORT_LOCK),
    known("DROP TABLE", None, SHORT_LOCK),
    known("CREATE TRIGGER", None, SHORT_LOCK),
    known("DROP TRIGGER", None, SHORT_LOCK),
    known("TRUNCATE", None, SHORT_LOCK),
    known("CLUSTER", None, Some("it locks readers out for as long as it runs: pg_repack does not")),
    known("VACUUM FULL", None, Some("it locks readers out for as long as it runs: pg_repack does not")),
    known("LOCK", None, SHORT_LOCK),
];

/// `None`: not one of those that stop others.
#[must_use]
pub fn ddl(text: &str) -> Option<Ddl> {
    let words = first_words(text);
    let known = TABLE.iter().find(|known| begins(&words, known.command))?;
    let is_harmless = known.unless.is_some_and(|word| words.iter().any(|other| other == word));
    (!is_harmless).then_some(Ddl { command: known.command, advice: known.advice })
}

fn begins(words: &[String], command: &str) -> bool {
    let mut expected = command.split(' ');
    let mut words = words.iter();
    expected.all(|word| words.next().is_some_and(|other| other == word))
}

/// In upper case; what is no word is an empty one. Up to the end of the statement.
fn first_words(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let text = Text::new(bytes, Rules::default());
    let mut lexer = Lexer::new(&text);
    let mut words = Vec::new();
    // A text that PostgreSQL has cut off may end within a string.
    while let Ok(Some(token)) = lexer.token()
        && words.len() < WORDS_MAX
    {
        let token_text = &bytes[token.start..token.end];
        if token_text == b";" {
            break;
        }
        let is_word = token.kind == TokenKind::Word;
        words.push(if is_word { String::from_utf8_lossy(token_text).to_uppercase() } else { String::new() });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_statements() {
        let table = [
            ("create index on orders (id)", Some("CREATE INDEX")),
            ("/* migration */ Create Unique  Index i ON orders (id)", Some("CREATE UNIQUE INDEX")),
            ("create index concurrently on orders (id)", None),
            ("create unique index concurrently if not exists i on orders (id)", None),
            ("alter table orders add column more int", Some("ALTER TABLE")),
            ("alter table only orders add column more text default 'cut of", Some("ALTER TABLE")),
            ("REINDEX (VERBOSE) TABLE orders", Some("REINDEX")),
            ("reindex table concurrently orders", None),
            ("vacuum full orders", Some("VACUUM FULL")),
            ("vacuum orders", None),
            ("lock table orders", Some("LOCK")),
            ("truncate orders", Some("TRUNCATE")),
            ("select 'alter table'", None),
            ("alter; table", None),
            ("", None),
            ("\u{0}'", None),
        ];
        for (text, expected) in table {
            assert_eq!(ddl(text).map(|ddl| ddl.command), expected, "{text}");
        }
        assert!(
            ddl("create index on t (a)")
                .and_then(|ddl| ddl.advice)
                .is_some_and(|advice| advice.contains("CONCURRENTLY"))
        );
    }
}
