//! The most frequent link: a session with one whole message, and an idle server that already has the session's
//! parameters.
//!
//! It has the same effect as `placement::place`, `idle_servers::take_idle` and [`links::link`], but looks up session,
//! server and pool only once. In special cases it declines and changes nothing.

use link::joining::join;
use link::lone_query::LoneQuery;
use link::server::ServerState;
use link::session::{SessionState, WaitFor};
use machine::action::Source;
use queueing::classes::ClassId;
use units::ConnId;

use crate::servers::idle_servers::is_expired;
use crate::sessions::links;
use crate::tables::owners::{Plan, Pools, Servers, Sessions};
use crate::tables::stale::is_stale;
use crate::tables::step::Step;

/// The outcome.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum AtOnce {
    /// A special case: nothing was done.
    Declined,
    /// The session's query was sent, or no session waits for the server.
    Done,
    /// This session got a server; its messages must still be read.
    Linked(ConnId),
}

/// Links a session of this class that has no server to an idle one. The session has only `bytes`, which begin with a
/// whole message.
#[inline(never)]
pub(crate) fn begin(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
    class: ClassId,
) -> AtOnce {
    if is_special(servers, step.plan) || step.plan.settings.global.servers.server_round_robin {
        return AtOnce::Declined;
    }
    let session = &mut sessions[conn];
    let pool = &mut pools[session.pool()];
    // Without one the session waits.
    let Some(&server_id) = pool.servers().idle().back() else { return AtOnce::Declined };
    let server = &mut servers[server_id];
    let may_take = pool.queue().admits(class) && !pool.known().is_awaited() && pool.rules().max_pinned() == 0;
    let is_fresh =
        !is_stale(step.now, server, &step.plan.settings) && !is_expired(step.now, server, pool, &step.plan.settings);
    let query = LoneQuery { session, server_id, server, pool, bytes, source: Source::Chunk, at: 0 };
    if !may_take || !is_fresh || !query.may_be_linked_as_is() {
        return AtOnce::Declined;
    }
    query.session.requests(step.now);
    if link_and_send(step, conn, query) {
        if machine::sabotage::is_on(&step.plan.settings) {
            links::release_if_done(sessions, servers, pools, step, server_id);
        }
        return AtOnce::Done;
    }
    AtOnce::Linked(conn)
}

/// A server has become free: it serves the next waiting session, if there is one.
#[inline(never)]
pub(crate) fn serve_next(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
) -> AtOnce {
    // Deliberate faults are only in the general path.
    if is_special(servers, step.plan) || machine::sabotage::is_on(&step.plan.settings) {
        return AtOnce::Declined;
    }
    // It may have been closed since it became free.
    let Some(server) = servers.get_mut(server_id) else { return AtOnce::Declined };
    let pool = &mut pools[server.pool()];
    let is_asked = pool.known().is_awaited() || pool.known().is_overdue(step.now);
    let is_shared = pool.exchange().is_shared()
        || !pool.servers().own().queue().is_empty()
        || pool.listener().is_some()
        || pool.measured().wait_sampling().is_some();
    if !matches!(server.state(), ServerState::Idle) || is_asked || is_shared || pool.rules().reserve_pool_size() > 0 {
        return AtOnce::Declined;
    }
    if is_expired(step.now, server, pool, &step.plan.settings) {
        return AtOnce::Declined;
    }
    let Some(waiter) = pool.queue().peek(step.now) else {
        let is_used = pool.known().is_due(step.now, pool.servers().idle().len() > 1) || pool.is_vacating(step.now);
        return if is_used { AtOnce::Declined } else { AtOnce::Done };
    };
    let (conn, session) = (waiter.session, &mut sessions[waiter.session]);
    let SessionState::Waiting { wait_for: WaitFor::Server, deadline_ms: 0, .. } = session.state() else {
        return AtOnce::Declined;
    };
    let inbox = session.incoming_mut().take_inbox();
    let source = step.actions.next_kept();
    let query = LoneQuery { session, server_id, server, pool, bytes: &inbox, source, at: 0 };
    if !query.may_be_linked_as_is() {
        sessions[conn].incoming_mut().put_back(inbox);
        return AtOnce::Declined;
    }
    query.pool.queue_mut().pop(step.now);
    let id = query.pool.id();
    let is_sent = link_and_send(step, conn, query);
    let pool = &pools[id];
    if pool.queue().has_waiters() && !pool.asks_no_more(step.now) {
        step.agenda.feed(id);
    }
    if is_sent {
        step.actions.keep(inbox);
        return AtOnce::Done;
    }
    sessions[conn].incoming_mut().put_back(inbox);
    AtOnce::Linked(conn)
}

/// Whether all links must take the general path.
fn is_special(servers: &Servers, plan: &Plan) -> bool {
    plan.stopping.has_begun() || servers.chaos.is_some()
}

/// Links, and sends the query if it has no effect except its answer. Returns whether it was sent.
#[inline(always)]
fn link_and_send(step: &mut Step<'_>, conn: ConnId, mut query: LoneQuery<'_>) -> bool {
    let (session, server) = ((conn, &mut *query.session), (query.server_id, &mut *query.server));
    join(step.now, &step.plan.settings, session, server, query.pool, step.agenda.unpublished());
    let text = query.text().filter(|text| query.is_harmless(text, step.caches));
    if let Some(text) = text {
        query.send(step.now, text, step.actions);
    }
    text.is_some()
}
