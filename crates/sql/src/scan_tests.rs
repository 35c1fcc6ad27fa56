//! The rules of `scan`, each at its edges; a text may end anywhere.

use super::*;

#[test]
fn what_does_not_end_has_no_end() {
    for at in 0..3 {
        assert_eq!(quoted(b"'a", at, b'\''), (at == 0).then_some(1), "{at}");
        assert_eq!(escaped(b"a\\'", at), (at == 2).then_some(3), "{at}");
    }
    assert_eq!(comment(b"/* /* */", 0), None);
    assert_eq!(comment(b"/*", 0), None);
    assert_eq!(comment(b"/*/", 0), None);
    assert_eq!(comment(b"/**/", 0), Some(4));
    assert_eq!(dollar_quoted(b"$", 0), None);
    assert_eq!(dollar_quoted(b"$a", 0), None);
    assert_eq!(dollar_quoted(b"$$ $", 0), None);
    assert_eq!(dollar_quoted(b"$$$$", 0), Some(4));
    assert_eq!(dollar_quoted(b"$a$$a$", 0), Some(6));
    assert_eq!(dollar_quoted(b"$a$$b$a$", 0), Some(8));
}

#[test]
fn numbers_end_where_every_server_ends_them() {
    for (text, end) in [
        ("1", Some(1)),
        ("1,", Some(1)),
        ("1.5", Some(3)),
        (".5", Some(2)),
        ("1.", Some(2)),
        ("1..2", Some(1)),
        ("1.5.", Some(3)),
        ("1e5", Some(3)),
        ("1e-5", Some(4)),
        ("1.e5", Some(4)),
        ("0x1F", Some(4)),
        ("0b01", Some(4)),
        ("1_000", Some(5)),
        ("1x", None),
        ("1from", None),
        ("0xg", None),
        ("1$", None),
        ("1\u{e9}", None),
    ] {
        assert_eq!(number(text.as_bytes(), 0), end, "{text}");
    }
}
