//! A statement's text without constants and comments, which may be private. The unquoted values of SET count as constants.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::text::{Rules, Text};

/// What stands for a constant.
const CONSTANT: &str = "?";

/// What stands for the rest of a text that is too long, or cannot be read on.
const REST: &str = " …";

/// The text on one line, with `?` for each constant and without comments; at most about `len_max` bytes of it. What is no UTF-8 is replaced by
/// U+FFFD. What cannot be divided into tokens is left out from there on: a constant may begin in it.
#[must_use]
pub fn redacted(text: &Text<'_>, len_max: usize) -> String {
    until(text, len_max, |_| false)
}

/// The same, of a session whose rules are not known. By some, a backslash hides the quote behind it, and by others it does not: what a string
/// with one ends with cannot be told, so the text is left out from there on.
#[must_use]
pub fn redacted_by_any_rules(source: &[u8], len_max: usize) -> String {
    until(&Text::new(source, Rules::default()), len_max, |token| {
        let string = &source[token.start..token.end];
        let is_by_rules = matches!(string, [b'\'' | b'u' | b'U', ..]);
        token.kind == TokenKind::String && is_by_rules && string.contains(&b'\\')
    })
}

/// Up to a token with which it cannot be read on.
fn until(text: &Text<'_>, len_max: usize, ends: impl Fn(&Token) -> bool) -> String {
    let bytes = text.source();
    let (mut lexer, mut out, mut last_end) = (Lexer::new(text), String::new(), 0);
    let mut setting = Setting::Begins;
    loop {
        let token = match lexer.token() {
            Ok(Some(token)) if !ends(&token) => token,
            Ok(None) => return out,
            Ok(Some(_)) | Err(_) => break,
        };
        if token.start > last_end && !out.is_empty() {
            out.push(' ');
        }
        last_end = token.end;
        setting = setting.after(token.kind, &bytes[token.start..token.end]);
        let is_constant =
            matches!(token.kind, TokenKind::String | TokenKind::Number) || setting.is_constant(&token, bytes);
        let word = if is_constant { CONSTANT.into() } else { String::from_utf8_lossy(&bytes[token.start..token.end]) };
        if out.len() + word.len() > len_max {
            break;
        }
        // Of names in quotes.
        out.extend(word.chars().map(|char| if char.is_control() { ' ' } else { char }));
    }
    out.push_str(REST);
    out
}

/// The parts of `SET name = value`. The value may be a word without quotes: `set app.password to hunter2`.
///
/// ```text
///   Begins ─ SET ─► Named ─ = or TO ─► Value ─ ; ─► Begins
///      └ ALTER ─► Alters ─ SET ─┘  (ALTER ROLE … SET, ALTER SYSTEM SET)
/// ```
//= pg18 sql-set
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Setting {
    /// The statement begins with the next token.
    Begins,
    Alters,
    /// SET and the name behind it.
    Named,
    /// `=` or TO, and the value.
    Value,
    /// The rest of the statement sets nothing.
    No,
}

impl Setting {
    fn after(self, kind: TokenKind, token: &[u8]) -> Setting {
        let is = |word: &str| kind == TokenKind::Word && token.eq_ignore_ascii_case(word.as_bytes());
        match self {
            _ if token == b";" => Setting::Begins,
            Setting::Begins | Setting::Alters if is("set") => Setting::Named,
            Setting::Begins if is("alter") => Setting::Alters,
            Setting::Begins => Setting::No,
            Setting::Named if token == b"=" || is("to") => Setting::Value,
            // SET (fillfactor = 70), SET TRANSACTION ISOLATION LEVEL, SET a.b: of these only the last is a name.
            Setting::Named if matches!(kind, TokenKind::Word | TokenKind::Quoted) || token == b"." => Setting::Named,
            Setting::Named => Setting::No,
            other => other,
        }
    }

    /// Whether a token belongs to a value. Words such as `on`, `off` and `default` are not private.
    fn is_constant(self, token: &Token, source: &[u8]) -> bool {
        const PLAIN: [&str; 7] = ["to", "default", "on", "off", "true", "false", "from"];
        let text = &source[token.start..token.end];
        let is_word = matches!(token.kind, TokenKind::Word | TokenKind::Quoted);
        self == Setting::Value && is_word && !PLAIN.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Rules;

    #[test]
    fn constants_and_comments_are_left_out() {
        let table = [
            ("select 1", "select ?"),
            (
                "/* a=b */ SELECT  *\nfrom t -- secret\n where a = 'x''y' and b in (1, 2.5e3)",
                "SELECT * from t where a = ? and b in (?, ?)",
            ),
            ("select $1, $$secret$$, E'\\'x', U&'x', \"My \nTable\".a", "select $1, ?, ?, ?, \"My  Table\".a"),
            ("insert into t values ('cut o", "insert into t values ( …"),
            ("select a from t where a=-5", "select a from t where a=-?"),
            ("", ""),
            ("set app.password to hunter2", "set app.password to ?"),
            ("SET LOCAL app.password = hunter2, \"two\"; select a", "SET LOCAL app.password = ?, ?; select a"),
            ("select a; set session a.b to c", "select a; set session a.b to ?"),
            ("alter role r set app.key = secret", "alter role r set app.key = ?"),
            ("alter system set a to b", "alter system set a to ?"),
            ("set work_mem to default", "set work_mem to default"),
            ("set jit = off", "set jit = off"),
            ("set role r", "set role r"),
            ("update t set a = b", "update t set a = b"),
            ("alter table t set (fillfactor = 70, a = b)", "alter table t set (fillfactor = ?, a = b)"),
            ("alter table t alter a set default b", "alter table t alter a set default b"),
        ];
        for (text, expected) in table {
            assert_eq!(redacted(&Text::new(text.as_bytes(), Rules::default()), 1000), expected, "{text}");
        }
        let long = format!("select {}", "abc, ".repeat(100));
        let cut = redacted(&Text::new(long.as_bytes(), Rules::default()), 50);
        assert!(cut.len() < 60 && cut.ends_with(" …"), "{cut}");
        assert_eq!(redacted(&Text::new(b"select \"\xff\"", Rules::default()), 50), "select \"\u{fffd}\"");
    }

    #[test]
    fn what_follows_a_backslash_in_a_string_is_no_text_if_rules_are_not_known() {
        let table = [
            (r"select 'it\'s secret', 1", "select …"),
            (r"select a from t where b = 'x' and c = n'it\'s secret'", "select a from t where b = ? and c = n …"),
            (r"select u&'it\'s secret'", "select …"),
            // By all rules the same.
            (r"select E'it\'s secret', $$\'$$, 'x''y', 1 from t", "select ?, ?, ?, ? from t"),
            (r"select a \ b", "select a …"),
        ];
        for (text, expected) in table {
            assert_eq!(redacted_by_any_rules(text.as_bytes(), 1000), expected, "{text}");
        }
    }
}
