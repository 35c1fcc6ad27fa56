//! Courtesies are statements that drivers and tools send without being asked: the begin and the end of a transaction, parameters of a session, questions for a parameter, a
//! text without a word in it, a few SELECTs, and several of these in one text.
//!
//! PgBouncer's console answers these with errors, which is why most drivers cannot read it. Here they do nothing and are answered as PostgreSQL
//! does; a transaction is one in name only, as nothing is undone. Any other SELECT stays an error, as does what only looks like one of these, and
//! a text with a command and something else.

use connections::databases::CONSOLE_PARAMETERS;

use crate::table::{Column, Table, text, words};

mod known;

pub(crate) use known::{Known, parameter_types};

/// Words of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Courtesy {
    /// What does nothing, with its tag. A session's block begins and ends with some of these (`worker/src/sessions/console.rs`).
    Tag(&'static str),
    /// SHOW of a parameter.
    Parameter(&'static Parameter),
    /// A SELECT of a graphical tool, and how many parameters it has.
    Known(&'static Known, u16),
    /// Nothing but comments and blanks.
    Silence,
    /// Two or more of the others, in one text.
    Several(Vec<Courtesy>),
}

/// A parameter that can be asked for: its words in lower case.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    words: &'static str,
    column: &'static [Column],
    /// `None`: as it is told at login.
    value: Option<&'static str>,
}

const fn parameter(words: &'static str, column: &'static [Column], value: Option<&'static str>) -> Parameter {
    Parameter { words, column, value }
}

/// What drivers ask for.
static PARAMETERS: [Parameter; 12] = [
    parameter("server_version", &[text("server_version")], None),
    parameter("client_encoding", &[text("client_encoding")], None),
    parameter("server_encoding", &[text("server_encoding")], None),
    parameter("datestyle", &[text("DateStyle")], None),
    parameter("timezone", &[text("TimeZone")], None),
    parameter("time zone", &[text("TimeZone")], None),
    parameter("standard_conforming_strings", &[text("standard_conforming_strings")], None),
    parameter("is_superuser", &[text("is_superuser")], None),
    parameter("transaction isolation level", &[text("transaction_isolation")], Some("read committed")),
    parameter("transaction_isolation", &[text("transaction_isolation")], Some("read committed")),
    parameter("transaction_read_only", &[text("transaction_read_only")], Some("off")),
    // There are no schemas.
    parameter("search_path", &[text("search_path")], Some("")),
];

/// What a client may set of its session. None of them is a setting of the pooler.
const SETTABLE: [&str; 9] = [
    "application_name",
    "client_encoding",
    "client_min_messages",
    "datestyle",
    "extra_float_digits",
    "intervalstyle",
    "standard_conforming_strings",
    "statement_timeout",
    "timezone",
];

impl Parameter {
    pub(crate) fn table(&self) -> Table {
        let mut table = Table::new(self.column);
        let told = CONSOLE_PARAMETERS.iter().find(|(name, _)| *name == self.column[0].name).map(|(_, value)| *value);
        table.push(vec![self.value.or(told).and_then(words)]);
        table
    }
}

impl Courtesy {
    /// `None`: a command, or a mistake.
    #[must_use]
    pub(crate) fn parse(text: &str) -> Option<Courtesy> {
        if is_silence(text) {
            return Some(Courtesy::Silence);
        }
        let mut statements = statements(text);
        match (statements.next(), statements.next()) {
            (Some(only), None) => Courtesy::statement(only),
            (Some(first), Some(second)) => {
                // As many as a message has room for.
                let all = [first, second].into_iter().chain(statements).map(Courtesy::statement);
                all.collect::<Option<Vec<_>>>().map(Courtesy::Several)
            }
            (None, _) => None,
        }
    }

    fn statement(text: &str) -> Option<Courtesy> {
        let lower: Vec<String> = text.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        match lower.as_slice() {
            ["begin", rest @ ..] if is_mode(rest) => Some(Courtesy::Tag("BEGIN")),
            ["start", "transaction", rest @ ..] if is_mode(rest) => Some(Courtesy::Tag("START TRANSACTION")),
            ["commit" | "end"] | ["commit" | "end", "work" | "transaction"] => Some(Courtesy::Tag("COMMIT")),
            ["rollback" | "abort"] | ["rollback" | "abort", "work" | "transaction"] => Some(Courtesy::Tag("ROLLBACK")),
            ["set", "session", "characteristics", "as", "transaction", rest @ ..] if is_mode(rest) => {
                Some(Courtesy::Tag("SET"))
            }
            ["set", rest @ ..] => sets_parameter(rest).then_some(Courtesy::Tag("SET")),
            ["show", rest @ ..] => {
                let asked = rest.join(" ");
                PARAMETERS.iter().find(|parameter| parameter.words == asked).map(Courtesy::Parameter)
            }
            _ => Known::find(text).map(|(known, parameters)| Courtesy::Known(known, parameters)),
        }
    }
}

/// The statements of a text: semicolons divide them, and empty ones are left out. A semicolon in quotes divides nothing.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let parts = text.split(move |c: char| {
        match quote {
            Some(open) if open == c => quote = None,
            None if matches!(c, '\'' | '"') => quote = Some(c),
            _ => {}
        }
        quote.is_none() && c == ';'
    });
    parts.map(str::trim_ascii).filter(|part| !part.is_empty())
}

/// Comments and blanks; not an empty text, which is an error as in PgBouncer.
fn is_silence(text: &str) -> bool {
    let mut lines = text.trim().lines().map(str::trim);
    text.contains("--") && lines.all(|line| line.is_empty() || line.starts_with("--"))
}

