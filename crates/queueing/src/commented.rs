//! What comments of a transaction's first text say of how long it can wait.
//!
//! They are read together with the tags that decide the class, so that no text is read twice. Does not know which text is the first.

use std::sync::LazyLock;

use sql::WantedTag;
use units::milliseconds;

/// What a client calls it in a comment.
pub(crate) const TAG: &[u8] = b"deadline_ms";

static WANTED: LazyLock<WantedTag> = LazyLock::new(|| WantedTag::new(TAG));

/// What was found.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Commented {
    /// Nobody has looked yet.
    Unread,
    Nothing,
    /// In milliseconds; `None`: it could not be read as a time.
    Deadline(Option<u32>),
}

impl Commented {
    /// Where several tags say so, the first one counts.
    pub(crate) fn note(&mut self, value: &[u8]) {
        if !matches!(self, Commented::Deadline(_)) {
            *self = Commented::Deadline(milliseconds(value));
        }
    }
}

/// In milliseconds, as a text's comments say it.
#[inline]
pub fn deadline_ms(text: &[u8]) -> Option<u32> {
    milliseconds(&WANTED.first(text)?)
}
