//! The rules of `scan`, each at its edges; a text may end anywhere.

use super::*;

fn words(text: &[u8]) -> (usize, Vec<u64>) {
    let mut parts = Vec::new();
    let end = word(text, 0, |part| parts.push(part.bits()));
    (end, parts)
}

/// One byte at a time, by the table alone.
fn plain_word(text: &[u8]) -> (usize, Vec<u64>) {
    let end = text.iter().position(|byte| !continues_word(*byte)).unwrap_or(text.len());
    let folded = text[..end].to_ascii_lowercase();
    let mut parts = Vec::new();
    for (index, piece) in folded.split(|byte| *byte == b'$').enumerate() {
        parts.extend((index > 0).then_some(u64::from(b'$')));
        parts.extend(piece.chunks(8).map(|chunk| Chunk::load(chunk, 0).bits()));
        if piece.len() % 8 == 0 {
            parts.push(0);
        }
    }
    (end, parts)
}

#[test]
fn eight_bytes_at_a_time_agree_with_one_at_a_time() {
    for byte in 0..=255 {
        for len in 0..20 {
            for at in 0..=len {
                let mut text = b"aZ_09$zAqQ5_abcdefgh"[..len].to_vec();
                text.insert(at, byte);
                assert_eq!(words(&text), plain_word(&text), "{text:?}");
            }
        }
    }
}

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
