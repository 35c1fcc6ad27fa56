//! What an application says of itself in a comment at the beginning or the end of a text.
//!
//! ```text
//!   /*application:web,correlation_id:01F…*/ select 1          key:value, as Marginalia writes it
//!   select 1 /*controller='index',framework='rails%203'*/     key='value' with percent signs, as sqlcommenter does
//!   /* deadline_ms=200 */ select 1
//! ```
//!
//! Promises: only comments between slash and star are looked into, several in a row, before the first statement and behind the
//! last; the end is found backwards, so that the text's length does not matter, and what stands in a string that ends with its
//! quote is none of them. A tag is the client's own word, and nobody checked it. Does not decide what a key means.

use std::borrow::Cow;

/// How much of one end of a text is looked at.
const SPAN_MAX: usize = 2048;

/// One word of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommentTag<'t> {
    pub key: &'t [u8],
    /// Without its quotes and percent signs.
    pub value: Cow<'t, [u8]>,
}

/// The tags of a text, first those at its beginning.
pub fn comment_tags(text: &[u8]) -> impl Iterator<Item = CommentTag<'_>> {
    let (leading, rest) = leading(text);
    leading.into_iter().chain(trailing(rest)).flat_map(tags)
}

/// The same for who looks for few keys, many times a second: a word is read only if it may begin with one of them, which is what
/// `wanted` is asked.
pub fn each_comment_tag<'t>(text: &'t [u8], wanted: impl Fn(&[u8]) -> bool, mut each: impl FnMut(&CommentTag<'t>)) {
    let mut look = |word: &'t [u8]| {
        let word = word.trim_ascii_start();
        if wanted(word)
            && let Some(tag) = tag(word)
        {
            each(&tag);
        }
    };
    let mut look_into = |mut words: &'t [u8]| {
        while let Some(at) = find(words, b',') {
            look(&words[..at]);
            words = &words[at + 1..];
        }
        look(words);
    };
    let mut rest = text.trim_ascii_start();
    while let Some((comment, behind)) = first(rest) {
        look_into(comment);
        rest = behind;
        if text.len() - rest.len() > SPAN_MAX {
            break;
        }
    }
    if let Some(comment) = trailing(rest) {
        look_into(comment);
    }
}

fn without_semicolons(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !byte.is_ascii_whitespace() && *byte != b';');
    &text[..end.map_or(0, |end| end + 1)]
}

/// The comments that a text begins with, and what stands behind them.
fn leading(text: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut comments = Vec::new();
    let mut rest = text.trim_ascii_start();
    while let Some((comment, behind)) = first(rest) {
        comments.push(comment);
        rest = behind;
        if text.len() - rest.len() > SPAN_MAX {
            break;
        }
    }
    (comments, rest)
}

/// The comment that this begins with, and what stands behind it.
fn first(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inside = text.strip_prefix(b"/*")?;
    let window = &inside[..inside.len().min(SPAN_MAX)];
    let mut end = find(window, b'*')?;
    while window.get(end + 1) != Some(&b'/') {
        end += 1 + find(&window[end + 1..], b'*')?;
    }
    Some((&inside[..end], inside[end + 2..].trim_ascii_start()))
}

/// The comment that a text ends with.
fn trailing(text: &[u8]) -> Option<&[u8]> {
    let inside = without_semicolons(text).strip_suffix(b"*/")?;
    let window = &inside[inside.len().saturating_sub(SPAN_MAX)..];
    let opens = |at: &usize| window[*at] == b'*' && window[at - 1] == b'/';
    let mut end = window.len();
    while let Some(eight) = window[..end].last_chunk::<8>() {
        let star = places(u64::from_le_bytes(*eight), b'*') != 0;
        if star && let Some(start) = (end.max(9) - 8..end).rev().find(opens) {
            return Some(&window[start + 1..]);
        }
        end -= 8;
    }
    let start = (1..end).rev().find(opens)?;
    Some(&window[start + 1..])
}

/// The first place of a byte: eight at a time, since comments are read for every transaction.
fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    let (eights, rest) = bytes.as_chunks::<8>();
    for (index, eight) in eights.iter().enumerate() {
        let places = places(u64::from_le_bytes(*eight), byte);
        if places != 0 {
            return Some(index * 8 + places.trailing_zeros() as usize / 8);
        }
    }
    let at = rest.iter().position(|&other| other == byte)?;
    Some(eights.len() * 8 + at)
}

