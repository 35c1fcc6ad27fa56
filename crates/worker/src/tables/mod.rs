//! A worker's connections and pools by their ids, and what every decision about them needs.
//!
//! The tables have no rules. The rules are in the folders beside this one, as functions on these tables. What a rule
//! means for other parts goes on the [`agenda`].
//!
//! Which ids may be stale:
//!
//! | id | its connection or pool is in the table |
//! |---|---|
//! | of an event, a message or a deadline, and on the agenda | perhaps: it may have been closed or forgotten since |
//! | of a session, once a rule has found it | until the rule ends: only `ends::close_session` removes sessions, and nothing is done after it |
//! | of a server, once a rule has found it | until that rule closes or lends it |
//! | of a session's server | yes (I1), unless the server was closed in this very step: then the session's end is on the agenda |
//! | of a server's session | yes (I1) |
//! | of a pool | see [`pools`] |
//!
//! Where the answer is yes, rules index the tables; else they `get`, and say what happens if nothing is found.

pub(crate) mod agenda;
pub(crate) mod backpressure;
pub(crate) mod cancels;
pub(crate) mod consoles;
pub(crate) mod due;
pub(crate) mod followups;
pub(crate) mod halves;
pub(crate) mod notices;
pub(crate) mod open_definitions;
pub(crate) mod pools;
#[cfg(test)]
pub(crate) mod scene;
pub(crate) mod showing;
pub(crate) mod stale;
pub(crate) mod stopping;
pub(crate) mod suspension;
pub(crate) mod timers;
pub(crate) mod view;
pub(crate) mod walk;

use std::sync::Arc;

use connections::flow::Flow;
use link::caches::Caches;
use link::server::Server;
use link::session::{Session, SessionState};
use machine::{Settings, Upstreams};
use queueing::refusals::Refusals;
use units::deadline::Deadlines;
use units::random::Random;
use units::table::Table;
use units::{ConnId, Kind, Life, WorkerId};

use crate::chaos::{Chaos, chaos};
use crate::tables::agenda::Agenda;
use crate::tables::cancels::Cancels;
use crate::tables::consoles::Consoles;
use crate::tables::pools::Pools;
use crate::tables::stopping::Stopping;
use crate::tables::view::View;

/// A worker's own counters.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) steps: u64,
    /// Servers lent to other workers.
    pub(crate) lends: u64,
    /// Clients of the console that were let in.
    pub(crate) console_logins: u64,
    /// Sessions that have ended and whose connections are not closed yet.
    pub(crate) departing: u32,
}

/// A worker's connections and pools.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) id: WorkerId,
    pub(crate) life: Life,
    pub(crate) settings: Arc<Settings>,
    pub(crate) random: Random,
    pub(crate) sessions: Table<Session>,
    pub(crate) servers: Table<Server>,
    pub(crate) cancels: Cancels,
    pub(crate) consoles: Consoles,
    pub(crate) pools: Pools,
    /// The coordinator's, as far as they are known here.
    pub(crate) upstreams: Upstreams,
    pub(crate) deadlines: Deadlines,
    pub(crate) caches: Caches,
    pub(crate) agenda: Agenda,
    pub(crate) stopping: Stopping,
    pub(crate) refusals: Refusals,
    /// Only while one of the `chaos_` settings is on.
    pub(crate) chaos: Option<Box<dyn Chaos>>,
    pub(crate) counts: Counts,
}

impl Tables {
    /// Empty tables. `seed`: the worker's, unpredictable.
    pub(crate) fn new(id: WorkerId, settings: Arc<Settings>, seed: [u8; 32]) -> Tables {
        Tables {
            id,
            life: Life::default(),
            chaos: chaos(&settings, id.0),
            caches: Caches::new(&settings, seed),
            upstreams: Upstreams::new(&settings),
            refusals: Refusals::default(),
            settings,
            random: Random::new(seed),
            sessions: Table::new(Kind::Client, id.0),
            servers: Table::new(Kind::Server, id.0),
            cancels: Cancels::new(id.0),
            consoles: Consoles::default(),
            pools: Pools::default(),
            deadlines: Deadlines::default(),
            stopping: Stopping::default(),
            agenda: Agenda::default(),
            counts: Counts::default(),
        }
    }

    /// No id that is given out from now on was given out in an earlier life.
    pub(crate) fn begin_life(&mut self, life: Life) {
        self.life = life;
        self.sessions.begin_life(life);
        self.servers.begin_life(life);
        self.cancels.begin_life(life);
    }

    /// A waiting session leaves its queue.
    pub(crate) fn leave_queue(&mut self, conn: ConnId) {
        let session = &self.sessions[conn];
        let SessionState::Waiting { ticket, wait_for, .. } = session.state() else {
            unreachable!("only a waiting session is in a queue");
        };
        let pool = &mut self.pools[session.pool()];
        pool.leave_queue(wait_for, session.claim().class(), ticket);
        self.agenda.publish_shared(pool);
    }

    /// A read-only view of them.
    #[inline]
    pub(crate) fn view(&self) -> View<'_> {
        View {
            id: self.id,
            settings: &self.settings,
            sessions: &self.sessions,
            servers: &self.servers,
            pools: &self.pools,
            upstreams: &self.upstreams,
            stopping: &self.stopping,
            statistics: &self.caches.statistics,
            spared_until: self.deadlines.spared_until(),
        }
    }

    pub(crate) fn flow(&self, conn: ConnId) -> Option<&Flow> {
        match conn.kind() {
            Kind::Client => self.sessions.get(conn).map(|session| session.flow()),
            Kind::Server => self.servers.get(conn).map(|server| server.flow()),
            Kind::Cancel => self.cancels.get(conn).map(|canceller| &canceller.flow),
            Kind::Login | Kind::Lookup | Kind::Peer => None,
        }
    }

    pub(crate) fn flow_mut(&mut self, conn: ConnId) -> Option<&mut Flow> {
        match conn.kind() {
            Kind::Client => self.sessions.get_mut(conn).map(|session| session.flow_mut()),
            Kind::Server => self.servers.get_mut(conn).map(|server| server.flow_mut()),
            Kind::Cancel => self.cancels.get_mut(conn).map(|canceller| &mut canceller.flow),
            Kind::Login | Kind::Lookup | Kind::Peer => None,
        }
    }
}
