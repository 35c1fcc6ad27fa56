//! Which of the drivers' statements one server has, and which of them goes first.

use std::collections::BTreeMap;

use super::StatementId;
use crate::shape::{self, Fingerprint, Shape};

/// What one server has prepared, most recently used last.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct PreparedOnServer {
    used: BTreeMap<StatementId, Has>,
    clock: u64,
}

/// A statement on a server.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Has {
    /// When, by the server's own clock.
    used: u64,
    /// What it was when it was prepared here; `None`: not known, or in doubt.
    shape: Option<Shape>,
}

impl PreparedOnServer {
    /// Marks a statement as used, and returns what it stands for here; `None`: the server does not have it.
    pub fn touch(&mut self, id: StatementId) -> Option<Fingerprint> {
        self.clock += 1;
        let clock = self.clock;
        let has = self.used.get_mut(&id)?;
        has.used = clock;
        Some(has.shape.as_ref().map_or(shape::UNKNOWN, Shape::fingerprint))
    }

    pub fn add(&mut self, id: StatementId) {
        self.clock += 1;
        self.used.insert(id, Has { used: self.clock, shape: None });
    }

    /// What a statement stands for here.
    pub fn shape(&self, id: StatementId) -> Option<&Shape> {
        self.used.get(&id)?.shape.as_ref()
    }

    /// It is this, or in doubt.
    pub fn set_shape(&mut self, id: StatementId, shape: Option<Shape>) {
        if let Some(has) = self.used.get_mut(&id) {
            has.shape = shape;
        }
    }

    pub fn remove(&mut self, id: StatementId) {
        self.used.remove(&id);
    }

    /// Whether there are `max` or more.
    pub fn is_full(&self, max: usize) -> bool {
        self.used.len() >= max.max(1)
    }

    /// The least recently used one, if there are `max` or more.
    pub fn surplus(&self, max: usize) -> Option<StatementId> {
        if self.used.len() < max.max(1) {
            return None;
        }
        self.used.iter().min_by_key(|(_, has)| has.used).map(|(id, _)| *id)
    }

    /// The server has discarded everything but these.
    pub fn keep_only(&mut self, which: impl Fn(StatementId) -> bool) {
        self.used.retain(|id, _| which(*id));
    }

    pub fn len(&self) -> usize {
        self.used.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut prepared = PreparedOnServer::default();
        (1..=3_u128).for_each(|id| prepared.add(id.into()));
        assert!(prepared.touch(1.into()).is_some() && prepared.touch(9.into()).is_none());
        assert_eq!(prepared.surplus(4), None);
        assert_eq!(prepared.surplus(3), Some(2.into()));
        prepared.remove(2.into());
        assert_eq!(prepared.surplus(2), Some(3.into()));
    }
}
