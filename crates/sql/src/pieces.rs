//! A text that comes in pieces and is not kept whole: what is left of it without comments and what stands in strings.
//!
//! A statement is large because of its constants. [`Pieces`] is given it piece by piece, cut anywhere, and gathers its
//! shape: a short text with the same tokens, but empty strings. The shape is then read as any text. It takes the bytes of
//! the shape, bounded, and a few hundred of a token that is cut.
//!
//! It gives up, rather than guess, where a piece ends in something it would have to keep too much of.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::scan;
use crate::text::{Encoding, Rules, Text};

/// What is kept of a token that is cut; longer ones are no names that a server knows.
const CARRY_MAX: usize = 512;
/// How many bytes behind a token tell that it ends there.
const AHEAD: usize = 2;

/// What the last piece ended in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Inside {
    Nothing,
    /// A string. `goes_on`: it may go on by its own rules behind a line's end.
    String {
        escapes: bool,
        goes_on: bool,
    },
    /// A string between these.
    Dollar(Vec<u8>),
    Comment {
        depth: u32,
    },
    Line,
}

/// Gathers the shape of a text.
#[derive(Debug)]
pub struct Pieces {
    rules: Rules,
    shape_max: usize,
    shape: Vec<u8>,
    /// The end of the last piece that could not be told yet.
    carry: Vec<u8>,
    inside: Inside,
    is_lost: bool,
}

impl Pieces {
    /// For a text of these rules, with a shape of at most `shape_max` bytes.
    pub fn new(rules: Rules, shape_max: usize) -> Pieces {
        let (shape, carry, inside) = (Vec::new(), Vec::new(), Inside::Nothing);
        // A piece may end within a character, and in other encodings characters count.
        Pieces { rules, shape_max, shape, carry, inside, is_lost: rules.encoding != Encoding::Safe }
    }

    /// The next piece of the text.
    pub fn add(&mut self, piece: &[u8]) {
        if self.is_lost {
            return;
        }
        let mut bytes = std::mem::take(&mut self.carry);
        bytes.extend_from_slice(piece);
        let mut at = 0;
        while at < bytes.len() {
            let end =
                if self.inside == Inside::Nothing { self.tokens(&bytes, at) } else { self.rest_inside(&bytes, at) };
            let Some(end) = end else { break };
            at = end;
        }
        self.is_lost |= self.carry.len() > CARRY_MAX || self.shape.len() > self.shape_max;
    }

    /// The shape: a text with the same marks and words, whose strings are empty; so of settings and prepared statements it
    /// holds the names, but neither values nor bodies. `None` if it could not be told.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        // A new line and an empty statement end whatever can end.
        self.add(b"\n;  ");
        (self.inside == Inside::Nothing && !self.is_lost).then(|| {
            self.shape.extend_from_slice(&self.carry);
            self.shape
        })
    }

    /// Whole tokens from `at`: behind what opens something that may be long, `None` if all was gone over or is carried.
    fn tokens(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let text = Text::new(bytes, self.rules);
        let mut lexer = Lexer::between(&text, at, bytes.len());
        let mut done = at;
        while let Ok(Some(token)) = lexer.token() {
            if !is_whole(bytes, &token) {
                break;
            }
            self.keep(bytes, done, &token);
            done = token.end;
        }
        self.shape.push(b' ');
        self.cut(bytes, gap_end(bytes, done))
    }

    fn keep(&mut self, bytes: &[u8], done: usize, token: &Token) {
        if token.start > done {
            self.shape.push(b' ');
        }
        match token.kind {
            TokenKind::String => self.shape.extend_from_slice(b" '' "),
            _ => self.shape.extend_from_slice(&bytes[token.start..token.end]),
        }
    }

    /// What begins at `start` goes on in the next piece, or may do so.
    fn cut(&mut self, bytes: &[u8], start: usize) -> Option<usize> {
        let rest = &bytes[start..];
        let standard = self.rules.standard_strings;
        let (inside, len) = match rest {
            [b'-', b'-', ..] => (Inside::Line, 2),
            [b'/', b'*', ..] => (Inside::Comment { depth: 1 }, 2),
            [b'\'', ..] => (Inside::String { escapes: !standard, goes_on: false }, 1),
            [b'e' | b'E', b'\'', ..] => (Inside::String { escapes: true, goes_on: true }, 2),
            [b'b' | b'B' | b'x' | b'X', b'\'', ..] => (Inside::String { escapes: false, goes_on: true }, 2),
            [b'u' | b'U', b'&', b'\'', ..] if standard => (Inside::String { escapes: false, goes_on: true }, 3),
            [b'$', tag @ ..] if tag.first().is_some_and(|byte| !byte.is_ascii_digit()) => match delimiter_len(rest) {
                Some(len) => (Inside::Dollar(rest[..len].to_vec()), len),
                None => (Inside::Nothing, 0),
            },
            _ => (Inside::Nothing, 0),
        };
        if inside == Inside::Nothing {
            self.carry = rest.to_vec();
            return None;
        }
        if !matches!(inside, Inside::Line | Inside::Comment { .. }) {
            self.shape.extend_from_slice(b" '' ");
        }
        self.inside = inside;
        Some(start + len)
    }

    /// The rest of what the last piece ended in: where it ends, or `None` if it does not end here.
    fn rest_inside(&mut self, bytes: &[u8], at: usize) -> Option<usize> {
        let end = match &mut self.inside {
            Inside::Nothing => Ok(at),
            Inside::Line => scan::find_either(bytes, at, b'\n', b'\r').ok_or(bytes.len()),
            Inside::Comment { depth } => comment_end(bytes, at, depth),
            Inside::Dollar(delimiter) => {
                let found = bytes[at..].windows(delimiter.len()).position(|part| part == delimiter.as_slice());
                let kept = bytes.len().saturating_sub(delimiter.len() - 1).max(at);
                found.map(|from| at + from + delimiter.len()).ok_or(kept)
            }
            Inside::String { escapes, goes_on } => string_end(bytes, at, *escapes, *goes_on),
        };
        match end {
            Ok(end) => {
                self.inside = Inside::Nothing;
                Some(end)
            }
            Err(kept) => {
                self.carry = bytes[kept..].to_vec();
                None
            }
        }
    }
}

