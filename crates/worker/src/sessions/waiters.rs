//! A session begins to wait for a server.

use link::session::WaitFor;
use machine::Step;
use units::ConnId;
use units::deadline::Owner;

use crate::servers::resting;
use crate::tables::Tables;

pub(crate) fn begin_waiting(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, wait_for: WaitFor) {
    let session = &mut tables.sessions[conn];
    let pool = &mut tables.pools[session.pool()];
    pool.queue_grows(step.now, session.claim().class());
    let ticket = pool.queue_mut().push(session.claim().class(), conn, step.now, step.now);
    let since = session.waiting_since().unwrap_or(step.now);
    session.wait(since, wait_for, ticket, false);
    if !pool.asks_no_more(step.now) {
        tables.agenda.feed(pool.id());
    }
    tables.agenda.publish_shared(pool);
    let (id, is_armed, rests) = (pool.id(), pool.rules().is_armed(session, step.now), pool.servers().has_resting());
    if !is_armed {
        tables.agenda.arm(Owner::Conn(conn));
    }
    if rests {
        resting::end_a_rest(tables, step, id);
    }
}
