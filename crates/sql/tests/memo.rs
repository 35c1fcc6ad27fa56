//! The memo: what meets in it, what does not, how much it takes, and that a hit allocates nothing.

use sql::{Encoding, Fingerprint, Key, Marks, Memo, Rules, Summary, Text, Word};

const BYTES_MAX: usize = 1 << 20;

fn memo() -> Memo {
    Memo::new(Key::from_seed(7), BYTES_MAX)
}

fn text(source: &str) -> Text<'_> {
    Text::new(source.as_bytes(), Rules::default())
}

fn meet(one: &str, other: &str) -> bool {
    let key = Key::from_seed(7);
    text(one).fingerprint(&key).expect("tokens") == text(other).fingerprint(&key).expect("tokens")
}

#[test]
fn comments_and_constants_do_not_tell_texts_apart() {
    for (one, other) in [
        ("select 1", "select 2.5e3"),
        ("select a1, 1", "select a1, 0x1F"),
        ("/* 1 */ select 1 -- a", "/* trace: /* 1234 */ */ select 77 -- end"),
        ("select 'a' , $1", "select 'it''s' , $22"),
        ("select 'a'", "select $$b$$"),
        ("select 'a'", "select $x$b$y$c$x$"),
        ("select E'a'", "select E'it\\'s'"),
        ("select e'a'", "select e'a'\n'b\\'c'"),
        ("select U&'a'", "select U&'b'''"),
        ("select x'1f'", "select x'1e'"),
        ("select -1", "select 1"),
        ("select a + -1", "select a + 2"),
        ("select $1::int", "select $2::int"),
        ("select 'a long string, of more than one chunk'", "select ''"),
        ("select 'a'e'b'", "select 'x'e'\\''"),
        ("select $$a$$1", "select $$b$$2"),
    ] {
        assert!(meet(one, other), "{one} and {other}");
    }
}

#[test]
#[rustfmt::skip]
fn all_else_tells_texts_apart() {
    let texts = [
        "select a", "SELECT a", "select  a", "select b", "select \"a\"", "select \"A\"", "select 'a'", "select 1",
        "select $1", "select (1)", "select 1, 1", "select a.b", "select a b", "select a$b", "select a$ b", "select ab",
        "select a1", "select a2", "select a$1", "select a, b", "select abcdefgh", "select abcdefgha", "select abcdefgh a",
        "select a = b", "select a == b", "select a = = b", "select a - b", "select a @-1", "select a @1", "select a; b",
        "select", "", ";", "select a - -1", "select a[1]", "select \"a\"\"b\"", "select \"a\" \"b\"", "select \"a\"b",
        "select \"a\"1", "select \"abcdefgh\"", "select \"abcdefgh\"\"\"", "select \"abcdefgha\"", "select e, 'a'",
        "select e'a'", "select n 'a'", "select u&'a'", "select u&$$a$$", "select é", "select É", "select /**/ a", "select a --",
    ];
    for (at, one) in texts.iter().enumerate() {
        for other in &texts[at + 1..] {
            assert!(!meet(one, other), "{one} and {other}");
        }
    }
}

/// Each bit of a name of many chunks counts, whatever stands before it.
#[test]
fn one_letter_tells_long_texts_apart() {
    let key = Key::from_seed(7);
    let mut names: Vec<String> = vec![format!("select {}", "a".repeat(80))];
    for at in 7..87 {
        for letter in ["b", "c", "e", "i", "q"] {
            let mut name = names[0].clone();
            name.replace_range(at..=at, letter);
            names.push(name);
        }
    }
    let prints: std::collections::BTreeSet<[u64; 2]> =
        names.iter().map(|name| text(name).fingerprint(&key).expect("tokens").bits()).collect();
    assert_eq!(prints.len(), names.len());
    // No bit is likelier to be set than not: 32 of 64 on average, which by chance differs by some tenths.
    for word in 0..2 {
        let ones: u32 = prints.iter().map(|bits| bits[word].count_ones()).sum();
        let mean = f64::from(ones) / prints.len() as f64;
        assert!((31.0..33.0).contains(&mean), "{mean} ones in word {word}");
    }
}

#[test]
fn a_name_after_an_operator_is_no_encoded_one() {
    let key = Key::from_seed(7);
    assert!(text("select x&\"y\"").fingerprint(&key).is_ok());
    assert!(text("select u & \"y\"").fingerprint(&key).is_ok());
    assert!(text("select u&\"y\"").fingerprint(&key).is_ok());
    assert!(text("select u&\"y!0061\" uescape '!'").fingerprint(&key).is_err());
    assert!(text("select u & \"y!0061\" uescape '!'").fingerprint(&key).is_ok(), "it is no encoded one");
}

