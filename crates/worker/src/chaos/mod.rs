//! Deliberate faults for tests, turned on by the settings `chaos_rotate`, `chaos_poison` and `chaos_check`. They show
//! at once if a session loses its state, or leaves state on a server.
//!
//! A worker has one [`Chaos`] while any of them is on. The worker calls it when something happens to a server or
//! session, and it returns extra queries for a server. It does not use the worker. While it is off, it costs one branch
//! at each link and one at each release.

mod dice;
mod oracle;
mod poisoner;
mod rotation;

use dice::Dice;
use link::caches::Caches;
use link::pool::Pool;
use link::server::{Answerer, Chore, Server};
use machine::Settings;
use machine::snapshot::Rotations;
use oracle::Oracle;
use poisoner::Poisoner;
use rotation::Rotation;
use units::{ConnId, PoolId};

/// A query that a free server gets before the next session does.
pub(crate) struct Question {
    pub(crate) chore: Chore,
    pub(crate) answerer: Answerer,
    pub(crate) text: Vec<u8>,
}

/// An idle server, and the process id of its backend.
pub(crate) type Idle = (ConnId, i32);

/// What a built-in test does to a worker's servers.
pub(crate) trait Chaos: std::fmt::Debug {
    /// Chooses a session's server: `chosen`, or one of those that are `idle` and need no check first.
    fn choose(&mut self, session: ConnId, chosen: ConnId, pool: &Pool, idle: &mut dyn Iterator<Item = Idle>) -> ConnId;

    /// A session is linked to a server while others are `idle`. Returns a fault to log at FATAL, if there is one.
    fn linked(
        &mut self,
        session: ConnId,
        server: (ConnId, &mut Server),
        pool: &Pool,
        idle: &mut dyn Iterator<Item = Idle>,
    ) -> Option<String>;

    /// A session with this application_name ends. Returns a line for the log.
    fn left(&mut self, session: ConnId, name: &[u8]) -> Option<String>;

    /// A server is free. Returns the query to send to it first, if there is one.
    fn freed(&mut self, conn: ConnId, server: &mut Server, pool: &Pool, caches: &mut Caches) -> Option<Question>;

    /// A part of the answer to that query: the bodies of DataRows.
    fn rows(&mut self, server: ConnId, rows: Vec<Vec<u8>>);

    /// The answer is an error. Returns a line for the log.
    fn refused(&mut self, chore: Chore, server: ConnId, pool: PoolId, words: String) -> Option<String>;

    /// The answer is complete. Returns a fault to log at FATAL, and the session that had the server last.
    fn answered(
        &mut self,
        chore: Chore,
        conn: ConnId,
        server: &mut Server,
        caches: &mut Caches,
    ) -> Option<(ConnId, String)>;

    /// A server was closed or lent to another worker.
    fn gone(&mut self, server: ConnId);

    /// The counts of `chaos_rotate` so far.
    fn rotations(&self) -> Rotations;
}

/// What the settings turn on.
#[derive(Debug)]
struct Wishes {
    dice: Dice,
    /// `chaos_rotate`
    rotation: Option<Rotation>,
    /// `chaos_poison`
    poisoner: Option<Poisoner>,
    /// `chaos_check`
    oracle: Option<Oracle>,
}

/// `None` unless a setting turns on at least one of them.
pub(crate) fn chaos(settings: &Settings, worker: u16) -> Option<Box<dyn Chaos>> {
    let tests = &settings.global.tests;
    let wishes = Wishes {
        dice: Dice::new(tests.chaos_seed ^ u64::from(worker) << 32),
        rotation: tests.chaos_rotate.then(Rotation::default),
        poisoner: tests.chaos_poison.then(Poisoner::default),
        oracle: tests.chaos_check.then(Oracle::default),
    };
    (tests.chaos_rotate || tests.chaos_poison || tests.chaos_check).then(|| Box::new(wishes) as Box<dyn Chaos>)
}

impl Chaos for Wishes {
    fn choose(&mut self, session: ConnId, chosen: ConnId, pool: &Pool, idle: &mut dyn Iterator<Item = Idle>) -> ConnId {
        let others = self.rotation.as_ref().map(|rotation| rotation.others(session, pool, idle)).unwrap_or_default();
        if others.is_empty() { chosen } else { others[self.dice.below(others.len())] }
    }

    fn linked(
        &mut self,
        session: ConnId,
        (conn, server): (ConnId, &mut Server),
        pool: &Pool,
        idle: &mut dyn Iterator<Item = Idle>,
    ) -> Option<String> {
        if let Some(poisoner) = &mut self.poisoner {
            poisoner.forget(conn);
        }
        if let Some(oracle) = &mut self.oracle {
            oracle.linked(conn, session);
            server.traces_mut().keep_texts();
        }
        let rotation = self.rotation.as_mut()?;
        let others = rotation.others(session, pool, idle).len();
        rotation.linked(session, server.backend().pid, others)
    }

    fn left(&mut self, session: ConnId, name: &[u8]) -> Option<String> {
        self.rotation.as_mut()?.left(session, name)
    }

    fn freed(&mut self, conn: ConnId, server: &mut Server, pool: &Pool, caches: &mut Caches) -> Option<Question> {
        if server.end().close_needed().is_some() || !pool.rules().follows() {
            return None;
        }
        if let Some(text) = self.oracle.as_mut().and_then(|oracle| oracle.question(conn, server, pool)) {
            return Some(Question { chore: Chore::Compare, answerer: Answerer::Check, text });
        }
        let text = self.poisoner.as_mut()?.poison(conn, server, &mut self.dice, caches)?;
        if let Some(oracle) = &mut self.oracle {
            oracle.forget(conn);
        }
        Some(Question { chore: Chore::Poison, answerer: Answerer::Chore, text })
    }

    fn rows(&mut self, server: ConnId, rows: Vec<Vec<u8>>) {
        if let Some(oracle) = &mut self.oracle {
            oracle.rows(server, rows);
        }
    }

    fn refused(&mut self, chore: Chore, server: ConnId, pool: PoolId, words: String) -> Option<String> {
        if chore == Chore::Compare {
            self.oracle.as_mut()?.refused(server, words);
            return None;
        }
        self.poisoner.as_mut()?.refused(server, pool);
        Some(format!("chaos_poison: refused: {words}"))
    }

    fn answered(
        &mut self,
        chore: Chore,
        conn: ConnId,
        server: &mut Server,
        caches: &mut Caches,
    ) -> Option<(ConnId, String)> {
        if chore == Chore::Compare {
            return self.oracle.as_ref()?.difference(conn, server, &caches.tracked);
        }
        self.poisoner.as_ref()?.leave(conn, server, caches);
        None
    }

    fn gone(&mut self, server: ConnId) {
        if let Some(poisoner) = &mut self.poisoner {
            poisoner.forget(server);
        }
        if let Some(oracle) = &mut self.oracle {
            oracle.gone(server);
        }
    }

    fn rotations(&self) -> Rotations {
        self.rotation.as_ref().map(Rotation::counts).unwrap_or_default()
    }
}
