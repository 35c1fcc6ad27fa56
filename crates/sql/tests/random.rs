//! Texts put together at random from what lexers trip over: the fast way of the fingerprint and the slow one of the lexer
//! must see the same constants, and texts that meet must mean the same.

use sql::{Encoding, Key, Lexer, Marks, Pieces, Rules, Summary, Text, TokenKind};
use std::collections::BTreeMap;

const PIECES: [&str; 77] = [
    "'",
    "''",
    "\"",
    "\"\"",
    "\\",
    "\\'",
    "$",
    "$$",
    "$a$",
    "$1",
    "$a",
    "--",
    "/*",
    "*/",
    "\n",
    "\r",
    " ",
    " ",
    " ",
    "-",
    "+",
    "*",
    "/",
    "=",
    "@",
    ".",
    "..",
    ",",
    "(",
    ")",
    "[",
    "]",
    ";",
    ":",
    "::",
    "1",
    "23",
    "0x1f",
    "1.5",
    "1e5",
    "1e",
    ".5",
    "9a",
    "a",
    "B",
    "e",
    "E",
    "n",
    "x",
    "b",
    "u&",
    "U&",
    "e'",
    "N'",
    "x'",
    "U&'",
    "U&\"",
    "abcdefgh",
    "a1",
    "_",
    "é",
    "set",
    "temp",
    "create",
    "into",
    "begin",
    "atomic",
    "end",
    "case",
    "select",
    "function",
    "set_config",
    "set_config('a', ",
    "set_config(1, 2, true)",
    "::bool",
    ", true)",
    "pg_catalog",
];

/// A step of the generator xorshift64*.
fn next(state: &mut u64, below: usize) -> usize {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
}

fn random_text(state: &mut u64, pieces_max: usize) -> String {
    let pieces = 1 + next(state, pieces_max);
    (0..pieces).map(|_| PIECES[next(state, PIECES.len())]).collect()
}

fn rules(standard_strings: bool) -> Rules {
    Rules { standard_strings, encoding: Encoding::Safe }
}

/// The text with every constant replaced by another of its kind; `None` if it is no tokens.
fn with_other_constants(text: &Text<'_>, state: &mut u64) -> Option<Vec<u8>> {
    let mut lexer = Lexer::new(text);
    let mut other = Vec::new();
    let mut at = 0;
    while let Some(token) = lexer.token().ok()? {
        other.extend_from_slice(&text.source()[at..token.start]);
        let written = &text.source()[token.start..token.end];
        match token.kind {
            // Nothing that would make another token of its neighbours.
            TokenKind::Number if written[0] == b'.' || text.source().get(token.end) == Some(&b'.') => {
                other.extend_from_slice(written);
            }
            TokenKind::Number => other.extend_from_slice(["7", "88.5", "6e-7"][next(state, 3)].as_bytes()),
            TokenKind::Parameter => other.extend_from_slice(["$7", "$88"][next(state, 2)].as_bytes()),
            TokenKind::String if written[0] == b'\'' => {
                other.extend_from_slice(["''", "'x''; -- /* y'", "'$$'"][next(state, 3)].as_bytes());
            }
            _ => other.extend_from_slice(written),
        }
        at = token.end;
    }
    other.extend_from_slice(&text.source()[at..]);
    Some(other)
}

#[test]
fn both_ways_see_the_same_constants() {
    let key = Key::from_seed(1);
    let (mut state, mut replaced) = (0x9e37_79b9_7f4a_7c15, 0);
    for _ in 0..200_000 {
        let source = random_text(&mut state, 12);
        let standard_strings = next(&mut state, 2) == 0;
        let text = Text::new(source.as_bytes(), rules(standard_strings));
        let Some(other) = with_other_constants(&text, &mut state) else { continue };
        let other = Text::new(&other, rules(standard_strings));
        let shown = String::from_utf8_lossy(other.source());
        assert_eq!(text.fingerprint(&key), other.fingerprint(&key), "{source:?} and {shown:?}, {standard_strings}");
        assert!(text.fingerprint(&key).is_ok(), "{source:?}, {standard_strings}");
        assert_eq!(Summary::of(&text), Summary::of(&other), "{source:?} and {shown:?}, {standard_strings}");
        replaced += 1;
    }
    assert!(replaced > 20_000, "only {replaced} texts were tokens");
}