#[test]
fn names_in_quotes_count_wherever_they_stand() {
    for before in 0..20 {
        let pad = " ".repeat(before);
        let same = |one: &str, other: &str| meet(&format!("select{pad} {one}"), &format!("select{pad} {other}"));
        assert!(same("\"a\".\"b\", 17", "\"a\".\"b\", 4"));
        assert!(same("\"a\"\"b\".c, 'x'", "\"a\"\"b\".c, 'it''s'"));
        assert!(same("\"a b \"\" c\" -- d", "\"a b \"\" c\" -- \"e"));
        // What looks like a constant or a comment within a name is a part of it.
        assert!(!same("\"a\".\"b 1 c\"", "\"a\".\"b 2 c\""));
        assert!(!same("\"a\".\"b -- c\"", "\"a\".\"b -- d\""));
        assert!(!same("\"a.b\"\".c.d 'e'\"", "\"a.b\"\".c.d 'f'\""));
        let key = Key::from_seed(7);
        let is_certain = |rest: &str| text(&format!("select{pad} {rest}")).fingerprint(&key).is_ok();
        assert!(!is_certain("\"a"), "a name that does not end");
        assert!(!is_certain("\"a.bcdefgh\".\"i.jklmnopqrstuvw"), "another");
        assert!(!is_certain("U&\"a\" uescape '!'"), "an encoded one with an escape character of its own");
        assert!(!is_certain("U&\"\\a\""), "an encoded one that is refused");
        assert!(!same("U&\"\\0061\"", "U&\"\\0062\""));
        assert!(is_certain("x&\"a\".\"b\""));
        assert!(is_certain("a.\"b\".c, .5, t.5") && is_certain(".5.6") && !is_certain(".5a"));
    }
}

#[test]
fn a_note_stays_with_its_text_until_it_is_forgotten() {
    let mut memo: Memo<u32> = Memo::with_notes(Key::from_seed(7), 64 * 1024);
    *memo.entry(&text("select a, 1")).1 += 5;
    *memo.entry(&text("select b -- c")).1 += 6;
    assert_eq!(*memo.entry(&text("select a, 2")).1, 5);
    assert_eq!(*memo.entry(&text("select b -- again")).1, 6);
    // What is not kept has no note either.
    *memo.entry(&text("select 'a")).1 += 7;
    assert_eq!(*memo.entry(&text("select 'b")).1, 0);
    for number in 0..20_000 {
        assert_eq!(*memo.entry(&text(&format!("select c{number}"))).1, 0);
    }
    assert!(memo.bytes() <= 64 * 1024);
}

#[test]
fn bytes_that_no_token_has_meet_nothing() {
    let key = Key::from_seed(7);
    let of = |source: &[u8]| Text::new(source, Rules::default()).fingerprint(&key).unwrap();
    // Neither what fills up the last bytes, nor what stands for what is left out.
    let plain: [&[u8]; 5] = [b"", b"commit", b"commit;", b"commit; ", b"select 1"];
    let odd: [&[u8]; 9] = [
        b"\0",
        b"commit\0",
        b"commit\0\0",
        b"commit;\0",
        b"commit; \0",
        b"select \x001",
        b"select \x01",
        b"select \x02",
        b"select \x06",
    ];
    let all: Vec<Fingerprint> = plain.iter().chain(&odd).map(|source| of(source)).collect();
    for (at, fingerprint) in all.iter().enumerate() {
        assert!(!all[..at].contains(fingerprint), "{at}");
    }
}

#[test]
fn keys_differ() {
    let of = |seed| text("select 1").fingerprint(&Key::from_seed(seed)).unwrap();
    assert_eq!(of(1), of(1));
    assert_ne!(of(1), of(2));
}

#[test]
fn names_that_only_their_second_byte_tells_apart_do_not_meet() {
    let key = Key::from_seed(7);
    let of = |source: &[u8]| {
        let rules = Rules { encoding: Encoding::Sjis, ..Rules::default() };
        Text::new(source, rules).fingerprint(&key).unwrap()
    };
    assert_ne!(of(b"select \x83\x41"), of(b"select \x83\x61"));
    assert_ne!(of(b"select \x83\x5c"), of(b"select \x83\xdc"));
    assert_ne!(of(b"select \"abcdefg\x83\x41h\""), of(b"select \"abcdefg\x83\x61h\""));
    assert_ne!(of(b"select \"abcdefghi\""), of(b"select \"abcdefghj\" -- \x83\x61"));
    assert_ne!(of(b"select \"abcdefghi\" -- \x83\x61"), of(b"select \"ABCDEFGHi\" -- \x83\x61"));
    assert_eq!(of(b"select '\x83\x41'"), of(b"select '\x83\x5c'"));
}

