//! A password as SCRAM hashes it: SASLprep in the way PostgreSQL and libpq do it.
//!
//! Promises the very bytes they hash, or the login fails at one of the three. Two things are theirs, not RFC 4013's:
//! what SASLprep refuses is hashed as it is, so passwords in other encodings work; and forbidden characters are
//! looked for after mapping but before normalisation, so one that normalisation would replace is still refused.
//! That is why the stringprep crate serves its tables here, and not its function.
//= pg18 sasl-authentication#SASL-SCRAM-SHA-256
//= rfc4013#section-2

use stringprep::tables;
use unicode_normalization::UnicodeNormalization;
use zeroize::Zeroizing;

/// The bytes to hash for a password as it was given.
pub(super) fn prepared(password: &[u8]) -> Zeroizing<Vec<u8>> {
    let as_given = || Zeroizing::new(password.to_vec());
    // ASCII is never changed, not even where SASLprep would refuse it.
    if password.is_ascii() {
        return as_given();
    }
    let Ok(text) = std::str::from_utf8(password) else {
        return as_given();
    };
    let mapped = Zeroizing::new(mapped(text));
    let is_refused = mapped.is_empty() || mapped.contains(is_forbidden) || !is_one_way(&mapped);
    match is_refused {
        true => as_given(),
        false => Zeroizing::new(mapped.nfkc().collect::<String>().into_bytes()),
    }
}

/// Every kind of space as a space, and nothing for what cannot be seen.
//= rfc4013#section-2.1
fn mapped(text: &str) -> String {
    let mut mapped = String::with_capacity(text.len());
    for c in text.chars() {
        // U+200B is in both tables, and PostgreSQL looks into this one first.
        if tables::non_ascii_space_character(c) {
            mapped.push(' ');
        } else if !tables::commonly_mapped_to_nothing(c) {
            mapped.push(c);
        }
    }
    mapped
}

/// Whether a password with this character is hashed as it is. "Unassigned" means: in Unicode 3.2, for ever.
//= rfc4013#section-2.3
//= rfc4013#section-2.5
fn is_forbidden(c: char) -> bool {
    // Other spaces than ' ' are forbidden too, but mapping has left none.
    tables::ascii_control_character(c)
        || tables::non_ascii_control_character(c)
        || tables::private_use(c)
        || tables::non_character_code_point(c)
        || tables::inappropriate_for_plain_text(c)
        || tables::inappropriate_for_canonical_representation(c)
        || tables::change_display_properties_or_deprecated(c)
        || tables::tagging_character(c)
        || tables::unassigned_code_point(c)
}

/// That a text with letters written from right to left begins and ends with one, and has none of the others.
//= rfc3454#section-6
fn is_one_way(text: &str) -> bool {
    if !text.contains(tables::bidi_r_or_al) {
        return true;
    }
    let ends_so = text.starts_with(tables::bidi_r_or_al) && text.ends_with(tables::bidi_r_or_al);
    ends_so && !text.contains(is_left_to_right)
}

/// Whether a letter was written from left to right in Unicode 3.2, which is what counts. The crate's table is of a
/// later Unicode; these are all the characters of 3.2 that it sees otherwise.
fn is_left_to_right(c: char) -> bool {
    match c {
        '\u{17b4}'..='\u{17b5}' | '\u{1885}'..='\u{1886}' => true,
        '\u{1d6c1}' | '\u{1d6db}' | '\u{1d6fb}' | '\u{1d715}' | '\u{1d735}' => true,
        '\u{1d74f}' | '\u{1d76f}' | '\u{1d789}' | '\u{1d7a9}' | '\u{1d7c3}' => true,
        '\u{cbf}' | '\u{cc6}' | '\u{1734}' | '\u{2132}' => false,
        '\u{2800}'..='\u{28ff}' | '\u{302e}'..='\u{302f}' => false,
        _ => tables::bidi_l(c),
    }
}
