//! What an application says of itself in a comment at the beginning or the end of a text.
//!
//! ```text
//!   /*application:web,correlation_id:01F…*/ select 1          key:value, as Marginalia writes it
//!   select 1 /*controller='index',framework='rails%203'*/     key='value' with percent signs, as sqlcommenter does
//!   /* deadline_ms=200 */ select 1
//! ```
//!
//! Promises: only comments between slash and star are looked into, several in a row, before the first statement and
//! behind the last; the end is found backwards, so that the text's length does not matter, and what stands in a string
//! that ends with its quote is none of them. A tag is the client's claim and was not checked. Does not decide what a
//! key means.

use std::borrow::Cow;

use memchr::memmem::Finder;
use memchr::memrchr_iter;

use crate::chunk::{CHUNK_LEN, Chunk};
use crate::scan;

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

/// A few keys that are looked for in every text. A word of a comment that cannot be one of them is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedTags {
    keys: Box<[WantedKey]>,
    /// By a key's first byte modulo 64: the first of [`WantedTags::keys`] that begins so, if there is one.
    firsts: [Option<u16>; FIRSTS],
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct WantedKey {
    key: Box<[u8]>,
    /// Its first eight bytes, or all of them, and its last eight.
    head: Chunk,
    tail: Chunk,
    /// The next key of those that are found by the same first byte.
    next: Option<u16>,
}

impl WantedKey {
    fn new(key: Box<[u8]>, next: Option<u16>) -> WantedKey {
        let (head, tail) = (Chunk::load(&key, 0), Chunk::load(&key, key.len().saturating_sub(CHUNK_LEN)));
        WantedKey { key, head, tail, next }
    }

    /// Whether a word that is longer begins with it.
    #[inline(always)]
    fn begins(&self, word: &[u8]) -> bool {
        let len = self.key.len();
        match len {
            0..CHUNK_LEN => Chunk::load(word, 0).first(len) == self.head.first(len),
            CHUNK_LEN..=SHORT_MAX => {
                Chunk::load(word, 0) == self.head && Chunk::load(word, len - CHUNK_LEN) == self.tail
            }
            _ => word.starts_with(&self.key),
        }
    }
}

/// Keys of so many bytes are compared by their first and last eight.
const SHORT_MAX: usize = 2 * CHUNK_LEN;

/// Letters of one case, digits and the other bytes of keys differ modulo this.
const FIRSTS: usize = 64;

impl WantedTags {
    /// Each once, and as a tag's key can be: of letters, digits, `_`, `-` and `.`.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = Box<[u8]>>) -> WantedTags {
        let mut firsts = [None; FIRSTS];
        let keys = (0..).zip(keys).map(|(index, key)| {
            let next = match key.first() {
                Some(first) => firsts[usize::from(*first) % FIRSTS].replace(index),
                None => None,
            };
            WantedKey::new(key, next)
        });
        let keys = keys.collect();
        WantedTags { keys, firsts }
    }

    /// As they were given.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.keys.iter().map(|wanted| &*wanted.key)
    }

    /// Tells of the tags with these keys, in the order of [`comment_tags`]: which key, and the value.
    pub fn each<'t>(&self, text: &'t [u8], mut each: impl FnMut(usize, Cow<'t, [u8]>)) {
        let mut rest = text.trim_ascii_start();
        while rest.starts_with(b"/*")
            && let Some((comment, behind)) = first(rest)
        {
            self.look_into(comment, &mut each);
            rest = behind;
            if text.len() - rest.len() > SPAN_MAX {
                break;
            }
        }
        if let Some(comment) = trailing(rest) {
            self.look_into(comment, &mut each);
        }
    }

    fn look_into<'t>(&self, comment: &'t [u8], each: &mut impl FnMut(usize, Cow<'t, [u8]>)) {
        let mut begin = 0;
        while begin < comment.len() {
            let end = scan::find(comment, begin, b',').unwrap_or(comment.len());
            match comment[begin] {
                first if first.is_ascii_whitespace() => self.read_spaced(&comment[begin..end], each),
                first if self.firsts[usize::from(first) % FIRSTS].is_some() => self.read(&comment[begin..end], each),
                _ => {}
            }
            begin = end + 1;
        }
    }

    #[inline(never)]
    fn read_spaced<'t>(&self, word: &'t [u8], each: &mut impl FnMut(usize, Cow<'t, [u8]>)) {
        self.read(word.trim_ascii_start(), each);
    }

    #[inline(always)]
    fn read<'t>(&self, word: &'t [u8], each: &mut impl FnMut(usize, Cow<'t, [u8]>)) {
        let mut next = word.first().and_then(|first| self.firsts[usize::from(*first) % FIRSTS]);
        while let Some(index) = next {
            let wanted = &self.keys[usize::from(index)];
            next = wanted.next;
            // Most words are told from a key by the byte after it.
            let Some(b':' | b'=' | b' ' | b'\t'..=b'\r') = word.get(wanted.key.len()) else { continue };
            if wanted.begins(word)
                && let [b':' | b'=', value @ ..] = word[wanted.key.len()..].trim_ascii_start()
            {
                return each(usize::from(index), value_of(value));
            }
        }
    }
}

