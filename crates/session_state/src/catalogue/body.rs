//! What a function's body may do to the session, as its text tells: PL/pgSQL and SQL are read alike, since both have the
//! same tokens.
//!
//! It is not parsed. A word is taken for a statement's beginning where one may begin; what is found beside that is too
//! much rather than too little. Where a body runs texts, the strings in it are read as bodies too, since the texts are
//! made of them.

use super::built_in;
use crate::side_effects::SideEffects;
use sql::{Lexer, Marks, Rules, Summary, Text, Token, TokenKind, Unlexable, Word};

/// Strings within strings are read so deep.
const DEPTH_MAX: u32 = 3;

/// What was found in a body.
#[derive(Debug, Default)]
pub(super) struct Body {
    /// But for what the functions and tables do that it names.
    pub(super) side_effects: SideEffects,
    /// The names in it.
    pub(super) words: Vec<Word>,
    /// Settings with a dot in their names that it changes, in lower case.
    pub(super) settings: Vec<Box<[u8]>>,
    /// It may write to the tables that it names.
    pub(super) writes: bool,
    /// It may add rows to them.
    pub(super) fills: bool,
}

impl Body {
    pub(super) fn read(source: &[u8]) -> Body {
        let mut body = Body::default();
        body.add(source, 0);
        body.finish()
    }

    /// Of a text that defines something: any string in it may be a function's body.
    pub(super) fn of_definition(source: &[u8]) -> Body {
        let mut body = Body::default();
        body.add(source, 0);
        let text = Text::new(source, Rules::default());
        body.add_strings(&text, &tokens(&text).unwrap_or_default(), 0);
        body.finish()
    }

    /// Of the strings in a text: what the text itself says is known without.
    pub(super) fn of_strings(source: &[u8]) -> Body {
        let mut body = Body::default();
        let text = Text::new(source, Rules::default());
        body.add_strings(&text, &tokens(&text).unwrap_or_default(), 0);
        body.finish()
    }

    fn finish(self) -> Body {
        let mut body = self;
        body.writes = body.has_any(&built_in::WRITES);
        body.fills = body.has_any(&built_in::FILLS);
        body
    }

    fn has_any(&self, keywords: &[&str]) -> bool {
        let keywords: Vec<Word> = keywords.iter().map(|word| Word::of(word.as_bytes())).collect();
        self.words.iter().any(|word| keywords.contains(&word.name()))
    }

    fn add(&mut self, source: &[u8], depth: u32) {
        let text = Text::new(source, Rules::default());
        let Ok(tokens) = tokens(&text) else {
            // A body that PostgreSQL reads and we do not; or a piece of a text, cut where it is put together.
            self.side_effects |= if depth == 0 { SideEffects::UNKNOWN } else { SideEffects::DYNAMIC };
            let plain = without_quotes(source);
            let text = Text::new(&plain, Rules::default());
            let tokens = tokens(&text).unwrap_or_default();
            return self.add_tokens(&text, &tokens, depth);
        };
        self.add_tokens(&text, &tokens, depth);
    }

    fn add_tokens(&mut self, text: &Text<'_>, tokens: &[Token], depth: u32) {
        let summary = Summary::of(text);
        self.side_effects |= built_in::of_marks(summary.marks());
        self.side_effects |= built_in::of_writing(&summary);
        self.words.extend_from_slice(summary.words());
        if summary.marks().any(Marks::SET_CONFIG) {
            self.set_config_calls(text);
        }
        let walk = Walk { source: text.source(), tokens };
        let mut runs_text = summary.marks().any(Marks::DBLINK)
            || summary.words().iter().any(|word| word.is_called() && runs_text(word.name()));
        for at in (0..tokens.len()).filter(|at| tokens[*at].kind == TokenKind::Word) {
            runs_text |= self.word(&walk, at, depth > 0);
        }
        if !runs_text {
            return;
        }
        if depth == DEPTH_MAX {
            self.side_effects |= SideEffects::DYNAMIC;
            return;
        }
        self.add_strings(text, tokens, depth);
    }

    fn add_strings(&mut self, text: &Text<'_>, tokens: &[Token], depth: u32) {
        for token in tokens.iter().filter(|token| token.kind == TokenKind::String) {
            self.add(&without_its_quotes(&text.source()[token.start..token.end]), depth + 1);
        }
    }

    /// The settings that are named in calls which are not local.
    fn set_config_calls(&mut self, text: &Text<'_>) {
        for statement in text.statements().filter(|statement| statement.marks.any(Marks::SET_CONFIG)) {
            let mut calls = 0;
            for call in statement.set_config_calls(text) {
                calls += 1;
                let is_dotted = call.name.is_none_or(|name| name.contains(&b'.'));
                if call.is_reset && is_dotted && call.local != Some(true) {
                    self.side_effects |= SideEffects::RESETS;
                }
                match call.name {
                    _ if call.local == Some(true) => {}
                    Some(name) => self.setting(name),
                    None => self.side_effects |= SideEffects::DYNAMIC_SETTINGS,
                }
            }
            // Named, and not called: what for, nobody knows.
            self.side_effects |= if calls == 0 { SideEffects::DYNAMIC_SETTINGS } else { SideEffects::NONE };
        }
    }

