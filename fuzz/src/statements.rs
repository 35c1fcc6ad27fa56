//! Texts of statements, as clients send them.
//!
//! Asserts that reading a text ends, stays inside it and, statement by statement, allocates nothing; that the summary of
//! a text is that of its statements; that the memo answers as if it had never seen anything, whatever it has seen, within
//! its memory; that comments between tokens change nothing; that a setting's key, written again, is its name; that as the
//! body of a function a text has at least the side effects that its words tell.
//!
//! ```text
//!   how to read, text 0x1e another text
//! ```

use session_state::catalogue::{Catalogue, Land, Row, SideEffects};
use sql::{
    Assignment, Encoding, Key, Kind, Lexer, Marks, Memo, Rules, Statement, Summary, Text, Token, Which, quoted_setting,
    setting_key,
};

use crate::tape::Tape;

const NEXT_TEXT: u8 = 0x1e;
const ENCODINGS: [&[u8]; 8] = [b"UTF8", b"LATIN1", b"SJIS", b"BIG5", b"GBK", b"GB18030", b"JOHAB", b"UHC"];
/// Names of more parts are not read, though a name in quotes may hold more dots.
const PARTS_MAX: usize = 4;
const MEMO_BYTES_MAX: usize = 64 * 1024;

/// One run of the target.
pub fn run(bytes: &[u8]) {
    let mut tape = Tape::new(bytes);
    let how = tape.byte();
    // What is no encoding that we know is read as nothing at all is: not here.
    let encoding = Encoding::of(ENCODINGS[usize::from(how >> 1 & 7)]).unwrap_or(Encoding::Safe);
    let rules = Rules { standard_strings: how & 1 == 0, encoding };
    let rest = tape.rest();
    let mut memo = Memo::new(Key::from_seed(u64::from(how >> 4)), MEMO_BYTES_MAX);
    let empty_bytes = memo.bytes();
    // Each is asked for twice: what was remembered of the first must not answer for the second, nor be forgotten.
    for _ in 0..2 {
        for source in rest.splitn(2, |byte| *byte == NEXT_TEXT) {
            let text = Text::new(source, rules);
            let fresh = Summary::of(&text);
            assert_eq!(*memo.summary(&text), fresh, "the memo answers for another text: {}", source.escape_ascii());
            assert!(memo.bytes() <= MEMO_BYTES_MAX.max(empty_bytes) && memo.len() <= 2);
            check(&text, rules, &fresh);
            // Bodies are read by the rules that servers begin with.
            if rules == Rules::default() {
                check_body(source, &fresh);
            }
        }
    }
}

fn check_body(source: &[u8], summary: &Summary) {
    const PAIRS: [(Marks, SideEffects); 5] = [
        (Marks::ADVISORY, SideEffects::ADVISORY),
        (Marks::CURRVAL, SideEffects::CURRVAL),
        (Marks::NEXTVAL, SideEffects::SEQUENCE),
        (Marks::DBLINK, SideEffects::DBLINK),
        (Marks::SET_CONFIG, SideEffects::SETTINGS),
    ];
    let catalogue = Catalogue::new([Row::Body { land: Land::Named, name: b"body", source: Some(source) }]);
    let side_effects = catalogue.side_effects(Summary::of(&Text::new(b"select body", Rules::default())).words());
    for (mark, kind) in PAIRS.iter().filter(|(mark, _)| summary.marks().any(*mark)) {
        assert!(side_effects.any(*kind), "{mark:?} is not side_effects in {}: {side_effects:?}", source.escape_ascii());
    }
    assert!(catalogue.side_effects_of_block(source).side_effects.contains(side_effects));
}

fn check(text: &Text<'_>, rules: Rules, summary: &Summary) {
    let source = text.source();
    let counted = allocation_counter::measure(|| check_statements(text, summary));
    assert_eq!(counted.count_total, 0, "reading statements allocates");
    text.statements().for_each(|statement| check_setting(&statement, rules));
    let Some(tokens) = tokens(text) else {
        assert_eq!((summary.marks(), summary.statements()), (Marks::UNKNOWN, 1), "an unreadable text is unknown");
        return;
    };
    // Where a text was copied to be read, its bytes are not what its tokens say.
    if source.is_ascii() {
        check_commented(text, rules, &tokens, summary);
    }
}

