//! Where a statement of a text ends, and the marks that stand anywhere in it.
//!
//! One walk over all its tokens. A semicolon ends a statement unless it stands in parentheses (rules of several
//! commands) or in the body of a function in SQL's own form, BEGIN ATOMIC … END.

use crate::calls;
use crate::head::Folded;
use crate::lexer::{Lexer, Token, TokenKind, Unlexable};
use crate::marks::{Marks, of_a_word};
use crate::reads::may_write;
use crate::text::Text;
use crate::words::Words;

/// A statement's place, before it is known what it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Outline {
    pub(crate) start: usize,
    /// After its last token.
    pub(crate) end: usize,
    /// After its semicolon, or the end of the text.
    pub(crate) next: usize,
    pub(crate) marks: Marks,
    /// It defines a function in SQL's own form, which ends where its END is.
    pub(crate) has_body: bool,
    /// A word in it tells that it may write.
    pub(crate) may_write: bool,
}

/// The next statement from `at`; `Ok(None)` if nothing but white space, comments and semicolons is left.
pub(crate) fn outline(text: &Text<'_>, at: usize, words: Option<&mut Words>) -> Result<Option<Outline>, Unlexable> {
    let mut lexer = Lexer::between(text, at, text.read().len());
    let mut walk = OutlineWalk::new(words);
    let mut found: Option<Outline> = None;
    while let Some(token) = lexer.token()? {
        let byte = text.read()[token.start];
        let symbol = if token.kind == TokenKind::Punctuation { byte } else { 0 };
        if symbol == b';' && walk.is_outermost() {
            let Some(outline) = &mut found else { continue };
            outline.next = token.end;
            break;
        }
        let outline = found.get_or_insert(Outline {
            start: token.start,
            end: 0,
            next: 0,
            marks: Marks::NONE,
            has_body: false,
            may_write: false,
        });
        (outline.end, outline.next) = (token.end, text.read().len());
        walk.token(text, token, symbol);
    }
    walk.finish_word(false);
    Ok(found.map(|outline| {
        let mut marks = walk.marks();
        if marks.any(Marks::SET_CONFIG) {
            marks = marks.without(Marks::SET_CONFIG) | calls::marks(text, outline.start, outline.end);
        }
        Outline { marks, has_body: walk.body == Body::Closed, may_write: walk.may_write, ..outline }
    }))
}

/// What the last words may be the beginning of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Other,
    /// INSERT, MERGE: what follows INTO is a table.
    Insert,
    /// CREATE or INTO, and what may stand between it and TEMPORARY.
    Making,
    /// AS, or a dot: what follows is a name whatever it is.
    Label,
    Begin,
}

/// The body of a function in SQL's own form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Body {
    /// There can be none.
    Never,
    /// In the words `create or replace`: how many of them were there.
    Create(u8),
    /// In a function, before its body.
    Function,
    /// So many of BEGIN and CASE are open.
    Open(u32),
    /// After its END only a semicolon can follow.
    Closed,
    /// Not understood.
    Lost,
}

struct OutlineWalk<'w> {
    words: Option<&'w mut Words>,
    /// The last token, if it was a name, and whether it may be a keyword: it is called if a parenthesis follows.
    pending: Option<(Folded, bool)>,
    last: Last,
    body: Body,
    parentheses: u32,
    /// Bit by bit, at which depths of parentheses a SELECT is under way: there INSERT may be a column's name.
    selects: u64,
    marks: Marks,
    may_write: bool,
}

impl<'w> OutlineWalk<'w> {
    fn new(words: Option<&'w mut Words>) -> OutlineWalk<'w> {
        let (last, body) = (Last::Other, Body::Create(0));
        OutlineWalk {
            words,
            pending: None,
            last,
            body,
            parentheses: 0,
            selects: 0,
            marks: Marks::NONE,
            may_write: false,
        }
    }

    fn is_outermost(&self) -> bool {
        self.parentheses == 0 && !matches!(self.body, Body::Open(_))
    }

    fn marks(&self) -> Marks {
        let lost = matches!(self.body, Body::Lost | Body::Open(_));
        if lost { self.marks | Marks::UNKNOWN } else { self.marks }
    }

    fn token(&mut self, text: &Text<'_>, token: Token, symbol: u8) {
        self.finish_word(symbol == b'(');
        if self.body == Body::Closed {
            self.body = Body::Lost;
        }
        match (token.kind, symbol) {
            (TokenKind::Word, _) => {
                let folded = Folded::of(&text.source()[token.start..token.end]);
                self.pending = Some((folded, self.last != Last::Label));
                self.word(folded.as_slice());
                return;
            }
            (TokenKind::Quoted, _) => {
                let folded = Folded::of(&text.source()[token.start..token.end]);
                self.marks |= of_a_word(folded.as_slice());
                self.may_write |= may_write(folded.as_slice());
                self.pending = Some((folded, false));
            }
            (_, b'(') => self.parentheses = self.parentheses.saturating_add(1),
            (_, b')') => {
                self.selects &= !self.depth_bit();
                self.parentheses = self.parentheses.saturating_sub(1);
            }
            (_, b';') => self.selects &= !self.depth_bit(),
            _ => {}
        }
        self.last = if symbol == b'.' { Last::Label } else { Last::Other };
        if matches!(self.body, Body::Create(_)) {
            self.body = Body::Never;
        }
    }

    fn finish_word(&mut self, is_called: bool) {
        if let (Some((folded, may_be_keyword)), Some(words)) = (self.pending.take(), self.words.as_deref_mut()) {
            words.add(folded.as_slice(), may_be_keyword, is_called);
        }
    }

    fn word(&mut self, word: &[u8]) {
        self.marks |= of_a_word(word);
        self.may_write |= may_write(word);
        if matches!(word, b"temp" | b"temporary") && self.last == Last::Making {
            self.marks |= Marks::TEMPORARY;
        }
        if word == b"into" && self.last != Last::Insert {
            // SELECT INTO makes a table.
            self.marks |= Marks::RELATIONS;
        }
        if word == b"select" {
            self.selects |= self.depth_bit();
        }
        self.body(word);
        self.last = match word {
            b"create" => Last::Making,
            b"into" if self.last != Last::Insert => Last::Making,
            b"or" | b"replace" | b"local" | b"global" if self.last == Last::Making => Last::Making,
            b"insert" | b"merge" if self.selects & self.depth_bit() == 0 => Last::Insert,
            b"as" => Last::Label,
            b"begin" => Last::Begin,
            _ => Last::Other,
        };
    }

    /// Of the depth we are at; those beyond the last bit share it.
    fn depth_bit(&self) -> u64 {
        1 << self.parentheses.min(63)
    }

    //= pg18 sql-createfunction
    fn body(&mut self, word: &[u8]) {
        let labels = self.last == Last::Label;
        self.body = match (self.body, word) {
            (Body::Create(0), b"create") | (Body::Create(1), b"or") | (Body::Create(2), b"replace") => self.one_more(),
            (Body::Create(1 | 3), b"function" | b"procedure") => Body::Function,
            (Body::Create(_), _) => Body::Never,
            (Body::Function, b"atomic") if self.last == Last::Begin && self.parentheses == 0 => Body::Open(1),
            (Body::Open(open), b"case") if !labels => Body::Open(open.saturating_add(1)),
            (Body::Open(1), b"end") if !labels => Body::Closed,
            (Body::Open(open), b"end") if !labels => Body::Open(open - 1),
            (body, _) => body,
        };
    }

    fn one_more(&self) -> Body {
        match self.body {
            Body::Create(count) => Body::Create(count + 1),
            body => body,
        }
    }
}
