//! Deliberate trouble for tests, by the settings `chaos_rotate`, `chaos_poison` and `chaos_check`: whatever a session leaves behind
//! on a server is missed, or found, at once.
//!
//! A worker has one [`Chaos`] while any of them is on. It is told what happens to servers and sessions, and says what else is to be
//! asked of a server; it knows no worker. Off, it costs one branch where a server is linked and one where it is released.

mod dice;
mod oracle;
mod poisoner;
mod rotation;

use connections::server::{Answerer, Chore, Server};
use dice::Dice;
use link::caches::Caches;
use link::pool::Pool;
use machine::Settings;
use machine::snapshot::Rotations;
use oracle::Oracle;
use poisoner::Poisoner;
use rotation::Rotation;
use units::{ConnId, PoolId};

/// What is asked of a server that is free, before anybody else gets it.
pub(crate) struct Question {
    pub(crate) chore: Chore,
    pub(crate) answerer: Answerer,
    pub(crate) text: Vec<u8>,
}

/// An idle server, and the process id of its backend.
pub(crate) type Idle = (ConnId, i32);

/// What a test does to the servers of a worker.
pub(crate) trait Chaos: std::fmt::Debug {
    /// The server that a session is to have, of those that are `idle` and may be used as they are.
    fn choose(&mut self, session: ConnId, chosen: ConnId, pool: &Pool, idle: &mut dyn Iterator<Item = Idle>) -> ConnId;

    /// A session gets a server, beside others that are `idle`. What is to be said about that at FATAL.
    fn linked(
        &mut self,
        session: ConnId,
        server: (ConnId, &mut Server),
        pool: &Pool,
        idle: &mut dyn Iterator<Item = Idle>,
    ) -> Option<String>;

    /// A session ends: what there is to tell of it, which calls itself by this name.
    fn left(&mut self, session: ConnId, name: &[u8]) -> Option<String>;

    /// A server is free: what it is to be asked first.
    fn freed(&mut self, conn: ConnId, server: &mut Server, pool: &Pool, caches: &mut Caches) -> Option<Question>;

    /// A part of the answer: the bodies of DataRows.
    fn rows(&mut self, server: ConnId, rows: Vec<Vec<u8>>);

    /// The answer is an error. What there is to tell of it.
    fn refused(&mut self, chore: Chore, server: ConnId, pool: PoolId, words: String) -> Option<String>;

    /// The answer is whole. What there is to tell at FATAL, and the session that had the server last.
    fn answered(
        &mut self,
        chore: Chore,
        conn: ConnId,
        server: &mut Server,
        caches: &mut Caches,
    ) -> Option<(ConnId, String)>;

    /// A server is not this worker's any more.
    fn gone(&mut self, server: ConnId);

    /// What has come of `chaos_rotate` so far.
    fn rotations(&self) -> Rotations;
}

/// What the settings ask for.
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

/// `None` unless the settings ask for any of it.
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
            server.traces.last_text.get_or_insert_default().clear();
        }
        let rotation = self.rotation.as_mut()?;
        let others = rotation.others(session, pool, idle).len();
        rotation.linked(session, server.backend.pid, others)
    }

    fn left(&mut self, session: ConnId, name: &[u8]) -> Option<String> {
        self.rotation.as_mut()?.left(session, name)
    }

    fn freed(&mut self, conn: ConnId, server: &mut Server, pool: &Pool, caches: &mut Caches) -> Option<Question> {
        if server.end.close_needed.is_some() || !pool.rules.follows() {
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
