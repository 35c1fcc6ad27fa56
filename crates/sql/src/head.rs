//! A cursor over one statement's tokens: takes keywords, names and pieces of source.
//!
//! What it walks over has been divided into tokens before, so it knows no errors: where a token is not what is asked for
//! nothing is taken.

use crate::lexer::{Lexer, Token, TokenKind};
use crate::name::{Name, part_bytes};
use crate::scan::WORD_LEN_MAX;
use crate::text::Text;

#[derive(Clone, Debug)]
pub(crate) struct Head<'a, 't> {
    text: &'a Text<'t>,
    lexer: Lexer<'a, 't>,
    current: Option<Token>,
    /// The current word, folded; empty for any other token.
    folded: Folded,
}

/// A name of at most 63 bytes as the server knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Folded {
    bytes: [u8; WORD_LEN_MAX],
    len: usize,
}

impl Folded {
    const EMPTY: Folded = Folded { bytes: [0; WORD_LEN_MAX], len: 0 };

    /// Of a word or a quoted identifier, as written.
    pub(crate) fn of(written: &[u8]) -> Folded {
        let mut folded = Folded::EMPTY;
        for (to, byte) in folded.bytes.iter_mut().zip(part_bytes(written)) {
            *to = byte;
            folded.len += 1;
        }
        folded
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl<'a, 't> Head<'a, 't> {
    /// `start` and `end` are borders of tokens.
    pub(crate) fn new(text: &'a Text<'t>, start: usize, end: usize) -> Head<'a, 't> {
        let mut head = Head { text, lexer: Lexer::between(text, start, end), current: None, folded: Folded::EMPTY };
        head.advance();
        head
    }

    pub(crate) fn advance(&mut self) {
        self.current = self.lexer.token().ok().flatten();
        self.folded = match self.current {
            Some(token) if token.kind == TokenKind::Word => Folded::of(self.source(token.start, token.end)),
            _ => Folded::EMPTY,
        };
    }

    /// As it is one token further.
    pub(crate) fn next(&self) -> Head<'a, 't> {
        let mut next = self.clone();
        next.advance();
        next
    }

    pub(crate) fn current(&self) -> Option<Token> {
        self.current
    }

    pub(crate) fn kind(&self) -> Option<TokenKind> {
        self.current.map(|token| token.kind)
    }

    /// The current word, folded; empty for any other token.
    pub(crate) fn word(&self) -> &[u8] {
        self.folded.as_slice()
    }

    pub(crate) fn at(&self, word: &str) -> bool {
        self.word() == word.as_bytes()
    }

    pub(crate) fn at_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.at(word))
    }

    /// Whether the current token is punctuation or an operator that begins with this byte.
    pub(crate) fn at_byte(&self, byte: u8) -> bool {
        let is_symbol = matches!(self.kind(), Some(TokenKind::Punctuation | TokenKind::Operator));
        is_symbol && self.start().and_then(|at| self.text.source().get(at)) == Some(&byte)
    }

    /// The current token is this name, in quotes or without.
    pub(crate) fn is_name(&self, name: &[u8]) -> bool {
        match self.current {
            Some(token) if token.kind == TokenKind::Quoted => Name::of(self.source(token.start, token.end)).is(name),
            _ => self.word() == name,
        }
    }

    pub(crate) fn done(&self) -> bool {
        self.current.is_none()
    }

    pub(crate) fn take(&mut self, word: &str) -> bool {
        let is = self.at(word);
        if is {
            self.advance();
        }
        is
    }

    pub(crate) fn take_any(&mut self, words: &[&str]) -> bool {
        let is = self.at_any(words);
        if is {
            self.advance();
        }
        is
    }

    /// All of these words in a row, or none.
    pub(crate) fn take_all(&mut self, words: &[&str]) -> Option<()> {
        let mut ahead = self.clone();
        for word in words {
            ahead.take(word).then_some(())?;
        }
        *self = ahead;
        Some(())
    }

    pub(crate) fn take_kind(&mut self, kind: TokenKind) -> Option<Token> {
        let token = self.current.filter(|token| token.kind == kind)?;
        self.advance();
        Some(token)
    }

    /// A name of one part. A name beyond ASCII in a text that had to be copied is not told: the server folds and compares
    /// it in its own encoding.
    pub(crate) fn name(&mut self) -> Option<Name<'t>> {
        self.written_name().map(Name::of)
    }

    pub(crate) fn written_name(&mut self) -> Option<&'t [u8]> {
        let token = self.current.filter(|token| matches!(token.kind, TokenKind::Word | TokenKind::Quoted))?;
        let written = self.source(token.start, token.end);
        if self.text.is_copied() && !written.is_ascii() {
            return None;
        }
        self.advance();
        Some(written)
    }

    /// All that is left of the statement.
    pub(crate) fn rest(&mut self) -> &'t [u8] {
        let start = self.start().unwrap_or(0);
        let mut end = start;
        while let Some(token) = self.current() {
            end = token.end;
            self.advance();
        }
        self.source(start, end)
    }

    /// A list in parentheses, if one begins here; `None` if it does not end.
    pub(crate) fn skip_parentheses(&mut self) -> Option<()> {
        if !self.at_byte(b'(') {
            return Some(());
        }
        let mut depth = 0_u32;
        while !self.done() {
            if self.at_byte(b'(') {
                depth += 1;
            } else if self.at_byte(b')') {
                depth -= 1;
            }
            self.advance();
            if depth == 0 {
                return Some(());
            }
        }
        None
    }

    /// A string, as written: one token, or several where it goes on in later lines.
    pub(crate) fn strings(&mut self) -> Option<&'t [u8]> {
        let first = self.take_kind(TokenKind::String)?;
        let mut end = first.end;
        while let Some(next) = self.take_kind(TokenKind::String) {
            end = next.end;
        }
        // What else could follow is the character that escapes in the string.
        if self.at("uescape") {
            self.advance();
            end = self.take_kind(TokenKind::String)?.end;
        }
        Some(self.source(first.start, end))
    }

    /// Where the current token starts.
    pub(crate) fn start(&self) -> Option<usize> {
        self.current.map(|token| token.start)
    }

    pub(crate) fn source(&self, start: usize, end: usize) -> &'t [u8] {
        &self.text.source()[start..end]
    }
}