/// One key, for a search in every text: of most that have a comment, one look says that it is not there.
#[derive(Clone, Debug)]
pub struct WantedTag {
    key: Finder<'static>,
    tags: WantedTags,
}

impl WantedTag {
    /// As a tag's key can be.
    #[must_use]
    pub fn new(key: &[u8]) -> WantedTag {
        WantedTag { key: Finder::new(key).into_owned(), tags: WantedTags::new([key.into()]) }
    }

    /// The value of the first tag with this key.
    #[inline]
    #[must_use]
    pub fn first<'t>(&self, text: &'t [u8]) -> Option<Cow<'t, [u8]>> {
        if has_comment(text) { self.first_of(text) } else { None }
    }

    #[inline(never)]
    fn first_of<'t>(&self, text: &'t [u8]) -> Option<Cow<'t, [u8]>> {
        let mut first = None;
        // What is longer has more beside its comments to look at than these may be long.
        if text.len() > 2 * SPAN_MAX || self.key.find(text).is_some() {
            self.tags.each(text, |_, value| _ = first.get_or_insert(value));
        }
        first
    }
}

/// Whether a text begins with a comment, or ends with one. Mostly it does not.
#[inline]
fn has_comment(text: &[u8]) -> bool {
    let begins = match text.first() {
        Some(b'/') => text.starts_with(b"/*"),
        Some(first) => first.is_ascii_whitespace() && text.trim_ascii_start().starts_with(b"/*"),
        None => false,
    };
    begins || without_semicolons(text).ends_with(b"*/")
}

#[inline]
fn without_semicolons(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., last] = text
        && (last.is_ascii_whitespace() || *last == b';')
    {
        text = rest;
    }
    text
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
    let mut end = scan::find(window, 0, b'*')?;
    while window.get(end + 1) != Some(&b'/') {
        end = scan::find(window, end + 1, b'*')?;
    }
    Some((&inside[..end], inside[end + 2..].trim_ascii_start()))
}

/// The comment that a text ends with.
fn trailing(text: &[u8]) -> Option<&[u8]> {
    let inside = without_semicolons(text).strip_suffix(b"*/")?;
    let window = &inside[inside.len().saturating_sub(SPAN_MAX)..];
    let star = memrchr_iter(b'*', window).find(|star| *star > 0 && window[star - 1] == b'/')?;
    Some(&window[star + 1..])
}

fn tags(comment: &[u8]) -> impl Iterator<Item = CommentTag<'_>> {
    comment.split(|&byte| byte == b',').filter_map(tag)
}

fn tag(part: &[u8]) -> Option<CommentTag<'_>> {
    let part = part.trim_ascii();
    let border = part.iter().position(|&byte| byte == b':' || byte == b'=')?;
    let (key, value) = (part[..border].trim_ascii_end(), &part[border + 1..]);
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    if key.is_empty() || !key.iter().all(is_word) {
        return None;
    }
    Some(CommentTag { key, value: value_of(value) })
}

#[inline]
fn value_of(value: &[u8]) -> Cow<'_, [u8]> {
    let is_bare = |byte: &u8| !byte.is_ascii_whitespace() && *byte != b'\'';
    if value.first().is_some_and(is_bare) && value.last().is_some_and(is_bare) {
        return Cow::Borrowed(value);
    }
    written_value(value)
}

