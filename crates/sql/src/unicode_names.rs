//! Identifiers with Unicode escapes: `U&"d\0061ta"`. //= pg18 sql-syntax-lexical#SQL-SYNTAX-IDENTIFIERS

use crate::scan::WORD_LEN_MAX;

/// The end of the identifier whose `U&` is at `at`; `None` if it is none that every server reads alike. One with an escape character of its
/// own, UESCAPE, is not read.
pub(crate) fn end(text: &[u8], at: usize) -> Option<usize> {
    const UESCAPE: &[u8] = b"uescape";
    let end = crate::scan::quoted(text, at + 3, b'"')?;
    let is_plain = !text[end..].windows(UESCAPE.len()).any(|word| word.eq_ignore_ascii_case(UESCAPE));
    // Nothing is kept of it: lexing allocates nothing.
    let (mut len, mut is_ascii) = (0, true);
    read(&text[at + 3..end - 1], |piece| {
        len += piece.len();
        is_ascii &= piece.is_ascii();
    })?;
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

/// In UTF-8. `None`: the server refuses it.
pub(crate) fn decode(inside: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(inside.len());
    read(inside, |piece| name.extend_from_slice(piece))?;
    Some(name)
}

/// Its characters in UTF-8, one after the other: a backslash and four hexadecimal digits, or one with `+` and six, is a character; two are one.
/// `None`: the server refuses it.
fn read(inside: &[u8], mut take: impl FnMut(&[u8])) -> Option<()> {
    let (mut rest, mut high) = (inside, None);
    while let Some((first, after)) = rest.split_first() {
        let (code, len) = match (first, after) {
            (b'"', [b'"', ..]) | (b'\\', [b'\\', ..]) => (None, 2),
            (b'\\', [b'+', digits @ ..]) => (Some(hexadecimal(digits.get(..6)?)?), 8),
            (b'\\', digits) => (Some(hexadecimal(digits.get(..4)?)?), 5),
            _ => (None, 1),
        };
        let code = match (code, high.take()) {
            (None, None) => {
                take(&rest[..1]);
                None
            }
            (Some(code @ 0xd800..=0xdbff), None) => {
                high = Some(code);
                None
            }
            (Some(code @ 0xdc00..=0xdfff), Some(high)) => Some(0x1_0000 + ((high - 0xd800) << 10) + (code - 0xdc00)),
            (Some(code), None) => Some(code),
            (_, Some(_)) => return None,
        };
        if let Some(code) = code {
            let character = char::from_u32(code).filter(|character| *character != '\0')?;
            take(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        rest = rest.get(len..)?;
    }
    high.is_none().then_some(())
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
            let decoded = decode(inside.as_bytes()).map(|name| String::from_utf8(name).expect("UTF-8"));
            assert_eq!(decoded.as_deref(), expected, "{inside}");
        }
    }
}