    fn setting(&mut self, name: &[u8]) {
        if name.contains(&b'.') {
            self.settings.push(name.to_ascii_lowercase().into());
        }
    }

    /// One word, which may begin a statement. Whether a text is run there, out of strings. `is_run`: these tokens are such a text.
    fn word(&mut self, walk: &Walk<'_>, at: usize, is_run: bool) -> bool {
        #[rustfmt::skip]
        const BEGINNINGS: [&str; 13] = [
            "set", "reset", "listen", "unlisten", "notify", "load", "prepare", "deallocate", "discard", "do", "create", "alter", "import",
        ];
        if walk.is(at, "execute") {
            return self.execute(walk, at, is_run);
        }
        if walk.is(at, "hold") && walk.is_after(at, "with") {
            self.side_effects |= SideEffects::HOLD;
        }
        if walk.is(at, "notify") && walk.may_begin_action(at) {
            self.side_effects |= SideEffects::NOTIFIES;
        }
        let Some(word) = BEGINNINGS.iter().find(|word| walk.is(at, word)) else { return false };
        if !walk.may_begin(at) {
            return false;
        }
        self.side_effects |= match *word {
            "create" | "alter" | "import" => walk.definition(at),
            "set" => return self.set(walk, at + 1),
            "reset" if walk.byte(at + 2) == Some(b'.') || walk.is(at + 1, "all") => {
                SideEffects::SETTINGS | SideEffects::RESETS
            }
            "reset" => SideEffects::SETTINGS,
            "listen" | "unlisten" => SideEffects::LISTEN,
            "notify" => SideEffects::NOTIFIES,
            "load" => SideEffects::LOAD,
            "prepare" if walk.is(at + 1, "transaction") => SideEffects::NONE,
            "prepare" | "deallocate" => SideEffects::PREPARED,
            "discard" => SideEffects::TEMPORARY | SideEffects::SEQUENCE,
            _ => return self.block(walk, at),
        };
        false
    }

    /// DO: its body is a string, in PL/pgSQL if it says nothing else. //= pg18 sql-do
    fn block(&mut self, walk: &Walk<'_>, at: usize) -> bool {
        let language = (at + 1..at + 3).find(|at| walk.is(*at, "language"));
        let is_known = |at: usize| ["plpgsql", "'plpgsql'", "\"plpgsql\""].iter().any(|name| walk.is(at, name));
        if language.is_some_and(|language| !is_known(language + 1)) {
            self.side_effects |= SideEffects::UNKNOWN;
        }
        true
    }

    /// EXECUTE of a text, unless it is a word of GRANT or of CREATE TRIGGER. In a text that is run, of a prepared statement.
    //= pg18 plpgsql-statements#PLPGSQL-STATEMENTS-EXECUTING-DYN
    fn execute(&mut self, walk: &Walk<'_>, at: usize, is_run: bool) -> bool {
        if ["on", "function", "procedure"].iter().any(|word| walk.is(at + 1, word)) {
            return false;
        }
        let ends = walk.byte(at + 2).is_none_or(|byte| byte == b';')
            || ["into", "using", "loop"].iter().any(|word| walk.is(at + 2, word));
        if walk.kind(at + 1) != Some(TokenKind::String) || !ends {
            self.side_effects |= SideEffects::DYNAMIC;
        }
        if is_run && walk.kind(at + 1) == Some(TokenKind::Word) {
            self.side_effects |= SideEffects::STATE_READ;
        }
        true
    }

    /// What follows SET. Never runs a text.
    fn set(&mut self, walk: &Walk<'_>, mut at: usize) -> bool {
        const OTHER_FORMS: [&str; 7] = ["authorization", "characteristics", "names", "role", "schema", "time", "xml"];
        if ["local", "transaction", "constraints"].iter().any(|word| walk.is(at, word)) {
            return false;
        }
        at += usize::from(walk.is(at, "session"));
        self.side_effects |= SideEffects::SETTINGS;
        let is_value = |at: usize| walk.byte(at) == Some(b'=') || walk.is(at, "to") || walk.is(at, "from");
        if walk.byte(at + 1) == Some(b'.') && is_value(at + 3) && walk.is(at + 4, "default") {
            self.side_effects |= SideEffects::RESETS;
        }
        if OTHER_FORMS.iter().any(|word| walk.is(at, word)) || is_value(at + 1) {
            return false;
        }
        if walk.byte(at + 1) == Some(b'.') && is_value(at + 3) {
            let name = [walk.name(at), &b"."[..], walk.name(at + 2)].concat();
            self.setting(&name);
        } else {
            self.side_effects |= SideEffects::DYNAMIC_SETTINGS;
        }
        false
    }
}

