//! Names that clients have chosen, as messages and the log show them.

use std::borrow::Cow;

use crate::limits;

/// A name that a client has chosen, as messages and the log show it: a longer one than PostgreSQL's names can be is cut, so
/// that nobody fills a log with one.
#[must_use]
pub fn shown(name: &str) -> Cow<'_, str> {
    if name.len() <= limits::SHOWN_NAME_LEN_MAX {
        return Cow::Borrowed(name);
    }
    let end = (0..=limits::SHOWN_NAME_LEN_MAX).rev().find(|&end| name.is_char_boundary(end)).unwrap_or(0);
    Cow::Owned(format!("{}…", &name[..end]))
}
