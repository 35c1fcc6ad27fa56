//! Deliberate unrest for tests: `chaos_rotate` gives a session another server for every transaction, so that whatever
//! a session leaves behind on a server is missed at once.
//!
//! Promises that a session never gets the server it had last while another one may be had, and sees for itself whether
//! that is so: a link that breaks the promise is counted and told at FATAL. Costs nothing while it is off. Does not
//! rotate in session mode, and does not make anybody wait: if no other server is idle, the last one will do.

use std::collections::{BTreeMap, BTreeSet};

use machine::observe::{About, Fact, Level, Topic};
use machine::snapshot::Rotations;
use machine::{Settings, Turn};
use session_state::parameters::Tracked;
use settings::PoolMode;
use units::{ConnId, PoolId, limits};

use crate::Worker;
use crate::dice::Dice;
use crate::linking::{expired, is_stale};
use crate::oracle::Oracle;
use crate::poisoning::Poisoner;

#[derive(Debug)]
pub(super) struct Chaos {
    rotates: bool,
    journeys: BTreeMap<ConnId, Journey>,
    counts: Rotations,
    pub(super) dice: Dice,
    /// `chaos_poison`
    pub(super) poisoner: Option<Poisoner>,
    /// `chaos_check`
    pub(super) oracle: Option<Oracle>,
}

/// Where a session has been, by PostgreSQL's pids.
#[derive(Debug, Default)]
struct Journey {
    last: Option<i32>,
    /// At most [`limits::JOURNEY_LEN_MAX`].
    seen: BTreeSet<i32>,
    links: u64,
}

impl Chaos {
    /// What has come of `chaos_rotate` so far.
    pub(super) fn rotations(&self) -> Rotations {
        self.counts
    }

    /// `None` unless the settings ask for any of it.
    pub(super) fn new(settings: &Settings, worker: u16) -> Option<Box<Chaos>> {
        let wishes = &settings.global.tests;
        let chaos = Chaos {
            rotates: wishes.chaos_rotate,
            journeys: BTreeMap::new(),
            counts: Rotations::default(),
            dice: Dice::new(wishes.chaos_seed ^ u64::from(worker) << 32),
            poisoner: wishes.chaos_poison.then(Poisoner::default),
            oracle: wishes.chaos_check.then(Oracle::default),
        };
        (wishes.chaos_rotate || wishes.chaos_poison || wishes.chaos_check).then(|| Box::new(chaos))
    }
}

impl Worker {
    /// The idle server that a session is to have instead of `chosen`: any but the one it had last.
    pub(super) fn rotate(&mut self, turn: &Turn<'_>, pool: PoolId, session: ConnId, chosen: ConnId) -> ConnId {
        if self.chaos.is_none() {
            return chosen;
        }
        let others = self.others(turn, pool, session);
        match &mut self.chaos {
            Some(chaos) if !others.is_empty() => others[chaos.dice.below(others.len())],
            _ => chosen,
        }
    }

    /// Remembers a link, and tells if it should have been another.
    pub(super) fn observe_link(&mut self, turn: &mut Turn<'_>, session: ConnId, server: ConnId) {
        let Some((pool, backend)) = self.servers.get(server).map(|server| (server.pool, server.backend.pid)) else {
            return;
        };
        let others = self.others(turn, pool, session).len();
        let Some(chaos) = &mut self.chaos else { return };
        if let Some(poisoner) = &mut chaos.poisoner {
            poisoner.forget(server);
        }
        if let Some(oracle) = &mut chaos.oracle {
            oracle.linked(server, session);
            if let Some(server) = self.servers.get_mut(server) {
                server.traces.heard.get_or_insert_default().clear();
            }
        }
        if !chaos.rotates {
            return;
        }
        let journey = chaos.journeys.entry(session).or_default();
        journey.links += 1;
        if journey.seen.len() < limits::JOURNEY_LEN_MAX {
            journey.seen.insert(backend);
        }
        match journey.last.replace(backend) {
            None => {}
            Some(last) if last != backend => chaos.counts.rotated += 1,
            Some(_) if others == 0 => chaos.counts.kept += 1,
            Some(_) => {
                chaos.counts.missed += 1;
                let text = format!("chaos_rotate: {session:?} got the server it had last, beside {others} idle ones");
                let fact = Fact { level: Level::Fatal, topic: Topic::General, about: About::Pooler, text };
                turn.actions.tell(fact);
            }
        }
    }

    /// A session leaves: how far it got around.
    pub(super) fn tell_of_rotation(&mut self, turn: &mut Turn<'_>, conn: ConnId) {
        let Some(journey) = self.chaos.as_mut().and_then(|chaos| chaos.journeys.remove(&conn)) else { return };
        let Some(session) = self.sessions.get(conn) else { return };
        let name = session.parameters.get(Tracked::APPLICATION_NAME).unwrap_or_default();
        let (name, links, servers) = (String::from_utf8_lossy(name), journey.links, journey.seen.len());
        let text = format!("chaos_rotate: {links} transactions on {servers} servers by {name}");
        self.view().tell_of_session(turn, conn, Level::Log, Topic::General, text);
    }

    /// Whether a server that is free is wanted for something else first.
    pub(super) fn unrest(&mut self, turn: &mut Turn<'_>, server: ConnId) -> bool {
        self.consult(turn, server) || self.poison(turn, server)
    }

    /// Idle servers that may be used as they are, but for the one that the session had last.
    fn others(&self, turn: &Turn<'_>, pool: PoolId, session: ConnId) -> Vec<ConnId> {
        let chaos = self.chaos.as_ref().filter(|chaos| chaos.rotates);
        let (Some(chaos), Some(pool)) = (chaos, self.pool(pool)) else { return Vec::new() };
        if pool.rules.mode == PoolMode::Session {
            return Vec::new();
        }
        let last = chaos.journeys.get(&session).and_then(|journey| journey.last);
        let usable = |conn: &ConnId| {
            self.servers.get(*conn).is_some_and(|server| {
                let fresh = self.settings.global.servers.server_check_query.0.is_none()
                    || !is_stale(turn.now, server.work.since, &self.settings);
                fresh && expired(turn.now, server, pool, &self.settings).is_none() && Some(server.backend.pid) != last
            })
        };
        pool.servers.idle.iter().copied().filter(usable).collect()
    }
}
