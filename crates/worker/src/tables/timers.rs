//! Arms the timers of connections and pools. Deadlines are computed from states, and checked only when one may be due.

use std::time::Duration;

use link::pool::Pool;
use link::server::Server;
use units::deadline::Owner;
use units::{ConnId, Kind, PoolId, Time, limits};

use crate::tables::Tables;
use crate::tables::agenda::Arm;
use crate::tables::owners::{Clock, Pools, Servers, Sessions};
use crate::tables::step::Step;

/// Sets a timer as the agenda has it.
pub(crate) fn arm(tables: &mut Tables, step: &Step<'_>, timer: Arm) {
    match timer {
        Arm::Next(Owner::Conn(conn)) => match conn.kind() {
            Kind::Client => arm_session(tables, step, conn),
            Kind::Server => arm_server(tables, step, conn),
            Kind::Cancel => arm_canceller(&mut tables.servers, &mut tables.clock, step, conn),
            Kind::Login | Kind::Lookup | Kind::Peer => {}
        },
        Arm::Next(Owner::Pool(pool)) => arm_pool(&mut tables.pools, &mut tables.clock, step, pool),
        Arm::By(pool, at) => {
            // It may have been forgotten in this step.
            if let Some(pool) = tables.pools.get_mut(pool) {
                pool.arm(&mut tables.clock.deadlines, at);
            }
        }
    }
}

fn arm_session(tables: &mut Tables, step: &Step<'_>, conn: ConnId) {
    // It may have ended since.
    let Some(session) = tables.sessions.get(conn) else { return };
    // Many states have no deadline.
    let Some((at, _)) = tables.view(step.plan, step.caches).session_deadline(session) else { return };
    tables.sessions[conn].arm(&mut tables.clock.deadlines, conn, at);
}

/// A linked session's timer, but cheap where no timeout is set and nothing stalls: called while queries are forwarded.
pub(crate) fn arm_linked(sessions: &Sessions, pools: &Pools, step: &mut Step<'_>, conn: ConnId) {
    // The event may arrive after its connection was closed.
    let Some(session) = sessions.get(conn) else { return };
    // It is at the console, or is being disconnected.
    let Some(pool) = pools.get(session.pool()) else { return };
    if pool.rules().times_links() || session.is_torn() || !session.flow().is_clear() {
        step.agenda.arm(Owner::Conn(conn));
    }
}

fn arm_server(tables: &mut Tables, step: &Step<'_>, conn: ConnId) {
    // A linked server has no deadline of its own: its session has.
    let Some((at, _)) = tables.view(step.plan, step.caches).server_deadline(conn) else { return };
    tables.servers[conn].arm(&mut tables.clock.deadlines, conn, at);
}

fn arm_canceller(servers: &mut Servers, clock: &mut Clock, step: &Step<'_>, conn: ConnId) {
    let timeout = step.plan.settings.global.waiting.cancel_wait_timeout.unwrap_or(limits::HOUSEKEEPING);
    if let Some(canceller) = servers.cancels.get_mut(conn) {
        let at = canceller.since.max(step.now) + timeout;
        clock.deadlines.arm(Owner::Conn(conn), &mut canceller.armed, at);
    }
}

/// Arms a pool's timer: for when it may open servers again, or its reserve, or may ask other workers for servers.
fn arm_pool(pools: &mut Pools, clock: &mut Clock, step: &Step<'_>, id: PoolId) {
    let reserve_timeout = step.plan.settings.global.pools.reserve_pool_timeout;
    // It may have been forgotten in this step.
    let Some(pool) = pools.get_mut(id) else { return };
    let own = pool.servers().own().queue().front();
    let is_alone = !pool.exchange().is_shared() && pool.rules().reserve_pool_size() == 0 && own.is_none();
    if is_alone && !pool.opening().is_paused(step.now) {
        // Nothing below would apply; lends are refused only between homes.
        return;
    }
    if pool.exchange().lends_refused_until() > step.now {
        pool.arm(&mut clock.deadlines, pool.exchange().lends_refused_until());
    }
    if let Some(own) = own.filter(|_| !pool.servers().idle().is_empty()) {
        // If it has no leave by then, an idle server makes room.
        let at = (own.since + limits::GRANT).max(step.now + Duration::from_millis(1));
        pool.arm(&mut clock.deadlines, at);
    }
    let waiting_since = pool.waiting_since();
    if pool.exchange().is_shared() && waiting_since != Time::NEVER {
        // When the oldest waiter has waited for the pool's patience, and again while it waits.
        let patience = pool.servers().patience();
        let first = waiting_since + patience;
        let at = if first > step.now { first } else { step.now + patience };
        pool.arm(&mut clock.deadlines, at);
    }
    if let Some(until) = pool.opening().pause_until(step.now) {
        pool.arm(&mut clock.deadlines, until);
        return;
    }
    if let (Some(waiter), Some(timeout), true) = (pool.oldest(), reserve_timeout, pool.lacks_reserve()) {
        let at = (waiter.since + timeout).max(step.now + Duration::from_millis(1));
        pool.arm(&mut clock.deadlines, at);
    }
}

/// Whether the timer of a server that becomes idle is early enough already, as is usual after its first transaction.
#[inline]
pub(crate) fn is_armed_idle(now: Time, server: &Server, pool: &Pool) -> bool {
    !pool.rules().servers().is_used_up(server.work().uses())
        && pool.rules().servers().idle_timeout().is_some_and(|idle| {
            server.is_armed_by(now + idle)
                && server.is_armed_by(server.identity().connected_at() + pool.rules().servers().lifetime())
        })
}