/// The tokens of a body.
struct Walk<'a> {
    source: &'a [u8],
    tokens: &'a [Token],
}

impl Walk<'_> {
    fn kind(&self, at: usize) -> Option<TokenKind> {
        self.tokens.get(at).map(|token| token.kind)
    }

    fn written(&self, at: usize) -> &[u8] {
        self.tokens.get(at).map_or(b"", |token| &self.source[token.start..token.end])
    }

    /// The first byte of the token.
    fn byte(&self, at: usize) -> Option<u8> {
        self.written(at).first().copied()
    }

    /// Without the quotes, if it has any.
    fn name(&self, at: usize) -> &[u8] {
        let written = self.written(at);
        written.strip_prefix(b"\"").and_then(|inside| inside.strip_suffix(b"\"")).unwrap_or(written)
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.written(at).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The side effects of a statement that begins here and defines something: nothing that is temporary matters to others.
    fn definition(&self, at: usize) -> SideEffects {
        const TEMPORARY: [&str; 3] = ["temp", "temporary", "pg_temp"];
        let is_temporary = (at + 1..at + 6).any(|at| TEMPORARY.iter().any(|word| self.is(at, word)));
        if is_temporary { SideEffects::NONE } else { SideEffects::DEFINES }
    }

    fn is_after(&self, at: usize, word: &str) -> bool {
        at > 0 && self.is(at - 1, word)
    }

    /// A statement may begin here.
    fn may_begin(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1) else { return true };
        // Behind a label, `>>` ends it.
        matches!(self.byte(before), Some(b';' | b'>'))
            || ["begin", "then", "else", "loop", "atomic"].iter().any(|word| self.is(before, word))
    }

    /// The first action of a rule may begin here: behind DO, DO ALSO or DO INSTEAD, perhaps in parentheses.
    fn may_begin_action(&self, at: usize) -> bool {
        let before = |back: usize| at.checked_sub(back);
        let is_do =
            |at: Option<usize>| at.is_some_and(|at| ["do", "also", "instead"].iter().any(|word| self.is(at, word)));
        let is_in_parentheses = before(1).is_some_and(|before| self.byte(before) == Some(b'('));
        is_do(before(1)) || is_in_parentheses && is_do(before(2))
    }
}

fn runs_text(name: Word) -> bool {
    built_in::RUN_TEXT.iter().any(|known| Word::of(known.as_bytes()) == name)
}

fn tokens(text: &Text<'_>) -> Result<Vec<Token>, Unlexable> {
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::new();
    while let Some(token) = lexer.token()? {
        tokens.push(token);
    }
    Ok(tokens)
}

/// What a string says: where backslashes escape, they are left out.
fn without_its_quotes(written: &[u8]) -> Vec<u8> {
    if written.first() == Some(&b'$') {
        let tag = written.iter().skip(1).position(|byte| *byte == b'$').map_or(0, |len| len + 2);
        return written.get(tag..written.len().saturating_sub(tag)).unwrap_or_default().to_vec();
    }
    let Some(start) = written.iter().position(|byte| *byte == b'\'') else { return Vec::new() };
    let inside = written.get(start + 1..written.len().saturating_sub(1)).unwrap_or_default();
    let escapes = matches!(written.first(), Some(b'e' | b'E'));
    let mut says = Vec::with_capacity(inside.len());
    let mut bytes = inside.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if escapes => {
                // An escaped letter stands for white space, most often.
                let escaped = bytes.next().unwrap_or(b' ');
                says.push(if escaped.is_ascii_alphanumeric() { b' ' } else { escaped });
            }
            b'\'' if bytes.peek() == Some(&b'\'') => says.extend(bytes.next()),
            _ => says.push(byte),
        }
    }
    says
}

/// Words and what divides them, of what is no sequence of tokens: always one itself.
fn without_quotes(source: &[u8]) -> Vec<u8> {
    let goes_on = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
    let mut plain = Vec::with_capacity(source.len());
    for run in source.chunk_by(|last, next| goes_on(*last) && goes_on(*next)) {
        match run {
            [b'0'..=b'9', ..] => plain.push(b' '),
            // Longer than any name.
            [first, ..] if goes_on(*first) && run.len() < 64 => plain.extend_from_slice(run),
            [b'(' | b')' | b';' | b',' | b'.' | b'=', ..] => plain.extend_from_slice(run),
            _ => plain.push(b' '),
        }
    }
    plain
}

#[cfg(test)]
#[path = "body_tests.rs"]
mod tests;
