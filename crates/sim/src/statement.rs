//! The little language that model clients speak and the model PostgreSQL understands.
//!
//! Every statement of a client ends with a comment that says whose it is, which of that client's it is, and what the
//! session's tracked parameters are at that point: `select 3 100 /*c17.42 012010*/`. The model server echoes the first
//! two in every row and checks the third (I9). Statements of the pooler itself carry no such comment.

use crate::parameters::{self, Values};

/// Whose statement it is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub client: u32,
    pub number: u32,
    pub values: Values,
}

impl Mark {
    /// As it stands in a comment or a parameter of Bind.
    #[must_use]
    pub fn text(&self) -> String {
        let digits: String = self.values.iter().map(|digit| char::from(b'0' + digit)).collect();
        format!("c{}.{} {digits}", self.client, self.number)
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Mark> {
        let (who, digits) = text.strip_prefix('c')?.split_once(' ')?;
        let (client, number) = who.split_once('.')?;
        let mut values = [0; parameters::COUNT];
        if digits.len() != values.len() {
            return None;
        }
        for (value, digit) in values.iter_mut().zip(digits.bytes()) {
            *value = digit.checked_sub(b'0')?;
        }
        Some(Mark { client: client.parse().ok()?, number: number.parse().ok()?, values })
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
    /// A parameter's index and its value's; `None`: refused.
    Set {
        change: Option<(usize, u8)>,
    },
    CopyIn,
    CopyOut {
        rows: u32,
        len: u32,
    },
    /// Leaves state in the session that only DISCARD ALL removes.
    Temporary,
    DiscardAll,
    DeallocateAll,
    /// Not in this language.
    SyntaxError,
}

impl Body {
    /// Whether a failed transaction still accepts it.
    #[must_use]
    pub fn ends_transaction(&self) -> bool {
        matches!(self, Body::Commit | Body::Rollback)
    }

    #[must_use]
    pub fn returns_rows(&self) -> bool {
        matches!(self, Body::Select { .. } | Body::Sleep { .. })
    }

    #[must_use]
    pub fn parse(text: &str) -> Body {
        let mut words = text.split_ascii_whitespace();
        let Some(first) = words.next() else { return Body::Empty };
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match first.to_ascii_lowercase().as_str() {
            "select" => match (number(), number()) {
                (Some(rows), Some(len)) => Body::Select { rows: rows as u32, len: len as u32 },
                _ => Body::SyntaxError,
            },
            "copyout" => match (number(), number()) {
                (Some(rows), Some(len)) => Body::CopyOut { rows: rows as u32, len: len as u32 },
                _ => Body::SyntaxError,
            },
            "sleep" => number().map_or(Body::SyntaxError, |micros| Body::Sleep { micros }),
            "fail" => Body::Fail,
            "begin" => Body::Begin,
            "commit" => Body::Commit,
            "rollback" => Body::Rollback,
            "copyin" => Body::CopyIn,
            "temporary" => Body::Temporary,
            "discard" => Body::DiscardAll,
            "deallocate" => Body::DeallocateAll,
            "set" => Body::Set { change: parameters::parse_set(text.trim_start()[3..].trim()) },
            _ => Body::SyntaxError,
        }
    }
}

/// One statement of a text, and whose it is.
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
    if !text[start..].trim().is_empty() {
        statements.push(Statement::parse(&text[start..]));
    }
    statements
}

/// The bytes a row holds: whose it is, which row, and filling that differs from row to row.
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
    fn a_statement_says_whose_it_is() {
        let mark = Mark { client: 17, number: 42, values: [0, 1, 2, 0, 1, 0] };
        assert_eq!(Mark::parse(&mark.text()), Some(mark));
        let parsed = Statement::parse(&format!("select 3 100 /*{}*/", mark.text()));
        assert_eq!(parsed, Statement { body: Body::Select { rows: 3, len: 100 }, mark: Some(mark) });
        assert_eq!(Statement::parse(" ").body, Body::Empty);
        assert_eq!(Statement::parse("vacuum").body, Body::SyntaxError);
    }

    #[test]
    fn semicolons_in_quotes_do_not_split() {
        let text = r"SET TimeZone='Europe/Zurich';SET application_name= E'it''s; a \\ \';x';";
        assert_eq!(split(text).len(), 2);
        assert_eq!(split("").len(), 0);
        assert_eq!(split("begin; ;commit").len(), 3);
    }
}
