//! What texts mean while the server has not told yet: it tells of its parameters with ReadyForQuery only, and what stands in
//! the same batch behind a SET is read by it already.

use std::sync::Arc;

use super::{Change, Effect, Places, Tracker};
use crate::parameters::{Parameters, Tracked};

/// No server has an encoding, or a switch, of this name: what is read by it is unknown.
const VAGUE: &[u8] = b"?";

impl Tracker {
    /// Whether it depends on answers under way how a text is to be read. `named`: or what is meant by names and constants in
    /// it, which is part of what a shared statement is.
    pub fn is_deciding(&self, tracked: &Tracked, named: bool) -> bool {
        let decides = |effect: &Effect| match effect {
            Effect::DiscardAll => true,
            Effect::Parameter { index, .. } => named || Tracked::decides_meaning(*index),
            Effect::Restart(name) => named || tracked.index(name).is_some_and(Tracked::decides_meaning),
            Effect::Change(changes) => named || changes.contains(&Change::ResetAll),
            Effect::End | Effect::RollBackTo(_) => self.meant.is_some() || named && self.journal.is_open(),
            _ => false,
        };
        self.sent.any(decides)
    }

    /// Whether nobody knows how texts are read until the server tells of its parameters.
    pub fn is_vague(&self) -> bool {
        let decisive = [Tracked::CLIENT_ENCODING, Tracked::STANDARD_STRINGS];
        self.meant.as_ref().is_some_and(|meant| decisive.iter().any(|index| meant.get(*index) == Some(VAGUE)))
    }

    /// What texts are read by, and mean, where that is not what the server has told: it tells only with its ReadyForQuery.
    //= pg18 protocol-flow#PROTOCOL-ASYNC
    pub fn meant(&self) -> Option<&Arc<Parameters>> {
        self.meant.as_ref()
    }

    pub(super) fn mean(&mut self, index: usize, value: Option<&[u8]>, places: &Places<'_>) {
        let before = self.meant.as_ref().unwrap_or(places.told);
        let changed = value.and_then(|value| before.with(index, value)).or_else(|| before.with(index, VAGUE));
        self.meant = changed.map(Arc::new);
    }

    /// A transaction has ended, or gone back, that may have changed it.
    pub(super) fn forget_meant(&mut self, places: &Places<'_>) {
        if self.meant.is_some() {
            self.mean(Tracked::CLIENT_ENCODING, None, places);
            self.mean(Tracked::STANDARD_STRINGS, None, places);
        }
    }

    /// Everything is as at the server's beginning.
    pub(super) fn mean_first(&mut self, places: &Places<'_>) {
        self.meant = places.first.map(Arc::clone);
    }
}
