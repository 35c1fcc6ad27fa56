//! The statements of a text: where each stands, what it is, and its marks.
//!
//! A simple Query may hold several; the server reads all of them before it runs the first.
//! //= pg18 protocol-flow#PROTOCOL-FLOW-MULTI-STATEMENT

use crate::calls::{self, SetConfigs};
use crate::head::Head;
use crate::kind::Kind;
use crate::marks::Marks;
use crate::outline::{Outline, outline};
use crate::reads::may_read;
use crate::text::Text;
use crate::transactions::after_comments;
use crate::{definitions, grammar};
use std::ops::Range;

/// One statement of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statement<'t> {
    pub kind: Kind<'t>,
    /// Those of its kind, and of all that stands in it.
    pub marks: Marks,
    /// As written, from its first token to its last.
    pub source: &'t [u8],
    /// Where that begins in the text.
    pub start: usize,
}

/// Statements from left to right; empty ones are left out. What cannot be divided into tokens ends it with one of unknown kind.
#[derive(Debug)]
pub struct Statements<'a, 't> {
    text: &'a Text<'t>,
    at: usize,
    /// Where a function's body ended is not certain enough to believe what stands behind it.
    after_body: bool,
}

impl<'t> Text<'t> {
    /// The text's statements. Costs a walk over the text, and allocates nothing.
    pub fn statements(&self) -> Statements<'_, 't> {
        Statements { text: self, at: 0, after_body: false }
    }
}

impl<'t> Iterator for Statements<'_, 't> {
    type Item = Statement<'t>;

    fn next(&mut self) -> Option<Statement<'t>> {
        let end = self.text.read().len();
        if self.at >= end {
            return None;
        }
        match outline(self.text, self.at, None) {
            Ok(outline) => {
                let outline = outline?;
                self.at = outline.next;
                let statement = statement(self.text, &outline);
                let is_known = !self.after_body;
                self.after_body |= outline.has_body;
                if is_known { Some(statement) } else { Some(statement.unknown()) }
            }
            Err(_) => {
                let start = std::mem::replace(&mut self.at, end);
                let source = &self.text.source()[start..];
                Some(Statement { kind: Kind::Unknown, marks: Marks::UNKNOWN, source, start })
            }
        }
    }
}

impl<'t> Statement<'t> {
    /// The calls of set_config in the statement, which is one of `text`. Costs a walk over it, and allocates nothing. A type
    /// or a prepared statement of that name looks the same: `execute set_config('a', 'b', true)`.
    pub fn set_config_calls<'a>(&self, text: &'a Text<'t>) -> SetConfigs<'a, 't> {
        SetConfigs::between(text, self.range().start, self.range().end)
    }

    /// The statement, one of `text`, is SELECT of such calls, of literals and parameters, and of nothing else: each runs
    /// once, from left to right.
    pub fn only_sets_config(&self, text: &Text<'t>) -> bool {
        calls::only_sets_config(text, self.range().start, self.range().end)
    }

    /// Where it stands in the text, in bytes.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.source.len()
    }

    /// Whether its first word is this one, which is in ASCII.
    pub fn begins_with(&self, word: &str) -> bool {
        let (first, rest) = match after_comments(self.source).split_at_checked(word.len()) {
            Some(parts) => parts,
            None => return false,
        };
        let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        first.eq_ignore_ascii_case(word.as_bytes()) && !rest.first().is_some_and(goes_on)
    }

    fn unknown(self) -> Self {
        Statement { kind: Kind::Unknown, marks: self.marks | Marks::UNKNOWN, ..self }
    }
}

pub(crate) fn statement<'t>(text: &Text<'t>, outline: &Outline) -> Statement<'t> {
    let source = &text.source()[outline.start..outline.end];
    let head = Head::new(text, outline.start, outline.end);
    let (kind, marks) =
        if outline.marks.any(Marks::UNKNOWN) { (Kind::Unknown, outline.marks) } else { classify(&head, outline.marks) };
    let mut marks = kind.marks() | marks;
    let defines = marks.any(Marks::ROUTINES | Marks::RELATIONS) && !marks.any(Marks::TEMPORARY);
    if defines && !definitions::keeps_results(&head) {
        marks |= Marks::PERMANENT;
    }
    Statement { kind, marks, source, start: outline.start }
}

/// Whether a statement only reads, as far as its words tell.
pub(crate) fn only_reads(text: &Text<'_>, outline: &Outline, marks: Marks) -> bool {
    const OTHERS: Marks =
        Marks::UNKNOWN.and(Marks::TWO_PHASE).and(Marks::ALONE).and(Marks::RELATIONS).and(Marks::TEMPORARY);
    !outline.may_write && !marks.any(OTHERS) && may_read(&Head::new(text, outline.start, outline.end))
}

/// The kind of a statement, and `marks` with those of its first words.
fn classify<'t>(head: &Head<'_, 't>, marks: Marks) -> (Kind<'t>, Marks) {
    let plain = |more: Marks| (Kind::Plain, marks | more);
    match head.word() {
        b"select" | b"insert" | b"update" | b"delete" | b"merge" | b"values" | b"table" | b"with" => plain(Marks::NONE),
        b"" if head.at_byte(b'(') => plain(Marks::NONE),
        b"analyze" | b"analyse" | b"checkpoint" | b"comment" | b"grant" | b"lock" | b"revoke" | b"security"
        | b"truncate" => plain(Marks::NONE),
        b"refresh" => plain(Marks::NONE),
        b"show" => plain(Marks::SETTINGS_READ),
        b"vacuum" | b"cluster" | b"reindex" => plain(Marks::ALONE),
        b"import" => plain(Marks::RELATIONS),
        b"reassign" => plain(Marks::RELATIONS | Marks::ROUTINES),
        b"create" | b"alter" | b"drop" => match definitions::marks(head, marks) {
            Some(more) => (definitions::kind(head), marks | more),
            None => (Kind::Unknown, marks),
        },
        b"do" => (Kind::Do, marks),
        b"call" => (Kind::Call, marks),
        b"copy" => (Kind::Copy, marks),
        b"fetch" | b"move" => (Kind::Fetch, marks),
        _ => (grammar::kind(head).unwrap_or(Kind::Unknown), marks),
    }
}

#[cfg(test)]
mod tests {
    use crate::text::{Rules, Text};

    #[test]
    fn a_first_word_is_known_after_comments_and_in_any_case() {
        let begins = |text: &str| {
            let text = Text::new(text.as_bytes(), Rules::default());
            text.statements().last().is_some_and(|statement| statement.begins_with("lock"))
        };
        assert!(begins("commit; /* x */ LOCK t") && begins("lock"));
        assert!(
            !begins("locked")
                && !begins("lock_t")
                && !begins("loc")
                && !begins("select lock")
                && !begins("lock; select 1")
        );
    }
}
