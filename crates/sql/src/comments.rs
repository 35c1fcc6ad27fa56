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
    let (leading, rest) = leading(text);
    for comment in leading.into_iter().chain(trailing(rest)) {
        let mut begin = 0;
        for (at, &byte) in comment.iter().enumerate() {
            if byte == b',' {
                look(&comment[begin..at]);
                begin = at + 1;
            }
        }
        look(&comment[begin..]);
    }
}

/// Whether there can be any: what the hot path asks.
#[must_use]
pub fn may_have_comment_tags(text: &[u8]) -> bool {
    let text = text.strip_suffix(b"\0").unwrap_or(text).trim_ascii();
    text.starts_with(b"/*") || without_semicolons(text).ends_with(b"*/")
}

fn without_semicolons(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !byte.is_ascii_whitespace() && *byte != b';');
    &text[..end.map_or(0, |end| end + 1)]
}

/// The comments that a text begins with, and what stands behind them.
fn leading(text: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let mut comments = Vec::new();
    let mut rest = text.trim_ascii_start();
    while let Some(inside) = rest.strip_prefix(b"/*") {
        let window = &inside[..inside.len().min(SPAN_MAX)];
        let Some(end) = window.windows(2).position(|pair| pair == b"*/") else { break };
        comments.push(&inside[..end]);
        rest = inside[end + 2..].trim_ascii_start();
        if text.len() - rest.len() > SPAN_MAX {
            break;
        }
    }
    (comments, rest)
}

/// The comment that a text ends with.
fn trailing(text: &[u8]) -> Option<&[u8]> {
    let inside = without_semicolons(text).strip_suffix(b"*/")?;
    let window = &inside[inside.len().saturating_sub(SPAN_MAX)..];
    let start = (1..window.len()).rev().find(|&at| window[at] == b'*' && window[at - 1] == b'/')?;
    Some(&window[start + 1..])
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
        assert!(tags.is_empty() || may_have_comment_tags(text.as_bytes()), "{text}");
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
        assert!(!may_have_comment_tags(b"select 1\0"));
    }

    #[test]
    fn no_more_than_a_span_is_looked_at() {
        let long = format!("/*{}a:b*/ select 1", " ".repeat(SPAN_MAX));
        assert_eq!(found(&long), pairs([]));
    }
}