/// The highest bit of each byte of `eight` that is this one, and perhaps of some above such a byte: the lowest is right.
fn places(eight: u64, byte: u8) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let differs = eight ^ (ONES * u64::from(byte));
    differs.wrapping_sub(ONES) & !differs & (ONES << 7)
}

fn tags(comment: &[u8]) -> impl Iterator<Item = CommentTag<'_>> {
    comment.split(|&byte| byte == b',').filter_map(tag)
}

fn tag(part: &[u8]) -> Option<CommentTag<'_>> {
    let part = part.trim_ascii();
    let border = part.iter().position(|&byte| byte == b':' || byte == b'=')?;
    let (key, value) = (part[..border].trim_ascii_end(), part[border + 1..].trim_ascii_start());
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if key.is_empty() || !key.iter().all(is_word) {
        return None;
    }
    let quoted = value.strip_prefix(b"'").and_then(|value| value.strip_suffix(b"'"));
    let value = quoted.map_or(Cow::Borrowed(value), without_percent_signs);
    Some(CommentTag { key, value })
}

/// RFC 3986, section 2.1. A percent sign that begins nothing stays.
fn without_percent_signs(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'%') {
        return Cow::Borrowed(value);
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let mut out = Vec::with_capacity(value.len());
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        match (byte, digit(value.get(at + 1)), digit(value.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                at += 3;
            }
            _ => {
                out.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, String)> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let tags: Vec<_> = comment_tags(text.as_bytes()).map(|tag| (text_of(tag.key), text_of(&tag.value))).collect();
        // Who wants every word is told the same, who wants none nothing.
        let mut each = Vec::new();
        each_comment_tag(text.as_bytes(), |_| true, |tag| each.push((text_of(tag.key), text_of(&tag.value))));
        assert_eq!(each, tags, "{text}");
        each_comment_tag(text.as_bytes(), |_| false, |tag| panic!("{text}: {tag:?}"));
        tags
    }

    fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> Vec<(String, String)> {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec()
    }

    #[test]
    fn tags_stand_at_both_ends() {
        let web = [("application", "web"), ("correlation_id", "01F")];
        assert_eq!(found("/*application:web,correlation_id:01F*/ select 1"), pairs(web));
        assert_eq!(found("select 1 /*application:web,correlation_id:01F*/"), pairs(web));
        assert_eq!(found(" select 1 /* application = web , correlation_id='01F' */ ; "), pairs(web));
        assert_eq!(
            found("/* a:1 */ /*b:2*/ select 'x' /*c='%2fx%2'*/"),
            pairs([("a", "1"), ("b", "2"), ("c", "/x%2")])
        );
        assert_eq!(found("/* a:1 */"), pairs([("a", "1")]));
    }

    #[test]
    fn what_is_no_tag_is_left_alone() {
        let texts = [
            "",
            "/*",
            "*/",
            "/**/",
            "/* hello */ select 1",
            "select '/*a:b*/'",
            "select 1 -- a:b",
            "/*:b*/",
            "select /*a:b*/ 1",
            "/* {\"a\": 1} */ select 1",
            "select 1 */",
        ];
        for text in texts {
            assert_eq!(found(text), pairs([]), "{text}");
        }
    }

    #[test]
    fn a_byte_is_found_wherever_it_is() {
        let byte_by_byte = |text: &[u8]| (1..text.len()).rev().find(|&at| text[at - 1..=at] == *b"/*");
        // Neighbours of the bytes that are looked for, in each place of a window of eight.
        for len in 0..40 {
            for at in 0..len {
                for other in [0, b'-', b'+', b')', b'/', 0x80, 0xff] {
                    let mut text = vec![other; len];
                    text[at] = b',';
                    assert_eq!(find(&text, b','), Some(at));
                    assert_eq!(find(&text, b'*'), None);
                    text[at] = b'*';
                    assert_eq!(find(&text, b'*'), Some(at));
                    let closed = [&text, &b"*/"[..]].concat();
                    let opening = byte_by_byte(&text).map(|at| &text[at + 1..]);
                    assert_eq!(trailing(&closed), opening, "{closed:?}");
                }
            }
        }
    }

    #[test]
    fn no_more_than_a_span_is_looked_at() {
        let long = format!("/*{}a:b*/ select 1", " ".repeat(SPAN_MAX));
        assert_eq!(found(&long), pairs([]));
    }
}
