//! Where a token ends: PostgreSQL's lexical rules, one function a kind of token.
//!
//! Each function is given the text and the place where its token begins (or, for what is quoted, where its inside
//! begins) and returns where it ends, or `None` if it does not end or if servers of different versions would end it at
//! different places. Nothing is decoded and nothing is allocated. The text's bytes below 0x80 are ASCII characters:
//! [`crate::Text`] sees to that. //= pg18 sql-syntax-lexical

use crate::chunk::{CHUNK_LEN, Chunk};

/// What a token that begins with this byte is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    Space,
    Word,
    Number,
    Quote,
    DoubleQuote,
    Dollar,
    Dot,
    /// `, ( ) [ ] ; :`
    Punctuation,
    Operator,
    /// No token begins so: the server answers with a syntax error.
    Nothing,
}

pub(crate) const BEGINS: [Begins; 256] = begins();

const fn begins() -> [Begins; 256] {
    let mut table = [Begins::Nothing; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            // The vertical tab is a space since PostgreSQL 16 and an error before.
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c => Begins::Space,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | 0x80.. => Begins::Word,
            b'0'..=b'9' => Begins::Number,
            b'\'' => Begins::Quote,
            b'"' => Begins::DoubleQuote,
            b'$' => Begins::Dollar,
            b'.' => Begins::Dot,
            b',' | b'(' | b')' | b'[' | b']' | b';' | b':' => Begins::Punctuation,
            b'~' | b'!' | b'@' | b'#' | b'^' | b'&' | b'|' | b'`' | b'?' => Begins::Operator,
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' => Begins::Operator,
            _ => Begins::Nothing,
        };
        byte += 1;
    }
    table
}

/// A longer identifier is cut by the server, at a border of its own encoding.
//= pg18 sql-syntax-lexical#SQL-SYNTAX-IDENTIFIERS
pub(crate) const WORD_LEN_MAX: usize = 63;

/// Whether every server cuts an identifier at the same place, if it cuts it at all.
pub(crate) fn is_cut_alike(name: &[u8]) -> bool {
    name.len() <= WORD_LEN_MAX || name.is_ascii()
}

/// The end of an identifier or keyword that begins at `at`.
pub(crate) fn word(text: &[u8], at: usize) -> usize {
    text[at..].iter().position(|byte| !continues_word(*byte)).map_or(text.len(), |len| at + len)
}

#[inline(always)]
pub(crate) fn continues_word(byte: u8) -> bool {
    matches!(BEGINS[usize::from(byte)], Begins::Word | Begins::Number) || byte == b'$'
}

/// The end of a number that begins at `at` with a digit, or with a dot before a digit. `None` if letters follow at once:
/// before PostgreSQL 15 `1x` is two tokens, now an error, and since 16 some letters and underscores belong to numbers.
//= pg18 sql-syntax-lexical#SQL-SYNTAX-CONSTANTS-NUMERIC
#[inline(always)]
pub(crate) fn number(text: &[u8], mut at: usize) -> Option<usize> {
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    match text.get(at).map(|byte| BEGINS[usize::from(*byte)]) {
        Some(Begins::Word | Begins::Dot | Begins::Dollar) => number_rest(text, at),
        _ => Some(at),
    }
}

/// What may follow a number's first digits. Numbers of other bases, and underscores, are read as PostgreSQL 16 does:
/// what they could be before is a name that is not called, since what follows a number there is an alias.
#[inline(never)]
fn number_rest(text: &[u8], mut at: usize) -> Option<usize> {
    let digits = |mut at: usize| {
        while text.get(at).is_some_and(|byte| byte.is_ascii_digit() || *byte == b'_') {
            at += 1;
        }
        at
    };
    if at > 0 && text[at - 1] == b'0' && matches!(text[at], b'x' | b'X' | b'o' | b'O' | b'b' | b'B') {
        at += 1;
        while text.get(at).is_some_and(|byte| byte.is_ascii_hexdigit() || *byte == b'_') {
            at += 1;
        }
        return ends_number(text, at);
    }
    at = digits(at);
    // Two dots are a token of their own: `1..10`.
    if text.get(at) == Some(&b'.') && text.get(at + 1) != Some(&b'.') {
        at = digits(at + 1);
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        at += usize::from(matches!(text.get(at), Some(b'+' | b'-')));
        at = digits(at);
    }
    ends_number(text, at)
}

fn ends_number(text: &[u8], at: usize) -> Option<usize> {
    text.get(at).is_none_or(|byte| !continues_word(*byte)).then_some(at)
}

/// The first place from `at` where `byte` is, which is not zero.
#[inline(always)]
pub(crate) fn find(text: &[u8], at: usize, byte: u8) -> Option<usize> {
    find_either(text, at, byte, byte)
}

