//! Names as the server would know them: folded if they stood without quotes, with doubled quotes undoubled.

use crate::scan::WORD_LEN_MAX;
use crate::unicode_names;
use std::fmt;

/// Parts that a dotted name may have; PostgreSQL's own and extensions' settings have one or two.
const PARTS_MAX: usize = 4;

/// A name in a statement's text, of one part or, of a setting, of several.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Name<'t> {
    /// As written, quotes included; those after the first empty one are empty.
    parts: [&'t [u8]; PARTS_MAX],
}

impl<'t> Name<'t> {
    pub(crate) fn of(written: &'t [u8]) -> Name<'t> {
        Name { parts: [written, b"", b"", b""] }
    }

    /// `None` if it has too many parts.
    pub(crate) fn and(mut self, written: &'t [u8]) -> Option<Name<'t>> {
        let free = self.parts.iter_mut().find(|part| part.is_empty())?;
        *free = written;
        Some(self)
    }

    /// The name's bytes. //= pg18 sql-syntax-lexical#SQL-SYNTAX-IDENTIFIERS
    pub fn bytes(&self) -> impl Iterator<Item = u8> + 't {
        let parts = self.parts.into_iter().filter(|part| !part.is_empty()).enumerate();
        parts.flat_map(|(index, part)| {
            let dot = (index > 0).then_some(b'.');
            dot.into_iter().chain(part_bytes(part))
        })
    }

    /// The bytes of a setting's name, which servers compare without regard to case.
    pub fn lowercase(&self) -> impl Iterator<Item = u8> + 't {
        self.bytes().map(|byte| byte.to_ascii_lowercase())
    }

    /// Whether the name is this one, as the server knows it.
    pub fn is(&self, known: &[u8]) -> bool {
        self.bytes().eq(known.iter().copied())
    }

    /// The name, in memory of its own.
    pub fn to_vec(&self) -> Vec<u8> {
        self.bytes().collect()
    }
}

impl fmt::Debug for Name<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.to_vec()), to)
    }
}

/// A part's bytes; `part` is a whole token. The server cuts a longer one.
pub(crate) fn part_bytes(part: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let escaped = unicode_names::inside(part);
    let written = if escaped.is_some() { &b""[..] } else { part };
    written_bytes(written).chain(escaped.into_iter().flat_map(unicode_names::bytes)).take(WORD_LEN_MAX)
}

fn written_bytes(part: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let is_quoted = part.first() == Some(&b'"');
    let inside = if is_quoted { &part[1..part.len() - 1] } else { part };
    let mut after_quote = false;
    inside.iter().filter_map(move |byte| {
        // Of two quotes the second is left out.
        after_quote = is_quoted && *byte == b'"' && !after_quote;
        let left_out = is_quoted && *byte == b'"' && !after_quote;
        (!left_out).then(|| if is_quoted { *byte } else { byte.to_ascii_lowercase() })
    })
}
