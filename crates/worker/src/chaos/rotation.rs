//! `chaos_rotate` gives a session another server for every transaction.
//!
//! A session never gets the server that it had last while another one is idle. A link that breaks this promise is
//! counted and logged at FATAL. In session mode nothing is rotated. No session waits for the rotation: if no other
//! server is idle, it gets the last one again.

use std::collections::{BTreeMap, BTreeSet};

use link::pool::Pool;
use machine::snapshot::Rotations;
use settings::PoolMode;
use units::{ConnId, limits};

use super::Idle;

/// Which servers each session has had.
#[derive(Debug, Default)]
pub(super) struct Rotation {
    journeys: BTreeMap<ConnId, Journey>,
    counts: Rotations,
}

/// The servers that one session has had, by their backends' process ids.
#[derive(Debug, Default)]
struct Journey {
    last: Option<i32>,
    /// At most [`limits::JOURNEY_LEN_MAX`].
    seen: BTreeSet<i32>,
    links: u64,
}

impl Rotation {
    /// Of the idle servers, those that the session may have: any but the one that it had last.
    pub(super) fn others(&self, session: ConnId, pool: &Pool, idle: &mut dyn Iterator<Item = Idle>) -> Vec<ConnId> {
        if pool.rules().mode() == PoolMode::Session {
            return Vec::new();
        }
        let last = self.journeys.get(&session).and_then(|journey| journey.last);
        idle.filter(|(_, pid)| Some(*pid) != last).map(|(conn, _)| conn).collect()
    }

    /// A session is linked to this backend while `others` were idle. Returns the fault if it should have got another.
    pub(super) fn linked(&mut self, session: ConnId, backend: i32, others: usize) -> Option<String> {
        let journey = self.journeys.entry(session).or_default();
        journey.links += 1;
        if journey.seen.len() < limits::JOURNEY_LEN_MAX {
            journey.seen.insert(backend);
        }
        match journey.last.replace(backend) {
            None => {}
            Some(last) if last != backend => self.counts.rotated += 1,
            Some(_) if others == 0 => self.counts.kept += 1,
            Some(_) => {
                self.counts.missed += 1;
                let text = format!("chaos_rotate: {session:?} got the server it had last, beside {others} idle ones");
                return Some(text);
            }
        }
        None
    }

    /// A session ends: says how many servers it has had.
    pub(super) fn left(&mut self, session: ConnId, name: &[u8]) -> Option<String> {
        let journey = self.journeys.remove(&session)?;
        let (name, links, servers) = (String::from_utf8_lossy(name), journey.links, journey.seen.len());
        Some(format!("chaos_rotate: {links} transactions on {servers} servers by {name}"))
    }

    pub(super) fn counts(&self) -> Rotations {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use units::Kind;

    use super::*;

    #[test]
    fn a_session_that_gets_its_last_server_beside_an_idle_one_is_reported() {
        let session = ConnId::new(Kind::Client, 0, 1, 0);
        let mut rotation = Rotation::default();
        assert_eq!(rotation.linked(session, 7, 1), None);
        assert_eq!(rotation.linked(session, 8, 1), None);
        assert_eq!(rotation.linked(session, 8, 0), None, "no other was to be had");
        assert!(rotation.linked(session, 8, 1).is_some());
        let Rotations { rotated, kept, missed, .. } = rotation.counts();
        assert_eq!((rotated, kept, missed), (1, 1, 1));
        let told = rotation.left(session, b"app").expect("it was linked");
        assert_eq!(told, "chaos_rotate: 4 transactions on 2 servers by app");
    }
}
