//! One statement that defines something, as it is read: once, whatever number of pools learn of it.
//!
//! What it promises: by [`StatementWords::named`] every text is found that may meet what the statement makes or changes. A keyword
//! differs from a name by its place: a table may be called `policy`, and `CREATE POLICY` says nothing of that table.
//!
//! Does not do: knowing the side effects of the names in it. Each pool looks these up.

use sql::{Lexer, Rules, Summary, Text, Token, TokenKind, Word};

use super::SideEffects;
use super::body::Body;

/// Words of definitions that are no names, unless they stand where only a name can. In order.
#[rustfmt::skip]
const KEYWORDS: [&str; 64] = [
    "add", "after", "aggregate", "alter", "before", "begin", "bigint", "boolean", "by", "called", "cascade", "char", "constraint",
    "create", "cursor", "declare", "default", "delete", "domain", "drop", "each", "event", "execute", "exists", "extension",
    "function", "global", "if", "immutable", "index", "input", "insert", "int", "integer", "is", "key", "language", "local",
    "name", "numeric", "of", "owner", "plpgsql", "policy", "procedure", "rename", "replace", "return", "returns", "row", "rule",
    "schema", "security", "sequence", "set", "sql", "stable", "statement", "text", "trigger", "type", "update", "view",
    "volatile",
];

/// The longest of them.
const KEYWORD_LEN_MAX: usize = 10;

/// By which the definition of a table tells that its rows are numbered by a sequence. PostgreSQL manual,
/// "Serial Types" and "Identity Columns".
const DRAWING: [&str; 8] =
    ["serial", "serial2", "serial4", "serial8", "bigserial", "smallserial", "identity", "nextval"];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct StatementWords {
    /// The names in it and in its strings, which may be functions' bodies; in order, without what calls them.
    pub(super) mentioned: Box<[Word]>,
    /// Its own words.
    pub(super) own: Box<[Word]>,
    /// Its own words and those of its strings, as a catalogue is asked for the side effects of a body with them.
    pub(super) words: Box<[Word]>,
    /// What it may make or change.
    pub(super) named: Box<[Word]>,
    /// What its own words and its strings do, without the side effects of the names in them.
    pub(super) side_effects: SideEffects,
    /// What its language says of its code, and its columns of its rows.
    pub(super) certain: SideEffects,
    /// Settings with a dot in their names that it changes.
    pub(super) settings: Box<[Box<[u8]>]>,
    /// It makes something that texts use without naming it.
    pub(super) has_no_name: bool,
    /// It makes an extension: anything.
    pub(super) is_extension: bool,
    pub(super) others_see: bool,
}

impl StatementWords {
    pub(super) fn read(source: &[u8], rules: Rules) -> StatementWords {
        let text = Text::new(source, rules);
        let summary = Summary::of(&text);
        let own = summary.words();
        let body = Body::of_definition(source);
        let has = |word: &str| {
            let word = Word::of(word.as_bytes());
            own.iter().any(|found| found.name() == word)
        };
        let mut certain = SideEffects::NONE;
        if has("language") && !has("plpgsql") && !has("sql") {
            certain |= SideEffects::UNKNOWN;
        }
        if DRAWING.iter().any(|word| has(word)) {
            certain |= SideEffects::SEQUENCE;
        }
        let only_calls = makes_routine(source);
        if only_calls && writes_inside(source) {
            certain |= SideEffects::WRITES;
        }
        let keywords = if only_calls { Vec::new() } else { keywords(&text) };
        let is_name = |word: &Word| word.is_called() || !only_calls && keywords.binary_search(&word.name()).is_err();
        let named = own.iter().filter(|word| is_name(word)).map(|word| word.name()).collect();
        let mut mentioned: Vec<Word> = own.iter().chain(&body.words).map(|word| word.name()).collect();
        mentioned.sort_unstable();
        mentioned.dedup();
        StatementWords {
            mentioned: mentioned.into(),
            own: own.into(),
            words: body.words.into(),
            named,
            // Every definition is written as one. What a new function defines when it is called is found by the poll.
            side_effects: body.side_effects.without(SideEffects::DEFINES | SideEffects::WRITES),
            certain,
            settings: body.settings.into(),
            has_no_name: has_no_name(source),
            is_extension: has("extension"),
            others_see: others_see(source),
        }
    }
}