/// Of a value with spaces around it, or quotes.
#[inline(never)]
fn written_value(value: &[u8]) -> Cow<'_, [u8]> {
    let value = value.trim_ascii();
    let quoted = value.strip_prefix(b"'").and_then(|value| value.strip_suffix(b"'"));
    quoted.map_or(Cow::Borrowed(value), without_percent_signs)
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
    use std::collections::BTreeSet;

    fn found(text: &str) -> Vec<(String, String)> {
        let text_of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let tags: Vec<_> = comment_tags(text.as_bytes()).map(|tag| (text_of(tag.key), text_of(&tag.value))).collect();
        // Who looks for these keys is told the same, who looks for some of them of these, for others of none.
        let keys: BTreeSet<Box<[u8]>> = tags.iter().map(|(key, _)| key.as_bytes().into()).collect();
        let begins: Vec<Box<[u8]>> = keys.iter().map(|key| key[..key.len() - 1].into()).collect();
        for wanted in [keys.iter().cloned().collect(), keys.iter().skip(1).cloned().collect(), begins] {
            let wanted = WantedTags::new(wanted.into_iter().filter(|key| !key.is_empty()));
            let names: Vec<String> = wanted.keys().map(text_of).collect();
            let mut each = Vec::new();
            wanted.each(text.as_bytes(), |key, value| each.push((names[key].clone(), text_of(&value))));
            let expected: Vec<_> = tags.iter().filter(|(key, _)| names.contains(key)).cloned().collect();
            assert_eq!(each, expected, "{text}");
        }
        let wanted = WantedTag::new(b"a");
        let first = tags.iter().find(|(key, _)| key == "a").map(|(_, value)| value.as_bytes().to_vec());
        assert_eq!(wanted.first(text.as_bytes()).map(Cow::into_owned), first, "{text}");
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
    fn a_key_of_any_length_is_told_from_others() {
        for len in 1..=20 {
            let key: Vec<u8> = (b'a'..=b'z').take(len).collect();
            let wanted = WantedTags::new([key.clone().into_boxed_slice()]);
            let values = |text: &[u8]| {
                let mut values = Vec::new();
                wanted.each(text, |_, value| values.push(value.into_owned()));
                values
            };
            let comment = |key: &[u8]| [b"select 1 /*x:1,", key, b":2*/"].concat();
            assert_eq!(values(&comment(&key)), [b"2"], "{len}");
            assert!(values(&comment(&key[1..])).is_empty() && values(&comment(&[&key, &b"_"[..]].concat())).is_empty());
            for at in 0..len {
                let mut other = key.clone();
                other[at] = b'_';
                assert!(values(&comment(&other)).is_empty(), "{at} of {len}");
            }
        }
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
    fn a_comment_is_found_wherever_it_is() {
        let byte_by_byte = |text: &[u8]| (1..text.len()).rev().find(|&at| text[at - 1..=at] == *b"/*");
        // What looks like the beginning or the end of one, in each place.
        for len in 0..40 {
            for at in 0..len {
                for other in [0, b'-', b'+', b')', b'/', 0x80, 0xff] {
                    let mut text = vec![other; len];
                    text[at] = b'*';
                    let closed = [&text, &b"*/"[..]].concat();
                    let opening = byte_by_byte(&text).map(|at| &text[at + 1..]);
                    assert_eq!(trailing(&closed), opening, "{closed:?}");
                }
            }
        }
    }

    #[test]
    fn a_tag_is_found_wherever_it_begins_and_ends() {
        for (before, between) in (0..20).flat_map(|before| (0..10).map(move |between| (before, between))) {
            let (before, between) = ("x".repeat(before), "1".repeat(between));
            let expected = pairs([("a", &between), ("b", "2")]);
            assert_eq!(found(&format!("/*{before},a:{between},b:2*/ select 1")), expected);
            assert_eq!(found(&format!("/*{before}, a : {between} ,\tb:2*/ select 1")), expected);
        }
    }

    #[test]
    fn no_more_than_a_span_is_looked_at() {
        let long = format!("/*{}a:b*/ select 1", " ".repeat(SPAN_MAX));
        assert_eq!(found(&long), pairs([]));
    }
}
