//! The template by which PostgreSQL is told whom a server works for, in its `application_name`.
//!
//! ```text
//!   %a@%h/%c %t{correlation_id}   ──►   shop@10.0.0.7/web 01HV3C…
//! ```
//!
//! Promises that a template that was read has no escape that means nothing. Does not know what the escapes stand for at a moment: whoever
//! fills one in says so.

use std::fmt;

/// A template. Empty: PostgreSQL is told the client's own application_name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerName(Box<[NamePart]>);

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamePart {
    /// Text that stands as it is.
    Text(String),
    /// `%a`: the client's application_name.
    Application,
    /// `%h`: the client's address.
    Address,
    /// `%c`: the client's class.
    Class,
    /// `%i`: the client's id in SHOW CLIENTS.
    Client,
    /// `%u`: the user that the client has logged in as.
    User,
    /// `%t{key}`: the tag of the comment of the transaction's first statement.
    Tag(String),
}

impl ServerName {
    /// `None`: an escape that means nothing.
    #[must_use]
    pub(crate) fn read(template: &str) -> Option<ServerName> {
        let mut parts: Vec<NamePart> = Vec::new();
        let mut rest = template;
        while let Some(at) = rest.find('%') {
            add_text(&mut parts, &rest[..at]);
            let escape = rest[at + 1..].chars().next()?;
            rest = &rest[at + 1 + escape.len_utf8()..];
            match escape {
                '%' => add_text(&mut parts, "%"),
                'a' => parts.push(NamePart::Application),
                'h' => parts.push(NamePart::Address),
                'c' => parts.push(NamePart::Class),
                'i' => parts.push(NamePart::Client),
                'u' => parts.push(NamePart::User),
                't' => {
                    let (key, behind) = rest.strip_prefix('{')?.split_once('}')?;
                    parts.push(NamePart::Tag(Some(key).filter(|key| is_key(key))?.to_owned()));
                    rest = behind;
                }
                _ => return None,
            }
        }
        add_text(&mut parts, rest);
        Some(ServerName(parts.into()))
    }

    /// Whether PostgreSQL is told the client's own application_name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn parts(&self) -> impl Iterator<Item = &NamePart> {
        self.0.iter()
    }

    /// Whether it differs by what a transaction begins with.
    #[must_use]
    pub fn reads_tags(&self) -> bool {
        self.parts().any(|part| matches!(part, NamePart::Tag(_)))
    }
}

/// As it would be written in the file.
impl fmt::Display for ServerName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts().try_for_each(|part| match part {
            NamePart::Text(text) => out.write_str(&text.replace('%', "%%")),
            NamePart::Application => out.write_str("%a"),
            NamePart::Address => out.write_str("%h"),
            NamePart::Class => out.write_str("%c"),
            NamePart::Client => out.write_str("%i"),
            NamePart::User => out.write_str("%u"),
            NamePart::Tag(key) => write!(out, "%t{{{key}}}"),
        })
    }
}

fn add_text(parts: &mut Vec<NamePart>, text: &str) {
    match parts.last_mut() {
        Some(NamePart::Text(before)) => before.push_str(text),
        _ if text.is_empty() => {}
        _ => parts.push(NamePart::Text(text.to_owned())),
    }
}

/// What a tag's key can be made of.
fn is_key(key: &str) -> bool {
    !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_is_read_and_written_the_same() {
        for template in ["", "plain", "%a", "%a@%h/%c#%i %u", "100%% %t{correlation_id}%t{a.b-c}", "é%aé"] {
            let read = ServerName::read(template).expect("no mistake");
            assert_eq!(read.to_string(), template);
        }
        let read = ServerName::read("50%%%a").expect("no mistake");
        let parts: Vec<_> = read.parts().cloned().collect();
        assert_eq!(parts, [NamePart::Text("50%".to_owned()), NamePart::Application]);
        assert!(!read.reads_tags() && ServerName::read("%t{x}").expect("no mistake").reads_tags());
        assert!(ServerName::default().is_empty() && !read.is_empty());
    }

    #[test]
    fn an_escape_that_means_nothing_is_a_mistake() {
        for template in ["%", "%x", "a%", "%A", "%é", "%t", "%t{", "%t{}", "%t{a b}", "%t{a", "%ta", "%t{a'}"] {
            assert_eq!(ServerName::read(template), None, "{template}");
        }
    }
}