/// Keywords of a statement that stand in it nowhere as a name; in order. None if that is unknown.
fn keywords(text: &Text<'_>) -> Vec<Word> {
    let mut tokens = Vec::new();
    let mut lexer = Lexer::new(text);
    loop {
        match lexer.token() {
            Ok(Some(token)) => tokens.push(token),
            Ok(None) => break,
            Err(_) => return Vec::new(),
        }
    }
    let places = StatementTokens { source: text.source(), tokens: &tokens };
    let (mut keywords, mut names) = (Vec::new(), Vec::new());
    let mut is_parents = false;
    for (at, token) in tokens.iter().enumerate() {
        match places.written(at) {
            b"(" => is_parents |= places.is(at.wrapping_sub(1), "inherits"),
            b")" => is_parents = false,
            written => {
                let Some(keyword) = keyword(written) else { continue };
                let is_name = is_parents || token.kind == TokenKind::Quoted || places.is_name(at);
                let found = if is_name { &mut names } else { &mut keywords };
                found.push(Word::of(keyword.as_bytes()));
            }
        }
    }
    names.sort_unstable();
    keywords.sort_unstable();
    keywords.dedup();
    keywords.retain(|keyword| names.binary_search(keyword).is_err());
    keywords
}

/// The keyword that is written so, also in quotes.
fn keyword(written: &[u8]) -> Option<&'static str> {
    let inside = written.strip_prefix(b"\"").and_then(|inside| inside.strip_suffix(b"\"")).unwrap_or(written);
    if inside.len() > KEYWORD_LEN_MAX {
        return None;
    }
    let mut folded = [0; KEYWORD_LEN_MAX];
    let folded = &mut folded[..inside.len()];
    folded.copy_from_slice(inside);
    folded.make_ascii_lowercase();
    KEYWORDS.binary_search_by(|known| known.as_bytes().cmp(folded)).ok().map(|at| KEYWORDS[at])
}

/// The tokens of a statement.
struct StatementTokens<'a> {
    source: &'a [u8],
    tokens: &'a [Token],
}

impl StatementTokens<'_> {
    fn written(&self, at: usize) -> &[u8] {
        self.tokens.get(at).map_or(b"", |token| &self.source[token.start..token.end])
    }

    fn is(&self, at: usize, word: &str) -> bool {
        self.written(at).eq_ignore_ascii_case(word.as_bytes())
    }

    fn is_any(&self, at: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(at, word))
    }

    /// Whether the keyword that stands there may be the name of a relation, a type or a domain. Rather too often than too rarely.
    fn is_name(&self, at: usize) -> bool {
        const BEFORE_NAME: [&str; 9] =
            ["table", "view", "into", "to", "only", "references", "inherit", "sequence", "index"];
        if self.is(at + 1, ".") || at > 0 && self.is(at - 1, ".") {
            return true;
        }
        let is_if = self.is(at, "if") && self.is_any(at + 1, &["exists", "not"]);
        if is_if || self.is(at, "exists") && self.is_behind_if(at) {
            return false;
        }
        if at > 0 && self.is(at - 1, "on") {
            // CREATE RULE … AS ON DELETE TO, and what foreign keys do.
            let is_event = at > 1 && self.is(at - 2, "as");
            return !is_event && !self.is_any(at + 1, &["cascade", "restrict", "no", "set"]);
        }
        let Some(last) = at.checked_sub(1) else { return false };
        if self.is_any(last, &BEFORE_NAME) || self.is(last, "exists") && self.is_behind_if(last) {
            return true;
        }
        let Some(second) = last.checked_sub(1) else { return false };
        self.is_any(last, &["type", "domain"]) && self.is_any(second, &["create", "alter"])
            || self.is_any(last, &["of", "partition"]) && self.is_any(second, &["partition", "attach"])
    }

    /// Whether the EXISTS that stands there is one of IF EXISTS or IF NOT EXISTS.
    fn is_behind_if(&self, exists: usize) -> bool {
        let is_if = |at: Option<usize>| at.is_some_and(|at| self.is(at, "if"));
        let last = exists.checked_sub(1);
        is_if(last) || last.is_some_and(|last| self.is(last, "not")) && is_if(exists.checked_sub(2))
    }
}