#[test]
fn a_summary_tells_marks_words_and_how_many_statements() {
    let mut memo = memo();
    let summary = memo.summary(&text("select F(a), g.h, \"I\"(1) from pg_advisory_lock(1); ; commit")).clone();
    assert_eq!(summary.marks(), Marks::ADVISORY | Marks::COMMIT);
    assert_eq!(summary.statements(), 2);
    let called =
        |name: &[u8]| summary.words().iter().find(|word| word.name() == Word::of(name)).map(|word| word.is_called());
    assert_eq!(called(b"f"), Some(true));
    assert_eq!(called(b"a"), Some(false));
    assert_eq!(called(b"h"), Some(false));
    assert_eq!(called(b"I"), Some(true));
    assert_eq!(called(b"i"), None);
    assert_eq!(called(b"pg_advisory_lock"), Some(true));
    assert_eq!(called(b"select"), None);
    assert_eq!(summary, Summary::of(&text("select F(a), g.h, \"I\"(1) from pg_advisory_lock(1); ; commit")));
}

#[test]
fn a_name_called_once_is_called() {
    let summary = Summary::of(&text("select f, f(1), f"));
    assert_eq!(summary.words().len(), 1);
    assert!(summary.words()[0].is_called());
    // A name in quotes may be a keyword.
    assert_eq!(Summary::of(&text("select \"user\"(1)")).words().len(), 1);
    assert_eq!(Summary::of(&text("select user")).words().len(), 0);
    // Behind a dot too.
    assert_eq!(Summary::of(&text("select a.user(1)")).words().len(), 2);
}

#[test]
fn a_text_that_is_no_tokens_is_unknown_and_not_kept() {
    let mut memo = memo();
    assert_eq!(memo.summary(&text("select 'a")).marks(), Marks::UNKNOWN);
    assert_eq!(memo.summary(&text("select 1; set x = 'a")).marks(), Marks::UNKNOWN);
    assert_eq!(memo.summary(&text("select {fn now()}")).marks(), Marks::UNKNOWN);
    assert!(memo.is_empty());
}

#[test]
fn a_hundred_thousand_texts_stay_within_the_bound() {
    let mut memo = memo();
    let mut most = 0;
    for number in 0..100_000 {
        let source = format!("select a{number}, b{number}, c from t{number} where x = 1");
        assert!(memo.summary(&text(&source)).marks().is_empty());
        assert_eq!(memo.summary(&text(&source)).words().len(), 5);
        most = most.max(memo.bytes());
    }
    assert!(most <= BYTES_MAX, "{most} bytes");
    assert!(memo.len() > 4_000, "only {} texts are kept", memo.len());
}

#[test]
fn what_is_asked_for_stays_while_others_come_and_go() {
    let mut memo = Memo::new(Key::from_seed(3), 64 * 1024);
    let often = text("select often");
    let words = memo.summary(&often).words().as_ptr();
    for number in 0..20_000 {
        memo.summary(&text(&format!("select a{number}")));
        assert_eq!(memo.summary(&often).words().as_ptr(), words, "forgotten after {number} others");
    }
}

#[test]
fn a_large_text_evicts_no_other() {
    let mut memo = Memo::new(Key::from_seed(3), 64 * 1024);
    memo.summary(&text("select small"));
    let large: String = (0..5_000).map(|number| format!("a{number}, ")).collect();
    let large = format!("select {large} 1");
    assert_eq!(memo.summary(&text(&large)).words().len(), 5_000);
    assert_eq!(memo.len(), 1);
}

#[test]
fn a_hit_allocates_nothing() {
    let mut memo = memo();
    let seen =
        ["select 1", "update t set a = a + 1 where id = 5", "select \"a\", 'b', $1, x.y from z -- c", "set x = 1"];
    for source in seen {
        memo.summary(&text(source));
    }
    let counted = allocation_counter::measure(|| {
        for source in seen {
            for statement in text(source).statements() {
                std::hint::black_box(statement);
            }
            std::hint::black_box(memo.summary(&text(source)));
        }
        memo.summary(&text("update t set a = a + 1 where id = -1234"));
        memo.summary(&text("select 'open"));
    });
    assert_eq!(counted.count_total, 0);
    assert_eq!(memo.len(), seen.len());
}
