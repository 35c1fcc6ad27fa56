//! Portals: bound statements by name, and how far each has been run. None outlives its transaction.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::book::Step;
use crate::statement::{Body, Mark};

/// A statement with its parameters, and how far it has been run.
#[derive(Clone, Debug)]
pub(in crate::backend) struct Portal {
    pub(in crate::backend) body: Body,
    pub(in crate::backend) mark: Option<Mark>,
    /// How many columns it returned when it was bound, where that may change.
    pub(in crate::backend) columns: usize,
    /// The next row.
    at: u32,
    /// It was run, perhaps not to its end.
    ran: bool,
    /// Its sleep is over.
    slept: bool,
}

impl Portal {
    pub(super) fn new(body: Body, mark: Option<Mark>, columns: usize) -> Portal {
        Portal { body, mark, columns, at: 0, ran: false, slept: false }
    }

    /// Runs it: for the first time, or from where it stopped.
    pub(in crate::backend) fn run(&mut self) -> Option<Step> {
        (!std::mem::replace(&mut self.ran, true)).then_some(Step::Run)
    }

    /// The sleep is over.
    pub(in crate::backend) fn sleep(&mut self) {
        self.slept = true;
    }

    pub(in crate::backend) fn has_slept(&self) -> bool {
        self.slept
    }

    /// The next of its `rows`, at most `rows_max` unless that is 0; and whether it stopped at that limit: as in
    /// PostgreSQL also when that row was the last.
    pub(in crate::backend) fn fetch(&mut self, rows: u32, rows_max: i32) -> (Range<u32>, bool) {
        let wanted = u32::try_from(rows_max).ok().filter(|max| *max > 0).unwrap_or(u32::MAX);
        let end = rows.min(self.at.saturating_add(wanted));
        let from = std::mem::replace(&mut self.at, end);
        (from..end, end - from == wanted)
    }
}

#[derive(Debug, Default)]
pub(super) struct Portals {
    by_name: BTreeMap<Vec<u8>, Portal>,
}

impl Portals {
    pub(super) fn get(&self, name: &[u8]) -> Option<&Portal> {
        self.by_name.get(name)
    }

    pub(super) fn get_mut(&mut self, name: &[u8]) -> Option<&mut Portal> {
        self.by_name.get_mut(name)
    }

    pub(super) fn insert(&mut self, name: &[u8], portal: Portal) {
        self.by_name.insert(name.to_vec(), portal);
    }

    pub(super) fn remove(&mut self, name: &[u8]) {
        self.by_name.remove(name);
    }

    pub(super) fn clear(&mut self) {
        self.by_name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portal_goes_on_where_it_stopped() {
        let mut portal = Portal::new(Body::Empty, None, 0);
        assert_eq!((portal.run(), portal.run()), (Some(Step::Run), None));
        assert_eq!(portal.fetch(3, 2), (0..2, true));
        assert_eq!(portal.fetch(3, 1), (2..3, true), "suspended, though it was the last row");
        assert_eq!(portal.fetch(3, 1), (3..3, false));
        assert_eq!(Portal::new(Body::Empty, None, 0).fetch(3, 0), (0..3, false));
    }
}
