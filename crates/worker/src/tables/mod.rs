//! A worker's connections and pools by their ids, and what every decision about them needs.
//!
//! The tables have no rules. The rules are in the folders beside this one, as functions on the [`owners`] that they touch and
//! the [`step`]. What a rule means for other parts goes on the [`agenda`].
//!
//! Which ids may be stale:
//!
//! | id | its connection or pool is in the table |
//! |---|---|
//! | of an event, a message or a deadline, and on the agenda | perhaps: it may have been closed or forgotten since |
//! | of a session, once a rule has found it | until the rule ends: only `ends::close_session` and `departures::send_off` remove sessions, and nothing is done with one after that |
//! | of a server, once a rule has found it | until that rule closes or lends it |
//! | of a session's server | yes (I1), unless the server was closed in this very step: then the session's end is on the agenda |
//! | of a server's session | yes (I1) |
//! | of a pool | see [`pool_table`] |
//!
//! Where the answer is yes, rules index the tables; else they `get`, and say what happens if nothing is found.

pub(crate) mod agenda;
pub(crate) mod backpressure;
pub(crate) mod cancels;
pub(crate) mod consoles;
pub(crate) mod due;
pub(crate) mod followups;
pub(crate) mod halves;
pub(crate) mod limiters;
pub(crate) mod lines;
pub(crate) mod lookups;
pub(crate) mod notices;
pub(crate) mod open_definitions;
pub(crate) mod owners;
pub(crate) mod pool_table;
#[cfg(test)]
pub(crate) mod scene;
pub(crate) mod showing;
pub(crate) mod stages;
pub(crate) mod stale;
pub(crate) mod step;
pub(crate) mod stopping;
pub(crate) mod suspension;
pub(crate) mod timers;
pub(crate) mod view;
pub(crate) mod walk;

use connections::flow::Flow;
use link::caches::Caches;
use link::session::SessionState;
use machine::Settings;
use units::{ConnId, Kind, WorkerId};

use crate::tables::limiters::Limiters;
use crate::tables::owners::{Clock, Plan, Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::view::View;

/// The state of a worker, by owner. A rule takes the owners that it touches; the whole is for the functions that dispatch
/// events.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) sessions: Sessions,
    pub(crate) servers: Servers,
    pub(crate) pools: Pools,
    pub(crate) limiters: Limiters,
    pub(crate) clock: Clock,
}

impl Tables {
    /// Empty tables. `seed`: the worker's, unpredictable.
    pub(crate) fn new(id: WorkerId, settings: &Settings, seed: [u8; 32]) -> Tables {
        Tables {
            sessions: Sessions::new(id),
            servers: Servers::new(id, settings, seed),
            pools: Pools::new(settings),
            limiters: Limiters::new(settings),
            clock: Clock::default(),
        }
    }

    /// A read-only view of them.
    #[inline]
    pub(crate) fn view<'a>(&'a self, plan: &'a Plan, caches: &'a Caches) -> View<'a> {
        View {
            settings: &plan.settings,
            sessions: &self.sessions,
            servers: &self.servers,
            pools: &self.pools,
            upstreams: &self.pools.upstreams,
            stopping: &plan.stopping,
            statistics: &caches.statistics,
            spared_until: self.clock.deadlines.spared_until(),
        }
    }

    pub(crate) fn flow(&self, conn: ConnId) -> Option<&Flow> {
        match conn.kind() {
            Kind::Client => self.sessions.get(conn).map(|session| session.flow()),
            Kind::Server => self.servers.get(conn).map(|server| server.flow()),
            Kind::Cancel => self.servers.cancels.get(conn).map(|canceller| &canceller.flow),
            Kind::Login | Kind::Lookup | Kind::Peer => None,
        }
    }
}

/// A waiting session leaves its queue.
pub(crate) fn leave_queue(sessions: &Sessions, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let session = &sessions[conn];
    let SessionState::Waiting { ticket, wait_for, .. } = session.state() else {
        unreachable!("only a waiting session is in a queue");
    };
    let pool = &mut pools[session.pool()];
    pool.leave_queue(wait_for, session.claim().class(), ticket);
    step.agenda.publish_shared(pool);
}

pub(crate) fn flow_mut<'a>(sessions: &'a mut Sessions, servers: &'a mut Servers, conn: ConnId) -> Option<&'a mut Flow> {
    match conn.kind() {
        Kind::Client => sessions.get_mut(conn).map(|session| session.flow_mut()),
        Kind::Server => servers.get_mut(conn).map(|server| server.flow_mut()),
        Kind::Cancel => servers.cancels.get_mut(conn).map(|canceller| &mut canceller.flow),
        Kind::Login | Kind::Lookup | Kind::Peer => None,
    }
}
