//! A session begins to wait for a server.

use link::pool::Pool;
use link::session::{Session, WaitFor};
use units::ConnId;
use units::deadline::Owner;

use crate::servers::resting;
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;

pub(crate) fn begin_waiting(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    wait_for: WaitFor,
) {
    let session = &mut sessions[conn];
    let pool = &mut pools[session.pool()];
    queue(session, pool, step, conn, wait_for);
    let (id, rests) = (pool.id(), pool.servers().has_resting());
    if rests {
        resting::end_a_rest(sessions, servers, pools, step, id);
    }
}

/// The session waits in its pool's queue from now on.
#[inline(always)]
pub(crate) fn queue(session: &mut Session, pool: &mut Pool, step: &mut Step<'_>, conn: ConnId, wait_for: WaitFor) {
    pool.queue_grows(step.now, session.claim().class());
    let ticket = pool.queue_mut().push(session.claim().class(), conn, step.now, step.now);
    let since = session.waiting_since().unwrap_or(step.now);
    session.wait(since, wait_for, ticket, false);
    if !pool.asks_no_more(step.now) {
        step.agenda.feed(pool.id());
    }
    step.agenda.publish_shared(pool);
    if !pool.rules().is_armed(session, step.now) || pool.opening().held_for().is_some() {
        step.agenda.arm(Owner::Conn(conn));
    }
}
