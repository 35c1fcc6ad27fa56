//! Identifiers with Unicode escapes: `U&"d\0061ta"`. //= pg18 sql-syntax-lexical#SQL-SYNTAX-IDENTIFIERS

use crate::scan::WORD_LEN_MAX;

/// The end of the identifier whose `U&` is at `at`; `None` if it is none that every server reads alike. One with an escape character of its
/// own, UESCAPE, is not read.
pub(crate) fn end(text: &[u8], at: usize) -> Option<usize> {
    const UESCAPE: &[u8] = b"uescape";
    let end = crate::scan::quoted(text, at + 3, b'"')?;
    let is_plain = !text[end..].windows(UESCAPE.len()).any(|word| word.eq_ignore_ascii_case(UESCAPE));
    let (mut len, mut is_ascii) = (0, true);
    for piece in pieces(&text[at + 3..end - 1]) {
        let piece = piece?;
        len += piece.bytes().count();
        is_ascii &= piece.bytes().all(|byte| byte.is_ascii());
    }
    let is_cut_alike = len <= WORD_LEN_MAX || is_ascii;
    (is_plain && len > 0 && is_cut_alike).then_some(end)
}

/// What is in the quotes of such an identifier, as it is written. `None` if it is none.
pub(crate) fn inside(written: &[u8]) -> Option<&[u8]> {
    match written {
        [b'u' | b'U', b'&', b'"', inside @ .., b'"'] => Some(inside),
        _ => None,
    }
}

/// The bytes of what is in the quotes, in UTF-8, up to what a server refuses. Lexing allocates nothing, so they are given one by one.
pub(crate) fn bytes(inside: &[u8]) -> impl Iterator<Item = u8> + '_ {
    pieces(inside).map_while(|piece| piece).flat_map(Piece::bytes)
}

/// A character that was escaped, or a byte that was not.
#[derive(Clone, Copy)]
enum Piece {
    Byte(u8),
    Character(char),
}

impl Piece {
    fn bytes(self) -> impl Iterator<Item = u8> {
        let (mut bytes, mut len) = ([0; 4], 1);
        match self {
            Piece::Byte(byte) => bytes[0] = byte,
            Piece::Character(character) => len = character.encode_utf8(&mut bytes).len(),
        }
        bytes.into_iter().take(len)
    }
}

/// The pieces, one after the other, of what is in the quotes. `None` among them, and last: the server refuses it.
fn pieces(inside: &[u8]) -> impl Iterator<Item = Option<Piece>> + '_ {
    let mut rest = inside;
    std::iter::from_fn(move || {
        let first = *rest.first()?;
        let piece =
            if first == b'\\' && rest.get(1) != Some(&b'\\') { character(&mut rest) } else { Some(Piece::Byte(first)) };
        rest = match piece {
            // Of two quotes, or two backslashes, the second is left out.
            Some(Piece::Byte(_)) => &rest[1 + usize::from(is_doubled(rest))..],
            Some(Piece::Character(_)) => rest,
            None => b"",
        };
        Some(piece)
    })
}

fn is_doubled(rest: &[u8]) -> bool {
    matches!(rest, [b'"', b'"', ..] | [b'\\', b'\\', ..])
}

/// The character whose escape begins `rest`, or whose pair of surrogates does. Moves `rest` behind it.
fn character(rest: &mut &[u8]) -> Option<Piece> {
    let code = match escape(rest)? {
        high @ 0xd800..=0xdbff => match escape(rest)? {
            low @ 0xdc00..=0xdfff => 0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00),
            _ => return None,
        },
        code => code,
    };
    char::from_u32(code).filter(|character| *character != '\0').map(Piece::Character)
}

/// A backslash and four hexadecimal digits, or one with `+` and six.
fn escape(rest: &mut &[u8]) -> Option<u32> {
    let (digits, len) = match *rest {
        [b'\\', b'+', digits @ ..] => (digits.get(..6)?, 8),
        [b'\\', digits @ ..] => (digits.get(..4)?, 5),
        _ => return None,
    };
    *rest = &rest[len..];
    hexadecimal(digits)
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_names() {
        let table: [(&str, Option<&str>); 13] = [
            (r"data", Some("data")),
            (r"d\0061t\+000061", Some("data")),
            (r"\0441\043B\043E\043D", Some("слон")),
            (r"\D83D\DE00", Some("😀")),
            (r#"a""b\\c"#, Some(r#"a"b\c"#)),
            (r"", Some("")),
            (r"\00", None),
            (r"\zzzz", None),
            (r"\+00006", None),
            (r"\D83D", None),
            (r"\D83Dx", None),
            (r"\DE00", None),
            (r"\0000", None),
        ];
        for (inside, expected) in table {
            let is_read = pieces(inside.as_bytes()).all(|piece| piece.is_some());
            let decoded = String::from_utf8(bytes(inside.as_bytes()).collect()).expect("UTF-8");
            assert_eq!(is_read.then_some(decoded.as_str()), expected, "{inside}");
        }
    }
}