/// The first place from `at` where one of two bytes is; neither is zero.
#[inline(always)]
pub(crate) fn find_either(text: &[u8], mut at: usize, byte: u8, other: u8) -> Option<usize> {
    while at < text.len() {
        if let Some(from) = Chunk::load(text, at).either(byte, other).first() {
            return Some(at + from);
        }
        at += CHUNK_LEN;
    }
    None
}

/// The end of what is quoted with `quote` and begins inside at `at`; a doubled quote stands for one.
/// //= pg18 sql-syntax-lexical#SQL-SYNTAX-STRINGS
#[inline(always)]
pub(crate) fn quoted(text: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    loop {
        at = find(text, at, quote)? + 1;
        if text.get(at) != Some(&quote) {
            return Some(at);
        }
        at += 1;
    }
}

/// The end of a string where a backslash takes the next character's meaning away, inside from `at`.
//= pg18 sql-syntax-lexical#SQL-SYNTAX-STRINGS-ESCAPE
pub(crate) fn escaped(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at = find_either(text, at, b'\'', b'\\')?;
        if text[at] == b'\'' && text.get(at + 1) != Some(&b'\'') {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// Where a string that was closed at `at` goes on inside, if it does: nothing but white space with a line's end in it, and
/// comments to a line's end, stand between it and the next quote. //= pg18 sql-syntax-lexical#SQL-SYNTAX-STRINGS
pub(crate) fn continuation(text: &[u8], mut at: usize) -> Option<usize> {
    let mut line_ended = false;
    loop {
        match text.get(at)? {
            b'\n' | b'\r' => line_ended = true,
            b' ' | b'\t' | 0x0b | 0x0c => {}
            b'-' if text.get(at + 1) == Some(&b'-') => {
                at = line_end(text, at);
                continue;
            }
            b'\'' if line_ended => return Some(at + 1),
            _ => return None,
        }
        at += 1;
    }
}

/// The end of a dollar-quoted string that begins at `at`; `None` if it is none.
/// //= pg18 sql-syntax-lexical#SQL-SYNTAX-DOLLAR-QUOTING
pub(crate) fn dollar_quoted(text: &[u8], at: usize) -> Option<usize> {
    let tag = at + 1;
    let close = tag + text.get(tag..)?.iter().position(|byte| *byte == b'$' || !continues_word(*byte))?;
    if text[close] != b'$' || text[tag].is_ascii_digit() {
        return None;
    }
    let delimiter = &text[at..=close];
    let mut from = close + 1;
    loop {
        from = find(text, from, b'$')?;
        if text[from..].starts_with(delimiter) {
            return Some(from + delimiter.len());
        }
        from += 1;
    }
}

/// The end of a parameter `$1` that begins at `at`; `None` if letters follow at once (an error since PostgreSQL 15).
#[inline(always)]
pub(crate) fn parameter(text: &[u8], mut at: usize) -> Option<usize> {
    at += 1;
    while text.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    ends_number(text, at)
}

/// The end of a line, or of the text.
pub(crate) fn line_end(text: &[u8], at: usize) -> usize {
    find_either(text, at, b'\n', b'\r').unwrap_or(text.len())
}

/// The end of a comment that begins at `at`; those within it are counted.
/// //= pg18 sql-syntax-lexical#SQL-SYNTAX-COMMENTS
pub(crate) fn comment(text: &[u8], at: usize) -> Option<usize> {
    debug_assert!(text[at..].starts_with(b"/*"), "a comment begins so");
    let (mut depth, mut at) = (1, at + 2);
    loop {
        at = find_either(text, at, b'*', b'/')?;
        match (text[at], text.get(at + 1)?) {
            (b'/', b'*') => depth += 1,
            (b'*', b'/') if depth == 1 => return Some(at + 2),
            (b'*', b'/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
    }
}

/// A comment begins here.
#[inline(always)]
pub(crate) fn is_comment(text: &[u8], at: usize) -> bool {
    matches!((text[at], text.get(at + 1)), (b'-', Some(b'-')) | (b'/', Some(b'*')))
}

/// The end of a comment of either kind that begins at `at`.
pub(crate) fn any_comment(text: &[u8], at: usize) -> Option<usize> {
    if text[at] == b'-' { Some(line_end(text, at)) } else { comment(text, at) }
}

/// The end of a run of operator characters that begins at `at`: before a comment in any case. Where the server would cut
/// a run in two (`a*-1`), it is one here. //= pg18 sql-syntax-lexical#SQL-SYNTAX-OPERATORS
#[inline(always)]
pub(crate) fn operator(text: &[u8], mut at: usize) -> usize {
    loop {
        at += 1;
        let goes_on = text.get(at).is_some_and(|byte| BEGINS[usize::from(*byte)] == Begins::Operator);
        if !goes_on || is_comment(text, at) {
            return at;
        }
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
