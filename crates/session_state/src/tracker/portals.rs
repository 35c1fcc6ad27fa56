//! Portals of statements that do more than return rows: what an Execute will do is known by its portal.

use std::sync::Arc;

use units::limits;

use super::{Marked, Portal, Tracker};
use crate::state::Pins;

impl Tracker {
    /// A portal is bound; `None`: to a plain statement.
    /// `awaited`: how many ReadyForQuery the client is still owed.
    pub fn bind(&mut self, portal: &[u8], marked: Option<Arc<Marked>>, awaited: usize) {
        match marked {
            Some(marked) if self.has_room_for(portal, &marked) => {
                self.portals.insert(portal.into(), Portal { marked, awaited });
            }
            // When it is executed nobody can tell.
            Some(_) => self.suspects |= Pins::ANYTHING | Pins::DYNAMIC,
            None => drop(self.portals.remove(portal)),
        }
    }

    fn has_room_for(&self, portal: &[u8], marked: &Marked) -> bool {
        let len = portal.len() + marked.text.len();
        let kept: usize = self.portals.iter().map(|(name, portal)| name.len() + portal.marked.text.len()).sum();
        self.portals.len() < limits::PORTALS_MAX && kept + len <= limits::PREPARED_LEN_MAX
    }

    pub fn has_portals(&self) -> bool {
        !self.portals.is_empty()
    }

    pub fn portal(&self, name: &[u8]) -> Option<Arc<Marked>> {
        self.portals.get(name).map(|portal| Arc::clone(&portal.marked))
    }
}
