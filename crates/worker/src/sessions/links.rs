//! Links a session and a server for a transaction (I1), and releases the server (I3).

use std::sync::Arc;

use link::checking::{Leaves, may_leave};
use link::following::may_lose_own;
use link::joining::join;
use link::pool::LocalBuffers;
use link::rebasing;
use link::server::{CloseReason, ServerState};
use link::session::{Admission, SessionState, WaitFor};
use machine::sabotage::releases_early;
use settings::{Fidelity, PoolMode};
use units::ConnId;
use units::deadline::Owner;

use crate::servers::{closed_servers, disturbances, free_servers, listener};
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::timers::is_armed_idle;
use crate::tables::{backpressure, lookups};

/// Links a session and a server (I1). Returns whether the session's messages may go there at once.
pub(crate) fn link(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    server_id: ConnId,
) -> bool {
    if servers.chaos.is_some() {
        disturbances::observe_link(servers, pools, step, conn, server_id);
    }
    let (session, server) = (&mut sessions[conn], &mut servers[server_id]);
    let pool = &mut pools[session.pool()];
    let is_unknown = matches!(
        session.state(),
        SessionState::Welcoming { .. } | SessionState::Waiting { wait_for: WaitFor::Login, .. }
    );
    let begins = !session.is_confirmed() && !is_unknown;
    if let Some(news) = rebasing::rebase(session, pool, step.caches) {
        step.actions.send_new(conn, |out| out.extend_from_slice(&news));
    }
    join(step.now, &step.plan.settings, (conn, session), (server_id, server), pool, step.agenda.unpublished());
    if let Some(permits) = session.claim_mut().permits_mut() {
        permits.linked(step.now);
    }
    let mut begun_with = None;
    let class = &step.plan.settings.classes.class(session.claim().class()).name;
    let renaming = step.caches.server_names.rename(session, class, server.kept_mut(), &mut step.caches.interned);
    let same = Arc::ptr_eq(session.parameters(), server.kept().parameters());
    let has_others = !server.kept().owners().of_sessions().without(session.own().now()).is_empty();
    if !same
        || has_others
        || renaming.is_some()
        || !session.is_confirmed()
        || session.tracker().is_some()
        || server.kept().session_state().is_some()
    {
        begun_with = begins.then(|| Arc::clone(session.parameters()));
        let configured = link::parameter_reports::configured(server, pool);
        let tracked = &step.caches.tracked;
        let replays = link::replaying::replay(
            &mut step.machine,
            session,
            server_id,
            server,
            tracked,
            configured,
            renaming.as_ref(),
        );
        if replays {
            pool.counts_mut().count_replay();
        }
        begun_with = begun_with.filter(|_| !replays);
    }
    let paused = !session.flow().is_reading() || !session.flow().is_clear() || !server.flow().is_reading();
    let is_open = !server.holds_messages();
    let Some(begun_with) = begun_with else {
        if paused {
            backpressure::balance_session(sessions, servers, step, conn);
        }
        return is_open;
    };
    link::replaying::confirm(&mut step.machine, (conn, session), server, pool, &step.caches.tracked, &begun_with);
    if paused {
        backpressure::balance_session(sessions, servers, step, conn);
    }
    !servers[server_id].holds_messages()
}

/// Ends the hold on a client's messages if the server has answered what they waited for. Whether it has.
pub(crate) fn ends_hold(sessions: &Sessions, servers: &mut Servers, server_id: ConnId, conn: ConnId) -> bool {
    if lookups::waits_for_listener(sessions, conn) {
        return false;
    }
    let server = &mut servers[server_id];
    let opens = server.hold().is_on() && server.has_answered();
    if opens {
        server.hold_mut().end();
    }
    opens
}

/// Releases a server that has lost what `connect_query` gave it, before its session's next message: the session gets a server that has
/// that. If it may have lost something, it is asked first. Whether it was released.
pub(crate) fn leaves_lost_base(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    conn: ConnId,
) -> bool {
    let session = &sessions[conn];
    let has_lost = session.tracker().is_some_and(|tracker| tracker.unseen.has_lost_base());
    let leaves = has_lost || may_lose_own(&servers[server_id], session);
    leaves && release_if_done(sessions, servers, pools, step, server_id)
}

/// Releases the server of a session that has reset what it began with and was not given it back, since its client's messages waited for the
/// listener. Whether it was released.
pub(crate) fn leaves_reverted(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) -> bool {
    // It may have ended meanwhile.
    let Some(session) = sessions.get(conn) else { return false };
    let is_reverted = session.tracker().is_some_and(|tracker| tracker.is_reverted());
    let Some(server_id) = session.server().filter(|_| is_reverted) else { return false };
    release_if_done(sessions, servers, pools, step, server_id)
}

