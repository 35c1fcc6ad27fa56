//! A session and the server that it is linked to, with their pool: borrowed together for one step.
//!
//! The walker over a client's messages ([`Requests`](crate::requests::Requests)) is made from it. Where nothing about it is special,
//! [`Link::plain`] is the fast case.

use machine::Settings;
use units::{ConnId, PoolId, Time};

use crate::kept_texts;
use crate::pool::Pool;
use crate::server::Server;
use crate::session::Session;

/// A session, a server, and the pool of both. The two are linked, or about to be.
#[derive(Debug)]
pub struct Link<'a> {
    pub(crate) conn: ConnId,
    pub(crate) session: &'a mut Session,
    pub(crate) server_id: ConnId,
    pub(crate) server: &'a mut Server,
    pub(crate) pool: &'a mut Pool,
}

impl<'a> Link<'a> {
    /// The session `conn` and the server `server_id`, both of `pool`.
    #[inline(always)]
    pub fn new(
        (conn, session): (ConnId, &'a mut Session),
        (server_id, server): (ConnId, &'a mut Server),
        pool: &'a mut Pool,
    ) -> Link<'a> {
        debug_assert_eq!(
            session.pool, server.pool,
            "the link's pool is the session's: reads from replicas would need two pools here"
        );
        debug_assert_eq!(server.pool, pool.id, "a server is lent by its pool");
        Link { conn, session, server_id, server, pool }
    }

    #[inline]
    pub fn session_id(&self) -> ConnId {
        self.conn
    }

    #[inline]
    pub fn server_id(&self) -> ConnId {
        self.server_id
    }

    #[inline]
    pub fn session(&self) -> &Session {
        self.session
    }

    #[inline]
    pub fn server(&self) -> &Server {
        self.server
    }

    #[inline]
    pub fn pool(&self) -> &Pool {
        self.pool
    }

    #[inline]
    pub fn session_mut(&mut self) -> &mut Session {
        self.session
    }

    #[inline]
    pub fn pool_mut(&mut self) -> &mut Pool {
        self.pool
    }

    /// The three, no longer together.
    #[inline(always)]
    pub fn into_parts(self) -> (&'a mut Session, &'a mut Server, &'a mut Pool) {
        (self.session, self.server, self.pool)
    }

    /// Links a session and an idle server: the part that does not depend on what the session has set.
    ///
    /// # Panics
    /// If the server is not clean (I3), or not idle (I1).
    #[inline]
    pub fn begin(&mut self, now: Time, settings: &Settings, unpublished: &mut Vec<PoolId>) {
        let Link { conn, session, server_id, server, pool } = self;
        assert!(server.is_clean() && server.facts.cancel.under_way == 0, "I3: only a clean server is handed out");
        debug_assert!(server.session().is_none(), "I1: a server has one session at most");
        if machine::sabotage::does(settings, machine::sabotage::Fault::KeepStatements) {
            pool.names.generation = 0;
        }
        pool.hand_to(now, *server_id, server, *conn, unpublished);
        let claim = &session.facts.claim;
        pool.charge(now, claim.class, claim.origin, server);
        pool.names.known.aged(now);
        pool.counts.count_assignment();
        let waited_us = session.waited_us(now);
        pool.counts.count_wait(waited_us);
        kept_texts::linked(pool, server, now, waited_us);
        server.linked(now, waited_us);
        session.link(*server_id);
        session.progress_at = now;
    }
}