/// Whether a text begins as CREATE FUNCTION does: nothing but calls has to do with what it makes.
fn makes_routine(text: &[u8]) -> bool {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_ascii_lowercase);
    let mut words = words.take(4).skip_while(|word| matches!(&word[..], b"create" | b"or" | b"replace"));
    words.next().is_some_and(|word| matches!(&word[..], b"function" | b"procedure" | b"aggregate"))
}

/// Whether the body of a function that a text makes may write: CREATE is no word of the body.
fn writes_inside(text: &[u8]) -> bool {
    let create = text.windows(6).position(|word| word.eq_ignore_ascii_case(b"create"));
    let rest = create.map_or(text, |at| &text[at + 6..]);
    Body::of_definition(rest).side_effects.any(SideEffects::WRITES)
}

/// Whether a definition makes something that texts use without naming it: operators, casts, event triggers. Too much is found
/// rather than too little.
fn has_no_name(text: &[u8]) -> bool {
    let is_at = |at: usize, word: &[u8]| text.get(at..at + word.len()).is_some_and(|it| it.eq_ignore_ascii_case(word));
    let begins = |at: usize| matches!(text[at].to_ascii_lowercase(), b'o' | b'c' | b'e');
    (0..text.len()).filter(|at| begins(*at)).any(|at| {
        let words: [&[u8]; 3] = [b"operator", b"cast", b"event"];
        words.iter().any(|word| is_at(at, word))
    })
}

/// Whether what a statement makes is there for others too: it is no temporary table, which is made all the time, and no table
/// made by SELECT, which meets nothing.
fn others_see(text: &[u8]) -> bool {
    let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).map(<[u8]>::to_ascii_lowercase);
    let words: Vec<Vec<u8>> = words.take(5).collect();
    let makes = words.first().is_some_and(|word| !matches!(&word[..], b"select" | b"with" | b"("));
    let is_before = |word: &&Vec<u8>| matches!(&word[..], b"create" | b"or" | b"replace" | b"local" | b"global");
    let first = words.iter().find(|word| !is_before(word));
    makes && !first.is_some_and(|word| matches!(&word[..], b"temp" | b"temporary"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_in_order() {
        assert!(KEYWORDS.is_sorted() && KEYWORDS.iter().all(|word| word.len() <= KEYWORD_LEN_MAX));
    }

    #[test]
    fn temporary_tables_are_their_sessions_own() {
        for text in [
            "create table t ()",
            "CREATE OR REPLACE VIEW v AS SELECT temp FROM t",
            "alter table temp_t add a int",
            "create table t ( temp int)",
        ] {
            assert!(others_see(text.as_bytes()), "{text}");
        }
        for text in [
            "create temp table t ()",
            "create  local\ntemporary table t ()",
            "create or replace temp view v as select 1",
            "select 1 into t",
        ] {
            assert!(!others_see(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_has_no_name() {
        for text in ["create OPERATOR", "create cast", "create Event trigger"] {
            assert!(has_no_name(text.as_bytes()), "{text}");
        }
        for text in ["create table t()", "create", "cas"] {
            assert!(!has_no_name(text.as_bytes()), "{text}");
        }
    }
}