/// All tokens, or nothing if the text cannot be divided into tokens.
fn tokens(text: &Text<'_>) -> Option<Vec<Token>> {
    let mut lexer = Lexer::new(text);
    let (mut tokens, mut end) = (Vec::new(), 0);
    while let Some(token) = lexer.token().ok()? {
        assert!(end <= token.start && token.start < token.end && token.end <= text.source().len(), "{token:?}");
        end = token.end;
        tokens.push(token);
    }
    Some(tokens)
}

fn check_statements(text: &Text<'_>, summary: &Summary) {
    let (mut marks, mut count) = (Marks::NONE, 0);
    let mut rest = text.source().as_ptr_range();
    for statement in text.statements() {
        let place = statement.source.as_ptr_range();
        assert!(rest.start <= place.start && place.end <= rest.end, "statements stand one behind the other");
        rest.start = place.end;
        assert!(!statement.source.is_empty());
        assert!(statement.marks.contains(statement.kind.marks()));
        assert_eq!(&text.source()[statement.range()], statement.source);
        check_calls(text, &statement);
        marks |= statement.marks;
        count += 1;
    }
    if summary.marks() != Marks::UNKNOWN {
        assert_eq!((summary.marks(), summary.statements()), (marks, count), "a summary is that of its statements");
    }
    assert!(marks.contains(summary.marks()) || count == 0);
}

/// What is said of calls of set_config by their marks is not less than what is said one by one.
fn check_calls(text: &Text<'_>, statement: &Statement<'_>) {
    let mut calls = statement.set_config_calls(text);
    let has_mark = statement.marks.any(Marks::SET_CONFIG | Marks::UNKNOWN);
    assert!(has_mark || calls.all(|call| call.local == Some(true)), "a call is not local and has no mark");
    if statement.only_sets_config(text) {
        assert!(statement.set_config_calls(text).count() > 0);
        assert!(statement.marks.any(Marks::SET_CONFIG | Marks::SET_LOCAL | Marks::UNKNOWN));
    }
}

/// The key of a setting, written again, names the same setting.
fn check_setting(statement: &Statement<'_>, rules: Rules) {
    let name = match statement.kind {
        Kind::Set(Assignment { name, .. }) | Kind::Reset(Which::One(name)) => name,
        _ => return,
    };
    let key = setting_key(name.bytes());
    let parts: Vec<&[u8]> = key.split(|byte| *byte == b'.').collect();
    let Some(quoted) = quoted_setting(&key) else {
        let has_bad_part = parts.iter().any(|part| part.is_empty() || part.len() > 63);
        assert!(has_bad_part || !key.is_ascii() || key.contains(&0), "{} can be written", key.escape_ascii());
        return;
    };
    if parts.len() > PARTS_MAX {
        return;
    }
    let again = [b"reset ".as_slice(), &quoted].concat();
    let text = Text::new(&again, rules);
    let kinds: Vec<Kind<'_>> = text.statements().map(|statement| statement.kind).collect();
    let [Kind::Reset(Which::One(name))] = kinds.as_slice() else { panic!("{kinds:?}: {}", again.escape_ascii()) };
    assert_eq!(setting_key(name.bytes()), key);
}

/// The same tokens with a comment between any two.
fn check_commented(text: &Text<'_>, rules: Rules, tokens: &[Token], summary: &Summary) {
    let mut commented = Vec::new();
    for token in tokens {
        commented.extend_from_slice(&text.source()[token.start..token.end]);
        commented.extend_from_slice(b" /* 'x\" ; */ ");
    }
    let again = Summary::of(&Text::new(&commented, rules));
    assert_eq!(again, *summary, "comments change what it means: {}", commented.escape_ascii());
}
