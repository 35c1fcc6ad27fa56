//! The little language that model clients speak and the model PostgreSQL understands.
//!
//! It is a small part of SQL. Every statement of a client ends with a comment, its mark, that names the client and the
//! statement: `select 3 100 /*c17.42*/`. The model server repeats the mark in every row, and compares its state with
//! that of the client's twin at that statement (I9). The pooler's own statements have no mark.

use session_state::catalogue;

use crate::command::Command;

/// The client of a statement, and the statement's number.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub client: u32,
    pub number: u32,
}

impl Mark {
    /// Its text in a comment or in a parameter of Bind.
    #[must_use]
    pub fn text(&self) -> String {
        format!("c{}.{}", self.client, self.number)
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Mark> {
        let (client, number) = text.strip_prefix('c')?.split_once('.')?;
        Some(Mark { client: client.parse().ok()?, number: number.parse().ok()? })
    }
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Empty,
    /// Returns `rows` rows of `len` bytes and the mark.
    Select {
        rows: u32,
        len: u32,
    },
    /// Returns one row after a while; can be cancelled.
    Sleep {
        micros: u64,
    },
    /// Fails, as a division by zero would.
    Fail,
    Begin,
    Commit,
    Rollback,
    /// Changes or shows the session's state.
    Command(Command),
    /// Returns one row of a table to which columns may be added.
    Wide(String),
    /// Adds a column to that table.
    Widen(String),
    CopyIn,
    CopyOut {
        rows: u32,
        len: u32,
    },
    /// Not in this language.
    SyntaxError,
}

impl Body {
    /// Whether a failed transaction still accepts it.
    #[must_use]
    pub fn ends_transaction(&self) -> bool {
        match self {
            Body::Commit | Body::Rollback => true,
            Body::Command(command) => command.ends_failure(),
            _ => false,
        }
    }

    #[must_use]
    pub fn returns_rows(&self) -> bool {
        match self {
            Body::Select { .. } | Body::Sleep { .. } | Body::Wide(_) => true,
            Body::Command(command) => command.returns_rows(),
            _ => false,
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Body {
        let mut words = text.split_ascii_whitespace();
        let Some(first) = words.next() else { return Body::Empty };
        let rest = text.trim_ascii()[first.len()..].trim_ascii();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let known = match first.to_ascii_lowercase().as_str() {
            "select" if rest == "1/0" => Some(Body::Fail),
            "select" if rest.is_empty() => Some(Body::Select { rows: 0, len: 0 }),
            "select" if rest.starts_with("* from wide_") => Some(Body::Wide(rest["* from ".len()..].to_owned())),
            "alter" => inside(rest, "table ", " add column c int").map(|name| Body::Widen(name.to_owned())),
            "select" => match (number(), number()) {
                (Some(rows), Some(len)) => Some(Body::Select { rows: rows as u32, len: len as u32 }),
                _ => inside(rest, "pg_sleep(", ")").and_then(|one| Some(Body::Sleep { micros: one.parse().ok()? })),
            },
            "copy" if rest == "t from stdin" => Some(Body::CopyIn),
            "copy" => inside(rest, "(select ", ") to stdout").and_then(|pair| {
                let (rows, len) = pair.split_once(", ")?;
                Some(Body::CopyOut { rows: rows.parse().ok()?, len: len.parse().ok()? })
            }),
            "begin" => Some(Body::Begin),
            "commit" => Some(Body::Commit),
            "rollback" if rest.is_empty() => Some(Body::Rollback),
            _ => None,
        };
        known.or_else(|| Command::parse(text).map(Body::Command)).unwrap_or(Body::SyntaxError)
    }
}

fn inside<'t>(text: &'t str, before: &str, after: &str) -> Option<&'t str> {
    text.strip_prefix(before)?.strip_suffix(after)
}

/// One statement of a text, and its mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub body: Body,
    pub mark: Option<Mark>,
}

impl Statement {
    #[must_use]
    pub fn parse(text: &str) -> Statement {
        let (body, comment) = text.split_once("/*").unwrap_or((text, ""));
        let mark = comment.split_once("*/").and_then(|(inside, _)| Mark::parse(inside));
        Statement { body: Body::parse(body), mark }
    }
}

/// Splits a text at the semicolons outside of quotes. An empty text is one empty statement; what follows the last
/// semicolon counts only if it is not blank.
#[must_use]
pub fn split(text: &str) -> Vec<Statement> {
    if let Some(asked) = text.strip_prefix(catalogue::PREFIX) {
        // The pooler's queries are not in this language, and are compared as a whole. `GLANCE` returns one row, as
        // `POLL` does.
        let poll = asked == catalogue::POLL || asked == catalogue::GLANCE;
        let known = poll || asked == catalogue::QUERY;
        let body = if known { Body::Command(Command::Catalogue { poll }) } else { Body::SyntaxError };
        return vec![Statement { body, mark: None }];
    }
    let mut statements = Vec::new();
    let (mut start, mut quoted, mut escaped) = (0, false, false);
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'\'' => quoted = !quoted,
            b';' if !quoted => {
                statements.push(Statement::parse(&text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim_ascii().is_empty() {
        statements.push(Statement::parse(&text[start..]));
    }
    statements
}

/// The bytes of a row: the mark, the row's number, and filling that differs from row to row.
#[must_use]
pub fn row(mark: Option<Mark>, index: u32, len: u32) -> Vec<u8> {
    let mut value = match mark {
        Some(mark) => format!("c{}.{}.{index}:", mark.client, mark.number).into_bytes(),
        None => format!("nobody.{index}:").into_bytes(),
    };
    let letter = b'a' + (mark.map_or(0, |mark| mark.number).wrapping_add(index) % 26) as u8;
    value.resize(value.len() + len as usize, letter);
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_a_mark() {
        let mark = Mark { client: 17, number: 42 };
        assert_eq!(Mark::parse(&mark.text()), Some(mark));
        let parsed = Statement::parse(&format!("select 3 100 /*{}*/", mark.text()));
        assert_eq!(parsed, Statement { body: Body::Select { rows: 3, len: 100 }, mark: Some(mark) });
        assert_eq!(Statement::parse(" ").body, Body::Empty);
        assert_eq!(Statement::parse("vacuum").body, Body::SyntaxError);
        // PostgreSQL 15 takes no vertical tab and no space of Unicode for one between words.
        assert_eq!(Statement::parse("\u{b}\u{2003}commit").body, Body::SyntaxError);
        assert_eq!(Statement::parse("select pg_sleep(20)").body, Body::Sleep { micros: 20 });
        assert_eq!(Statement::parse("copy (select 2, 10) to stdout").body, Body::CopyOut { rows: 2, len: 10 });
        assert_eq!(Statement::parse("select 1/0 /* */").body, Body::Fail);
    }

    #[test]
    fn semicolons_in_quotes_do_not_split() {
        let text = r"SET TimeZone='Europe/Zurich';SET application_name= E'it''s; a \\ \';x';";
        assert_eq!(split(text).len(), 2);
        assert_eq!(split("").len(), 0);
        assert_eq!(split("begin; ;commit").len(), 3);
    }
}
