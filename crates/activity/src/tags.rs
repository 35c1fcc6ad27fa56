//! What an application says of a statement in its comment, bounded, as text that can be shown anywhere.

use std::fmt;

use sql::comment_tags;

/// A comment may have any number of tags, each of any length.
const TAGS_MAX: usize = 16;
const KEY_CHARS_MAX: usize = 64;
const VALUE_CHARS_MAX: usize = 256;

/// The tags of one statement, in their order. A key stands once: its first value counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tags(Vec<(Box<str>, Box<str>)>);

impl Tags {
    /// Of a statement's text. What is no UTF-8 is replaced by U+FFFD.
    #[must_use]
    pub fn of(text: &[u8]) -> Tags {
        let mut tags: Vec<(Box<str>, Box<str>)> = Vec::new();
        for tag in comment_tags(text) {
            let key = beginning(tag.key, KEY_CHARS_MAX);
            if tags.len() < TAGS_MAX && tags.iter().all(|(known, _)| *known != key) {
                tags.push((key, beginning(&tag.value, VALUE_CHARS_MAX)));
            }
        }
        Tags(tags)
    }

    /// Of pairs that were a statement's once; as bounded as these.
    pub(crate) fn of_pairs<'t>(pairs: impl Iterator<Item = (&'t str, &'t str)>) -> Tags {
        let bounded = |(key, value): (&str, &str)| {
            (beginning(key.as_bytes(), KEY_CHARS_MAX), beginning(value.as_bytes(), VALUE_CHARS_MAX))
        };
        Tags(pairs.take(TAGS_MAX).map(bounded).collect())
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Those with these keys.
    #[must_use]
    pub fn only(&self, keys: &[Box<str>]) -> Tags {
        Tags(self.0.iter().filter(|(key, _)| keys.contains(key)).cloned().collect())
    }

    /// Bytes of its texts.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.0.iter().map(|(key, value)| key.len() + value.len() + 2 * size_of::<Box<str>>()).sum()
    }
}

/// `controller=carts action=show`, as a person reads it.
impl fmt::Display for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{key}={value}")?;
        }
        Ok(())
    }
}

fn beginning(bytes: &[u8], chars_max: usize) -> Box<str> {
    // No character has more than four bytes.
    let bytes = &bytes[..bytes.len().min(chars_max * 4)];
    String::from_utf8_lossy(bytes).chars().take(chars_max).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_in_both_ways_of_writing_them() {
        let tags = Tags::of(b"/*controller:carts,action:show*/ select 1 /*traceparent='00-ab',controller='other'*/");
        assert_eq!(tags.to_string(), "controller=carts action=show traceparent=00-ab");
        assert_eq!((tags.get("action"), tags.get("user")), (Some("show"), None));
        assert_eq!(tags.only(&["action".into(), "db".into()]).to_string(), "action=show");
        assert!(Tags::of(b"select 1").is_empty());
    }

    #[test]
    fn a_hostile_comment_is_bounded_and_text() {
        let many: String = (0..100).map(|index| format!("k{index}:v,")).collect();
        assert_eq!(Tags::of(format!("/*{many}*/ select 1").as_bytes()).iter().count(), TAGS_MAX);
        let long = Tags::of(format!("/*k:{}*/ select 1", "ä".repeat(900)).as_bytes());
        assert_eq!(long.get("k").map(|value| value.chars().count()), Some(VALUE_CHARS_MAX));
        assert_eq!(Tags::of(b"/*k:\xff\xfe*/ select 1").get("k"), Some("\u{fffd}\u{fffd}"));
    }
}
