//! Constants of which PostgreSQL takes the value when a statement is prepared: `'now'`, `'today'`. A statement with such a constant has the
//! moment of its own session, so it is not shared.
//!
//! A text is read once, by the lexer's rules. A text that the lexer cannot read counts as one with such a constant if it has the word anywhere:
//! the statement is only not shared.
//!
//! //= pg18 datatype-datetime#DATATYPE-DATETIME-SPECIAL-VALUES

use sql::{Lexer, Rules, Text, TokenKind};

const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];

/// Whether a string in this text is such a constant, or has one in it, as `'10:00 today'` and `'[now,infinity)'` have.
pub(super) fn has_dated_constant(query: &[u8]) -> bool {
    if !query.iter().any(|byte| matches!(byte, b'\'' | b'$')) {
        return false;
    }
    // The setting `standard_conforming_strings` is not known here, and matters only where there is a backslash.
    let has_backslash = query.contains(&b'\\');
    has_dated_string(query, true) || has_backslash && has_dated_string(query, false)
}

fn has_dated_string(query: &[u8], standard_strings: bool) -> bool {
    let text = Text::new(query, Rules { standard_strings, ..Rules::default() });
    let mut lexer = Lexer::new(&text);
    let mut value = Vec::new();
    loop {
        let Ok(token) = lexer.token() else { return has_word(query) };
        match token {
            // A string that goes on in the next line is two tokens.
            Some(token) if token.kind == TokenKind::String => {
                if !append_value(&query[token.start..token.end], standard_strings, &mut value) {
                    return true;
                }
            }
            _ if has_word(&value) => return true,
            Some(_) => value.clear(),
            None => return false,
        }
    }
}

/// Whether one of the words is among the runs of letters in a value. PostgreSQL takes anything else between two of them for a divider.
fn has_word(value: &[u8]) -> bool {
    let mut runs = value.split(|byte| !byte.is_ascii_alphabetic());
    runs.any(|run| WORDS.iter().any(|word| run.eq_ignore_ascii_case(word)))
}

/// Appends the value of a string as the text has it. False: the string has characters by their numbers, and may be anything.
//= pg18 sql-syntax-lexical#SQL-SYNTAX-CONSTANTS
fn append_value(string: &[u8], standard_strings: bool, value: &mut Vec<u8>) -> bool {
    match string {
        [b'$', ..] => {
            let tag_len = string[1..].iter().position(|byte| *byte == b'$').map_or(string.len(), |at| at + 2);
            value.extend_from_slice(string.get(tag_len..string.len() - tag_len).unwrap_or_default());
            true
        }
        // UESCAPE may name any other character than the backslash.
        [b'u' | b'U', ..] => false,
        [b'e' | b'E', ..] => append_quoted(&string[1..], true, value),
        // No moment is written in bits.
        [b'b' | b'B' | b'x' | b'X', ..] => true,
        _ => append_quoted(string, !standard_strings, value),
    }
}

/// As [`append_value`], of a string in quotes and of the lines that continue it.
fn append_quoted(string: &[u8], escapes: bool, value: &mut Vec<u8>) -> bool {
    let (mut at, mut in_quotes) = (0, false);
    while let Some(byte) = string.get(at) {
        let (mut appended, mut len) = (None, 1);
        match (byte, string.get(at + 1)) {
            (b'\'', Some(b'\'')) if in_quotes => (appended, len) = (Some(b'\''), 2),
            (b'\'', _) => in_quotes = !in_quotes,
            (b'-', _) if !in_quotes => {
                let line_len = string[at..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
                len = line_len.unwrap_or(string.len() - at);
            }
            _ if !in_quotes => {}
            (b'\\', Some(b'x' | b'u' | b'U' | b'0'..=b'7')) if escapes => return false,
            (b'\\', Some(b'b' | b'f' | b'n' | b'r' | b't')) if escapes => (appended, len) = (Some(b' '), 2),
            (b'\\', Some(escaped)) if escapes => (appended, len) = (Some(*escaped), 2),
            _ => appended = Some(*byte),
        }
        value.extend(appended);
        at += len;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_found_in_strings() {
        for text in [
            "select 'now'::timestamptz",
            "select timestamp ' Today 10:00'",
            "select date E'tomorrow'",
            "select * from t where at > 'yesterday'",
            "select '{now,today}'::timestamptz[]",
            "select '[2020-01-01, tomorrow)'::daterange",
            "select $$now$$::date",
            "select $x$ now$x$::date",
            "select timestamp '10:00 today'",
            "select 'it''s', '04:05 Tomorrow'::timestamp",
            "select 'now()'::timestamptz",
            "select timestamp 'today10:00'",
            "select timestamp '10:00today'",
            "select date '_now_'",
        ] {
            assert!(has_dated_constant(text.as_bytes()), "{text}");
        }
        for text in [
            "select now()",
            "select 'nowhere'",
            "select now, today from t",
            "select 'know'",
            "select coalesce($1, now())",
            "select 'it''s', now()",
            "select 1 -- it's 'now' or never",
            "select 'a' /* 'now' */ as \"'now'\"",
            "select x'0f', now() as today",
        ] {
            assert!(!has_dated_constant(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_moment_is_found_however_the_string_is_written() {
        for text in [
            "select 1 -- don't\n, 'now'::timestamptz",
            "select 1 /* don't */, 'now'::timestamptz",
            "select 1 as \"don't\", 'now'::timestamptz",
            "select $$don't$$, 'now'::timestamptz",
            "select $a$ $b$ today $b$ $a$::text",
            "select 'no'\n'w'::timestamptz",
            "select 'no' -- it's\n  'w'::timestamptz",
            "select E'no' -- it's\n  'w'::timestamptz",
            r"select E'n\ow'::timestamptz",
            r"select E'\x6eow'::timestamptz",
            r"select E'\156ow'::timestamptz",
            r"select E'\u006eow'::timestamptz",
            r"select E'10:00\ttoday'::timestamptz",
            r"select E'\'now'::timestamptz",
            r"select U&'\006eow'::timestamptz",
            "select U&'!006eow' UESCAPE '!'::timestamptz",
            r"select 'n\ow'::timestamptz",
            r"select '\', 'now'::timestamptz",
            r"select '\'', now, '",
            "select N'now'::timestamptz",
            "select 'now",
        ] {
            assert!(has_dated_constant(text.as_bytes()), "{text}");
        }
        for text in [r"select E'\now'::text", r"select 'C:\knows'", "select b'01', $$a$$, 'b' -- now"] {
            assert!(!has_dated_constant(text.as_bytes()), "{text}");
        }
    }

    /// The time that a text takes grows with its length. With its square, this test would take minutes.
    #[test]
    fn a_long_text_is_read_once() {
        for piece in ["nowx ", "'nowx' ", "'nowx'\n", "$$nowx$$ ", "$a$now", "/*now", "'now''", "E'nowx'\n'x' "] {
            let text = format!("select '{piece}', {}", piece.repeat((1 << 18) / piece.len()));
            has_dated_constant(text.as_bytes());
        }
    }
}
