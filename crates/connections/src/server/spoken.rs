//! Which statement the names in a client's messages stand for, as far as statistics need it.
//!
//! Kept from link to release. Where prepared statements are mapped, their names are the session's, and only portals stand here.
//! Promises a bound on what is kept; a name beyond it stands for no statement.

use std::collections::BTreeMap;

use units::{StatementRow, limits};

/// Of one server's session.
#[derive(Debug, Default)]
pub struct Spoken {
    /// The statement without a name, if it was parsed here.
    pub parsed: StatementRow,
    /// The statement of the portal without a name.
    pub bound: StatementRow,
    named: Option<Box<Names>>,
}

#[derive(Debug, Default)]
struct Names {
    portals: BTreeMap<Box<[u8]>, StatementRow>,
    statements: BTreeMap<Box<[u8]>, StatementRow>,
}

impl Spoken {
    /// Another session has got the server.
    #[inline(always)]
    pub fn clear(&mut self) {
        (self.parsed, self.bound) = (StatementRow::NONE, StatementRow::NONE);
        if self.named.is_some() {
            self.named = None;
        }
    }

    /// A statement is parsed under this name.
    pub fn parse(&mut self, name: &[u8], statement: StatementRow) {
        if name.is_empty() {
            self.parsed = statement;
        } else {
            keep(&mut self.named.get_or_insert_default().statements, name, statement);
        }
    }

    /// The statement that was parsed under this name.
    pub fn statement(&self, name: &[u8]) -> StatementRow {
        if name.is_empty() {
            return self.parsed;
        }
        self.named.as_ref().and_then(|named| named.statements.get(name)).copied().unwrap_or_default()
    }

    /// A portal of a statement is bound under this name.
    #[inline]
    pub fn bind(&mut self, name: &[u8], statement: StatementRow) {
        if name.is_empty() {
            self.bound = statement;
        } else {
            keep(&mut self.named.get_or_insert_default().portals, name, statement);
        }
    }

    /// The statement of an Execute, of which this is the body or its beginning.
    #[inline]
    pub fn executed(&self, body: &[u8]) -> StatementRow {
        match body.first() {
            Some(0) => self.bound,
            _ => self.executed_by_name(body),
        }
    }

    #[cold]
    fn executed_by_name(&self, body: &[u8]) -> StatementRow {
        let name = body.split(|&byte| byte == 0).next().unwrap_or_default();
        self.named.as_ref().and_then(|named| named.portals.get(name)).copied().unwrap_or_default()
    }
}

fn keep(names: &mut BTreeMap<Box<[u8]>, StatementRow>, name: &[u8], statement: StatementRow) {
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

    #[test]
    fn names_stand_for_what_they_were_given_last() {
        let (one, two) = (StatementRow::new(1, 0), StatementRow::new(2, 0));
        let mut spoken = Spoken::default();
        spoken.parse(b"", one);
        spoken.parse(b"s", two);
        spoken.bind(b"", spoken.statement(b"s"));
        spoken.bind(b"p", spoken.statement(b""));
        assert_eq!((spoken.executed(b"\0\0\0\0\0"), spoken.executed(b"p\0\0\0\0\0")), (two, one));
        assert_eq!(spoken.executed(b"q\0\0\0\0\0"), StatementRow::NONE);
        spoken.clear();
        assert_eq!((spoken.executed(b"\0"), spoken.executed(b"p\0")), (StatementRow::NONE, StatementRow::NONE));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut spoken = Spoken::default();
        for number in 0..10_000 {
            spoken.bind(format!("portal {number}").as_bytes(), StatementRow::new(1, 0));
        }
        spoken.bind(&vec![b'x'; limits::NAME_LEN_MAX + 1], StatementRow::new(1, 0));
        let kept = spoken.named.map_or(0, |named| named.portals.len());
        assert!((1..=limits::NAMES_COUNTED_MAX).contains(&kept), "{kept}");
    }
}