/// Releases a linked server if its client's transaction is over and nothing is owed (I3). Returns whether it was
/// released; the session's deadline is then armed.
pub(crate) fn release_if_done(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
) -> bool {
    let server = &mut servers.table[server_id];
    // It was released already.
    let ServerState::Linked(conn) = *server.state() else { return false };
    let pool = &mut pools[server.pool()];
    let session = &mut sessions[conn];
    let is_held = server.hold().is_on() && !(pool.needs_listener() && session.waits_for_listener());
    // In a limit's queue it has the place of a session with a server.
    let waits_for_limit = matches!(session.claim().admission(), Admission::Waits { .. });
    if pool.rules().mode() == PoolMode::Session || is_held || waits_for_limit {
        return server.end().close_needed().is_some()
            && closed_servers::close_fast(sessions, servers, pools, step, server_id);
    }
    let lasted = step.now.micros_since(server.work().since());
    let is_clean = server.is_clean() || releases_early(&step.plan.settings) && server.owes_no_more_after_ready();
    if !is_clean || session.is_torn() {
        return false;
    }
    let mut returns_pin_permit = false;
    if session.tracker().is_some() || pool.rules().fidelity() == Fidelity::Strict {
        match may_leave(step, session, server_id, server, pool) {
            Leaves::No => return false,
            Leaves::Yes => {}
            Leaves::ReturnsPinPermit => returns_pin_permit = true,
        }
    }
    pool.servers_mut().observe_service(lasted);
    session.unlink(step.now);
    let resets = step.plan.settings.global.servers.server_reset_query_always
        || server.traces().needs_reset()
        || server.traces().listens();
    let is_limited = session.claim().admission() != Admission::Not || session.claim().permits().is_some();
    let is_watched = is_limited || servers.chaos.is_some();
    let has_subscriptions = session.tracker().is_some_and(|tracker| tracker.notifications.subscriptions().is_some());
    let is_read = session.flow().is_reading() && session.flow().is_clear();
    let is_armed = pool.rules().is_armed(session, step.now) && !pool.is_removed();
    if returns_pin_permit
        || resets
        || is_watched
        || has_subscriptions
        || !is_read
        || !is_armed
        || !server.is_free_at_once()
        || pool.servers().local_buffers() == LocalBuffers::SetNow
    {
        let_go(sessions, servers, pools, step, conn, server_id, returns_pin_permit);
        return true;
    }
    if !session.incoming().inbox().is_empty() {
        step.agenda.reconsider(conn);
    }
    server.released();
    if let Some(why) = pool.servers_mut().takes_back() {
        server.end_mut().close_when_released(why);
    }
    let is_armed = is_armed_idle(step.now, server, pool);
    pool.take_back(step.now, server_id, server, step.agenda.unpublished());
    step.agenda.place(server_id);
    if !is_armed {
        step.agenda.arm(Owner::Conn(server_id));
    }
    true
}

/// The rest of a release where something is special about the session or the server.
#[inline(never)]
fn let_go(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
    server_id: ConnId,
    returns_pin_permit: bool,
) {
    let session = &sessions[conn];
    let pool = &pools[session.pool()];
    let limited = session.claim().admission() != Admission::Not || session.claim().permits().is_some();
    let has_subscriptions = session.tracker().is_some_and(|tracker| tracker.notifications.subscriptions().is_some());
    let (id, removed, is_armed) = (pool.id(), pool.is_removed(), pool.rules().is_armed(session, step.now));
    let paused = !session.flow().is_reading() || !session.flow().is_clear();
    let has_more = !session.incoming().inbox().is_empty();
    if returns_pin_permit {
        step.agenda.admit_to_pin(id);
    }
    closed_servers::retire_local_buffers(sessions, servers, pools, step, id);
    if has_more {
        step.agenda.reconsider(conn);
    }
    if paused {
        backpressure::balance_session(sessions, servers, step, conn);
    }
    if has_subscriptions {
        listener::send_notifications(sessions, servers, step, conn);
    }
    if limited {
        note_end(sessions, step, conn);
    }
    if removed {
        step.agenda.refuse(conn, CloseReason::DatabaseRemoved);
    }
    if removed || !is_armed {
        step.agenda.arm(Owner::Conn(conn));
    }
    let traces = servers[server_id].traces();
    let used = traces.needs_reset() || traces.listens();
    if step.plan.settings.global.servers.server_reset_query_always || used {
        free_servers::reset_or_free(servers, pools, step, server_id);
    } else {
        free_servers::free(servers, pools, step, server_id);
    }
}

/// A session's transaction is over, and its server released: releases its permits.
fn note_end(sessions: &mut Sessions, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut sessions[conn];
    let admission = session.claim_mut().take_admission();
    debug_assert!(!matches!(admission, Admission::Waits { .. }), "a session that waits for a limit keeps its server");
    step.agenda.release(session.claim_mut().take_permits());
}
