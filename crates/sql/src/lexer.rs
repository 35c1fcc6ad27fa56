//! Tokens of a text, as PostgreSQL's lexer would make them, as far as it matters for what a statement means.
//!
//! Comments and white space are skipped. Constants are told apart from names, operators and punctuation, but not from
//! each other. What servers of different versions would read in different ways, and what none can read, is
//! [`Unlexable`]. //= pg18 sql-syntax-lexical

use crate::scan::{self, BEGINS, Begins};
use crate::text::Text;
use crate::unicode_names;
use std::fmt;

/// The text is no sequence of tokens, or not the same one for every server. It means whatever the server takes it for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unlexable;

impl fmt::Display for Unlexable {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("the text cannot be divided into tokens")
    }
}

impl std::error::Error for Unlexable {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A keyword, or an identifier without quotes.
    Word,
    /// An identifier in quotes.
    Quoted,
    /// A string of any kind, `E''`, `B''` and the like and dollar-quoted ones included.
    String,
    Number,
    /// `$1`
    Parameter,
    /// A run of operator characters.
    Operator,
    /// One of `, ( ) [ ] ; : .`
    Punctuation,
}

/// A token and where it stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

/// Tokens from left to right.
#[derive(Clone, Debug)]
pub struct Lexer<'a, 't> {
    text: &'a Text<'t>,
    at: usize,
    end: usize,
}

impl<'a, 't> Lexer<'a, 't> {
    pub fn new(text: &'a Text<'t>) -> Lexer<'a, 't> {
        Lexer::between(text, 0, text.read().len())
    }

    /// Tokens of a part that begins and ends between tokens.
    pub(crate) fn between(text: &'a Text<'t>, at: usize, end: usize) -> Lexer<'a, 't> {
        Lexer { text, at, end }
    }

    /// The next token; `Ok(None)` at the end.
    ///
    /// # Errors
    ///
    /// Nothing can be told about the text from here on.
    pub fn token(&mut self) -> Result<Option<Token>, Unlexable> {
        let text = &self.text.read()[..self.end];
        while let Some(byte) = text.get(self.at) {
            let start = self.at;
            match BEGINS[usize::from(*byte)] {
                Begins::Space => self.at += 1,
                Begins::Operator if scan::is_comment(text, start) => {
                    self.at = scan::any_comment(text, start).ok_or(Unlexable)?;
                }
                begins => {
                    let (kind, end) = token_at(text, start, begins, self.text.standard_strings).ok_or(Unlexable)?;
                    self.at = end;
                    return Ok(Some(Token { kind, start, end }));
                }
            }
        }
        Ok(None)
    }
}

fn token_at(text: &[u8], at: usize, begins: Begins, standard: bool) -> Option<(TokenKind, usize)> {
    match begins {
        Begins::Word => {
            let end = scan::word(text, at);
            if end - at == 1 && is_unicode_name(text, at) {
                return Some((TokenKind::Quoted, unicode_names::end(text, at)?));
            }
            match prefixed(text, at, end, standard)? {
                Some(end) => Some((TokenKind::String, end)),
                None => scan::is_cut_alike(&text[at..end]).then_some((TokenKind::Word, end)),
            }
        }
        Begins::Number => Some((TokenKind::Number, scan::number(text, at)?)),
        Begins::Quote if standard => Some((TokenKind::String, scan::quoted(text, at + 1, b'\'')?)),
        Begins::Quote => Some((TokenKind::String, scan::escaped(text, at + 1)?)),
        Begins::DoubleQuote => Some((TokenKind::Quoted, identifier(text, at)?)),
        Begins::Dollar => dollar(text, at),
        Begins::Dot if text.get(at + 1).is_some_and(u8::is_ascii_digit) => {
            Some((TokenKind::Number, scan::number(text, at)?))
        }
        Begins::Dot | Begins::Punctuation => Some((TokenKind::Punctuation, at + 1)),
        Begins::Operator => Some((TokenKind::Operator, scan::operator(text, at))),
        Begins::Space | Begins::Nothing => None,
    }
}

/// What begins with a dollar: a parameter, or a string.
pub(crate) fn dollar(text: &[u8], at: usize) -> Option<(TokenKind, usize)> {
    if text.get(at + 1).is_some_and(u8::is_ascii_digit) {
        return Some((TokenKind::Parameter, scan::parameter(text, at)?));
    }
    Some((TokenKind::String, scan::dollar_quoted(text, at)?))
}

/// The end of a quoted identifier that begins at `at`. The server refuses one without a character, and cuts a long one.
fn identifier(text: &[u8], at: usize) -> Option<usize> {
    let end = scan::quoted(text, at + 1, b'"')?;
    (end - at > 2 && scan::is_cut_alike(&text[at + 1..end - 1])).then_some(end)
}

/// Whether an identifier with Unicode escapes begins here.
fn is_unicode_name(text: &[u8], at: usize) -> bool {
    matches!(text[at..], [b'u' | b'U', b'&', b'"', ..])
}

/// Where the string ends whose prefix is the word from `at` to `end`: `Some(None)` if it is a word and no prefix, and
/// `None` if it begins something that cannot be told. //= pg18 sql-syntax-lexical#SQL-SYNTAX-STRINGS
#[inline(always)]
pub(crate) fn prefixed(text: &[u8], at: usize, end: usize, standard: bool) -> Option<Option<usize>> {
    if end - at > 1 {
        return Some(None);
    }
    match text.get(end) {
        Some(b'\'' | b'&') => prefixed_by(text, at, standard),
        _ => Some(None),
    }
}

#[inline(never)]
fn prefixed_by(text: &[u8], at: usize, standard: bool) -> Option<Option<usize>> {
    let inside: fn(&[u8], usize) -> Option<usize> = match (text[at], text[at + 1], text.get(at + 2)) {
        (b'e' | b'E', b'\'', _) => scan::escaped,
        (b'b' | b'B' | b'x' | b'X', b'\'', _) => |text, at| scan::quoted(text, at, b'\''),
        // A national string is a word and a string, read as any other.
        (b'n' | b'N', b'\'', _) => return Some(None),
        // A string with Unicode escapes is an error if backslashes escape anyway.
        (b'u' | b'U', b'&', Some(b'\'')) if standard => return unicode(text, at + 3).map(Some),
        (b'u' | b'U', b'&', Some(b'\'' | b'"')) => return None,
        _ => return Some(None),
    };
    with_continuations(text, at + 2, inside).map(Some)
}

fn unicode(text: &[u8], at: usize) -> Option<usize> {
    with_continuations(text, at, |text, at| scan::quoted(text, at, b'\''))
}

/// A string that goes on in a later line is read by the rules it began with.
fn with_continuations(text: &[u8], at: usize, inside: fn(&[u8], usize) -> Option<usize>) -> Option<usize> {
    let mut end = inside(text, at)?;
    while let Some(again) = scan::continuation(text, end) {
        end = inside(text, again)?;
    }
    Some(end)
}