/// What may stand behind BEGIN.
fn is_mode(words: &[&str]) -> bool {
    const WORDS: [&str; 14] = [
        "work",
        "transaction",
        "isolation",
        "level",
        "read",
        "write",
        "only",
        "committed",
        "uncommitted",
        "repeatable",
        "serializable",
        "deferrable",
        "not",
        ",",
    ];
    words.iter().all(|word| WORDS.contains(&word.trim_end_matches(',')) || *word == ",")
}

/// `[SESSION | LOCAL] name TO value`, `name = value`, `NAMES value`, `TIME ZONE value`, whatever the value.
fn sets_parameter(words: &[&str]) -> bool {
    let words = match words {
        ["session" | "local", rest @ ..] => rest,
        all => all,
    };
    match words {
        ["names", _] | ["time", "zone", _, ..] => true,
        [name, "to" | "=", _, ..] => SETTABLE.contains(name),
        [first, ..] => first.split_once('=').is_some_and(|(name, _)| SETTABLE.contains(&name)),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_words() {
        let tags = [
            ("BEGIN", "BEGIN"),
            ("begin;", "BEGIN"),
            ("BEGIN READ ONLY", "BEGIN"),
            ("begin isolation level repeatable read, read only", "BEGIN"),
            ("START TRANSACTION READ WRITE", "START TRANSACTION"),
            ("commit", "COMMIT"),
            ("END WORK;", "COMMIT"),
            ("ROLLBACK", "ROLLBACK"),
            ("abort transaction", "ROLLBACK"),
            ("SET extra_float_digits = 3", "SET"),
            ("set extra_float_digits=3", "SET"),
            ("SET application_name = 'pgAdmin 4 - DB:pgbouncer'", "SET"),
            ("SET application_name = 'DBeaver 24.1 - Main <pgbouncer>'", "SET"),
            ("SET client_encoding TO 'UTF8'", "SET"),
            ("set client_encoding to unicode;", "SET"),
            ("SET DateStyle=ISO", "SET"),
            ("SET SESSION TimeZone TO 'UTC'", "SET"),
            ("SET TIME ZONE 'Europe/Berlin'", "SET"),
            ("SET NAMES 'UTF8'", "SET"),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET"),
            ("SET application_name = 'a; b'", "SET"),
            (" ; commit ; ; ", "COMMIT"),
        ];
        for (text, tag) in tags {
            assert_eq!(Courtesy::parse(text), Some(Courtesy::Tag(tag)), "{text:?}");
        }
        for text in ["-- ping", "--", "  -- a\n -- b\n"] {
            assert_eq!(Courtesy::parse(text), Some(Courtesy::Silence), "{text:?}");
        }
        for text in [
            "",
            ";",
            " ",
            "select 1",
            "-- a\nshow pools",
            ";;",
            "begin; show pools",
            "show pools; begin",
            "set application_name = a; shutdown",
            "begin; select 1",
            "begin x",
            "commit and chain",
            "rollback to a",
            "set",
            "set default_pool_size = 3",
            "set default_pool_size=3",
            "set verbose to 2",
            "set application_name",
            "show pools",
            "show server_version x",
            "show work_mem",
        ] {
            assert_eq!(Courtesy::parse(text), None, "{text:?}");
        }
    }

    /// As pgAdmin does at each connection.
    #[test]
    fn several_in_one_text() {
        let text = "SET DateStyle=ISO; SET client_min_messages=notice; SELECT set_config('bytea_output','hex',false) FROM \
                    pg_show_all_settings() WHERE name = 'bytea_output'; SET client_encoding='utf-8';";
        let Some(Courtesy::Several(all)) = Courtesy::parse(text) else { panic!("several") };
        let set = Courtesy::Tag("SET");
        assert!(matches!(&all[2], Courtesy::Known(..)), "{all:?}");
        assert_eq!((all.len(), &all[0], &all[1], &all[3]), (4, &set, &set, &set));
        let both = vec![Courtesy::Tag("BEGIN"), Courtesy::Tag("COMMIT")];
        assert_eq!(Courtesy::parse("begin;commit"), Some(Courtesy::Several(both)));
    }

    #[test]
    fn a_table_of_statements() {
        let table: [(&str, &[&str]); 7] = [
            ("", &[]),
            (" ; ;", &[]),
            ("a", &["a"]),
            (" a; b ;", &["a", "b"]),
            ("a 'b; c'; d", &["a 'b; c'", "d"]),
            ("a 'it''s; \";' ; \"b';\"\"; c\"; d", &["a 'it''s; \";'", "\"b';\"\"; c\"", "d"]),
            ("a 'b; c", &["a 'b; c"]),
        ];
        for (text, expected) in table {
            assert_eq!(statements(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn each_parameter_has_a_value() {
        for parameter in &PARAMETERS {
            let found = Courtesy::parse(&format!("SHOW {};", parameter.words.to_uppercase()));
            assert_eq!(found, Some(Courtesy::Parameter(parameter)));
            let table = parameter.table();
            assert!(table.len() == 1 && table.rows().all(|row| row[0].is_some()), "{table:?}");
        }
    }

    #[test]
    fn no_parameter_of_a_session_is_a_setting_of_the_pooler() {
        let settings = settings::table::known_names();
        assert!(SETTABLE.iter().all(|name| !settings.iter().any(|setting| setting == name)), "SET would be ambiguous");
    }
}
