//! The statement that a name in a client's message stands for: its row in the statistics, and whether it may write or commit.
//!
//! Kept from link to release. Where prepared statements are mapped, their names are the session's, and only portals stand here.
//! Promises a bound on what is kept; a name beyond it stands for a statement of which nothing is known.

use std::collections::BTreeMap;

use session_state::access::Access;
use units::{StatementRow, limits};

/// The statement of a message, or the text of several.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Its row in the statistics.
    pub(crate) row: StatementRow,
    /// Whether it may write or commit.
    pub(crate) access: Access,
    /// Whether it may be a COPY FROM STDIN. False too if its text is not read.
    pub(crate) copies: bool,
}

impl Said {
    /// The pooler's own messages commit nothing of a client's.
    pub const OWN: Said = Said { row: StatementRow::NONE, access: Access::ReadOnly, copies: false };
    /// A function that is called by its oid.
    pub const FUNCTION: Said = Said { row: StatementRow::NONE, access: Access::ReadWrite, copies: false };
}

/// Of one server's session.
#[derive(Debug, Default)]
pub struct Spoken {
    /// The statement without a name, if it was parsed here.
    pub(crate) parsed: Said,
    /// The statement of the portal without a name.
    pub(crate) bound: Said,
    named: Option<Box<Names>>,
}

#[derive(Debug, Default)]
struct Names {
    portals: BTreeMap<Box<[u8]>, Said>,
    statements: BTreeMap<Box<[u8]>, Said>,
}

impl Spoken {
    /// A statement is parsed under this name.
    pub(crate) fn parse(&mut self, name: &[u8], statement: Said) {
        if name.is_empty() {
            self.parsed = statement;
        } else {
            keep(&mut self.named.get_or_insert_default().statements, name, statement);
        }
    }

    /// The statement that was parsed under this name.
    pub(crate) fn statement(&self, name: &[u8]) -> Said {
        if name.is_empty() {
            return self.parsed;
        }
        self.named.as_ref().and_then(|named| named.statements.get(name)).copied().unwrap_or_default()
    }

    /// A portal of a statement is bound under this name.
    #[inline]
    pub(crate) fn bind(&mut self, name: &[u8], statement: Said) {
        if name.is_empty() {
            self.bound = statement;
        } else {
            keep(&mut self.named.get_or_insert_default().portals, name, statement);
        }
    }

    /// The statement of an Execute, of which this is the body or its beginning.
    #[inline]
    pub(crate) fn executed(&self, body: &[u8]) -> Said {
        match body.first() {
            Some(0) => self.bound,
            _ => self.executed_by_name(body),
        }
    }

    #[cold]
    fn executed_by_name(&self, body: &[u8]) -> Said {
        let name = body.split(|&byte| byte == 0).next().unwrap_or_default();
        self.named.as_ref().and_then(|named| named.portals.get(name)).copied().unwrap_or_default()
    }
}

fn keep(names: &mut BTreeMap<Box<[u8]>, Said>, name: &[u8], statement: Said) {
    if name.len() > limits::NAME_LEN_MAX {
        return;
    }
    if names.len() >= limits::NAMES_COUNTED_MAX && !names.contains_key(name) {
        // Portals end without a message: these may have ended long ago.
        names.clear();
    }
    names.insert(name.into(), statement);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(place: usize) -> Said {
        Said { row: StatementRow::new(place, 0), access: Access::ReadWrite, copies: false }
    }

    #[test]
    fn names_stand_for_what_they_were_given_last() {
        let (one, two) = (said(1), said(2));
        let mut spoken = Spoken::default();
        spoken.parse(b"", one);
        spoken.parse(b"s", two);
        spoken.bind(b"", spoken.statement(b"s"));
        spoken.bind(b"p", spoken.statement(b""));
        assert_eq!((spoken.executed(b"\0\0\0\0\0"), spoken.executed(b"p\0\0\0\0\0")), (two, one));
        assert_eq!(spoken.executed(b"q\0\0\0\0\0"), Said::default());
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut spoken = Spoken::default();
        for number in 0..10_000 {
            spoken.bind(format!("portal {number}").as_bytes(), said(1));
        }
        spoken.bind(&vec![b'x'; limits::NAME_LEN_MAX + 1], said(1));
        let kept = spoken.named.map_or(0, |named| named.portals.len());
        assert!((1..=limits::NAMES_COUNTED_MAX).contains(&kept), "{kept}");
    }
}