/// Behind white space and comments that have ended.
fn gap_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let end = match &bytes[at..] {
            [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => Some(at + 1),
            [b'-', b'-', ..] => scan::find_either(bytes, at, b'\n', b'\r'),
            [b'/', b'*', ..] => scan::comment(bytes, at),
            _ => None,
        };
        let Some(end) = end else { return at };
        at = end;
    }
}

/// Nothing that could follow would change the token.
fn is_whole(bytes: &[u8], token: &Token) -> bool {
    if token.end + AHEAD > bytes.len() {
        return false;
    }
    let is_prefixed = token.kind == TokenKind::String && bytes[token.start].is_ascii_alphabetic();
    !is_prefixed || !may_go_on(bytes, token.end)
}

/// Behind a string there is nothing yet that tells whether it goes on.
fn may_go_on(bytes: &[u8], at: usize) -> bool {
    let text = Text::new(bytes, Rules::default());
    matches!(Lexer::between(&text, at, bytes.len()).token(), Ok(None)) || bytes.last() == Some(&b'-')
}

/// Of `$tag$`, if it is whole.
fn delimiter_len(bytes: &[u8]) -> Option<usize> {
    let tag = bytes[1..].iter().position(|byte| *byte == b'$' || !scan::continues_word(*byte))?;
    (bytes[1 + tag] == b'$').then_some(tag + 2)
}

/// Where a comment ends. Errors: from where its bytes are to be seen again.
fn comment_end(bytes: &[u8], mut at: usize, depth: &mut u32) -> Result<usize, usize> {
    while let Some(place) = scan::find_either(bytes, at, b'*', b'/') {
        at = place + 2;
        match (bytes[place], bytes.get(place + 1)) {
            (_, None) => return Err(place),
            (b'*', Some(b'/')) if *depth == 1 => return Ok(at),
            (b'*', Some(b'/')) => *depth -= 1,
            (b'/', Some(b'*')) => *depth += 1,
            _ => at = place + 1,
        }
    }
    Err(bytes.len())
}

/// Where a string ends. Errors: from where its bytes are to be seen again.
fn string_end(bytes: &[u8], mut at: usize, escapes: bool, goes_on: bool) -> Result<usize, usize> {
    let other = if escapes { b'\\' } else { b'\'' };
    while let Some(place) = scan::find_either(bytes, at, b'\'', other) {
        let Some(next) = bytes.get(place + 1) else { return Err(place) };
        at = place + 2;
        if bytes[place] == b'\\' || *next == b'\'' {
            continue;
        }
        if !goes_on {
            return Ok(place + 1);
        }
        match scan::continuation(bytes, place + 1) {
            Some(again) => at = again,
            None if may_go_on(bytes, place + 1) => return Err(place),
            None => return Ok(place + 1),
        }
    }
    Err(bytes.len())
}