#[test]
fn texts_that_meet_mean_the_same() {
    let key = Key::from_seed(2);
    let mut seen: BTreeMap<[u64; 2], (String, Summary)> = BTreeMap::new();
    let (mut state, mut met) = (0x1234_5678_9abc_def1, 0);
    for _ in 0..300_000 {
        let source = random_text(&mut state, 5);
        let text = Text::new(source.as_bytes(), rules(next(&mut state, 2) == 0));
        if with_other_constants(&text, &mut state).is_none() {
            continue;
        }
        let fingerprint = text.fingerprint(&key).unwrap_or_else(|_| panic!("{source:?} is tokens"));
        let summary = Summary::of(&text);
        let (other, known) = seen.entry(fingerprint.bits()).or_insert_with(|| (source.clone(), summary.clone()));
        assert_eq!(*known, summary, "{source:?} and {other:?}");
        met += u32::from(*other != source);
    }
    assert!(met > 1_000, "only {met} texts met another");
}

#[test]
fn any_bytes_have_a_meaning() {
    let (mut state, key) = (7, Key::from_seed(3));
    let encodings = [Encoding::Safe, Encoding::Sjis, Encoding::Big5, Encoding::Gbk, Encoding::Johab, Encoding::Gb18030];
    for round in 0..100_000 {
        let len = next(&mut state, 40);
        let mut source: Vec<u8> = random_text(&mut state, 8).into_bytes();
        source.extend((0..len).map(|_| next(&mut state, 256) as u8));
        let encoding = encodings[round % encodings.len()];
        let text = Text::new(&source, Rules { standard_strings: round % 2 == 0, encoding });
        let summary = Summary::of(&text);
        for statement in text.statements() {
            assert_eq!(&source[statement.range()], statement.source);
            let has_mark = statement.marks.any(Marks::SET_CONFIG | Marks::UNKNOWN);
            assert!(has_mark || statement.set_config_calls(&text).all(|call| call.local == Some(true)));
            assert!(summary.marks().contains(statement.marks) || summary.marks().any(Marks::UNKNOWN));
        }
        let _ = text.fingerprint(&key);
    }
}

#[test]
fn a_text_in_pieces_means_the_same() {
    let (mut state, mut told) = (0x0dd0_5eed_0000_0006, 0);
    for _ in 0..150_000 {
        let source = random_text(&mut state, 14);
        let rules = rules(next(&mut state, 2) == 0);
        let whole = Summary::of(&Text::new(source.as_bytes(), rules));
        let mut pieces = Pieces::new(rules, 10_000);
        let mut rest = source.as_bytes();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(1 + next(&mut state, rest.len()));
            pieces.add(piece);
            rest = behind;
        }
        let Some(shape) = pieces.finish() else {
            assert!(whole.marks().any(Marks::UNKNOWN), "{source:?} is lost");
            continue;
        };
        let shown = String::from_utf8_lossy(&shape);
        assert_eq!(Summary::of(&Text::new(&shape, rules)), whole, "{source:?} has the shape {shown:?}");
        told += u32::from(!whole.marks().any(Marks::UNKNOWN));
    }
    assert!(told > 4_000, "only {told} were told");
}

#[test]
fn a_large_text_has_a_small_shape() {
    let row = "('a value; of ''some'' length', $$ and ; more $$, 12), /* with ; a comment */ ";
    let source = format!("insert into t values {}(1); select f(1)", row.repeat(20_000));
    for len in [1, 7, 4096, 65_536, source.len()] {
        let mut pieces = Pieces::new(Rules::default(), 1 << 20);
        source.as_bytes().chunks(len).for_each(|piece| pieces.add(piece));
        let shape = pieces.finish().expect("it is short enough");
        assert!(shape.len() < source.len() / 2, "{} of {}", shape.len(), source.len());
        let text = Text::new(&shape, Rules::default());
        assert_eq!(Summary::of(&text), Summary::of(&Text::new(source.as_bytes(), Rules::default())));
    }
    let mut pieces = Pieces::new(Rules::default(), 1000);
    pieces.add(source.as_bytes());
    assert_eq!(pieces.finish(), None);
}
