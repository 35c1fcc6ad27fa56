//! A session gets a server: the part of a link that does not depend on what the session has set.

use machine::Settings;
use units::{ConnId, PoolId, Time};

use crate::pool::Pool;
use crate::server::Server;
use crate::session::Session;
use crate::slow;

/// Links a session and an idle server.
#[inline]
pub fn join(
    now: Time,
    settings: &Settings,
    (conn, session): (ConnId, &mut Session),
    (server_id, server): (ConnId, &mut Server),
    pool: &mut Pool,
    unpublished: &mut Vec<PoolId>,
) {
    assert!(server.is_clean() && server.cancel.under_way == 0, "I3: only a clean server is handed out");
    debug_assert!(server.session().is_none(), "I1: a server has one session at most");
    debug_assert_eq!(
        session.pool, server.pool,
        "a session gets a server of its own pool: reads from replicas will need two pools here"
    );
    debug_assert_eq!(server.pool, pool.id, "a server is lent by its pool");
    if machine::sabotage::does(settings, machine::sabotage::Fault::KeepStatements) {
        pool.names.generation = 0;
    }
    pool.hand_to(now, server_id, server, conn, unpublished);
    pool.charge(now, session.claim.class, session.claim.origin, server);
    pool.names.known.aged(now);
    pool.counts.count_assignment();
    let waited_us = session.waited_us(now);
    pool.counts.count_wait(waited_us);
    slow::linked(pool, server, now, waited_us);
    server.linked(now, waited_us);
    session.link(server_id);
    session.progress_at = now;
}
