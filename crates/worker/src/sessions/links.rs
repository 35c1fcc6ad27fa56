//! Links a session and a server for a transaction (I1), and releases the server (I3).
//!
//! [`begin`] and [`serve_next`] are the most frequent links: nothing is special about session, server and pool, and the server has the
//! session's parameters. They look up all three only once. Where no server is idle, [`begin`] lets the session wait. Where something is
//! special they decline and change nothing; `placement::place`, `idle_servers::take_idle` and [`link`] then have the same effect.

use std::sync::Arc;

use link::Link;
use link::checking::{Leaves, may_leave};
use link::first_reading::FirstReading;
use link::following::may_lose_own;
use link::plain::{Plain, Sent};
use link::pool::{LocalBuffers, Pool};
use link::rebasing;
use link::server::{CloseReason, Server, ServerState};
use link::session::{Admission, Session, SessionState, WaitFor};
use link::untouched;
use machine::action::Source;
use machine::sabotage::releases_early;
use queueing::classes::ClassId;
use queueing::commented::Commented;
use settings::{Fidelity, PoolMode};
use units::deadline::Owner;
use units::{ConnId, limits};

use crate::servers::idle_servers::is_expired;
use crate::servers::{closed_servers, disturbances, free_servers, listener};
use crate::sessions::waiters;
use crate::tables::owners::{Plan, Pools, Servers, Sessions};
use crate::tables::stale::is_stale;
use crate::tables::step::Step;
use crate::tables::timers::is_armed_idle;
use crate::tables::{backpressure, lookups};

/// The outcome.
#[derive(Copy, Clone, Debug)]
pub(crate) enum AtOnce {
    /// A special case: nothing was done.
    Declined,
    /// The session's request was sent or waits, or no session waits for the server.
    Done,
    /// This session got a server; its messages must still be read. The reading of the Query that they are, if it was read.
    Linked(ConnId, Option<FirstReading>),
}

/// Links a session of this class that has no server to an idle one, or lets it wait. The session has only `bytes`, which begin with a
/// whole message.
#[inline(always)]
pub(crate) fn begin(
    session: &mut Session,
    servers: &mut Servers,
    pool: &mut Pool,
    step: &mut Step<'_>,
    conn: ConnId,
    bytes: &[u8],
    class: ClassId,
) -> AtOnce {
    if avoids_fast_case(servers, step.plan) || step.plan.settings.global.servers.server_round_robin {
        return AtOnce::Declined;
    }
    let Some(&server_id) = pool.servers().idle().back() else {
        return wait(session, pool, step, conn, bytes);
    };
    let server = &mut servers[server_id];
    let may_take = pool.queue().admits(class) && !pool.known().is_awaited() && pool.rules().max_pinned() == 0;
    let is_fresh =
        !is_stale(step.now, server, &step.plan.settings) && !is_expired(step.now, server, pool, &step.plan.settings);
    let mut link = Link::new((conn, session), (server_id, server), pool);
    let names = &mut step.caches.server_names;
    if !may_take || !is_fresh || !link.plain().is_some_and(|plain| plain.fits(bytes, names)) {
        return AtOnce::Declined;
    }
    link.session_mut().requests(step.now);
    match begin_plainly(step, &mut link, (bytes, Source::Chunk, 0)) {
        Sent::Yes => AtOnce::Done,
        Sent::No(reading) => AtOnce::Linked(conn, reading),
    }
}

/// Lets a session wait, which has only `bytes`, in a pool that has no idle server.
#[inline(never)]
fn wait(session: &mut Session, pool: &mut Pool, step: &mut Step<'_>, conn: ConnId, bytes: &[u8]) -> AtOnce {
    let classes = &step.plan.settings.classes;
    // Whoever waits may have to wait for a permit to pin, and may end another's rest.
    let is_special = pool.rules().max_pinned() > 0 || pool.servers().has_resting();
    // With several classes the comments were read already.
    let is_ruled = !classes.is_single() || classes.bounds_queues() || bytes.len() >= limits::CHUNK_LEN_MAX;
    if is_special || is_ruled || session.deadline_ms(bytes, Commented::Unread).is_some() {
        return AtOnce::Declined;
    }
    session.requests(step.now);
    waiters::queue(session, pool, step, conn, WaitFor::Server);
    session.incoming_mut().stash(bytes, || step.caches.buffers.take());
    AtOnce::Done
}

/// A server has become free: it serves the next waiting session, if there is one.
#[inline(always)]
pub(crate) fn serve_next(
    sessions: &mut Sessions,
    (server_id, server): (ConnId, &mut Server),
    pool: &mut Pool,
    step: &mut Step<'_>,
) -> AtOnce {
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
    serve(&mut sessions[waiter.session], waiter.session, (server_id, server), pool, step)
}

/// Links the session that has waited longest to a server that has become free.
#[inline(never)]
fn serve(
    session: &mut Session,
    conn: ConnId,
    server: (ConnId, &mut Server),
    pool: &mut Pool,
    step: &mut Step<'_>,
) -> AtOnce {
    let SessionState::Waiting { wait_for: WaitFor::Server, deadline_ms: 0, .. } = session.state() else {
        return AtOnce::Declined;
    };
    let inbox = session.incoming_mut().take_inbox();
    let source = step.actions.next_kept();
    let mut link = Link::new((conn, session), server, pool);
    if !link.plain().is_some_and(|plain| plain.fits(&inbox, &mut step.caches.server_names)) {
        link.session_mut().incoming_mut().put_back(inbox);
        return AtOnce::Declined;
    }
    link.pool_mut().queue_mut().pop(step.now);
    let sent = begin_plainly(step, &mut link, (&inbox, source, 0));
    if link.pool().queue().has_waiters() && !link.pool().asks_no_more(step.now) {
        step.agenda.feed(link.pool().id());
    }
    match sent {
        Sent::Yes => {
            step.actions.keep(source, inbox);
            AtOnce::Done
        }
        Sent::No(reading) => {
            link.session_mut().incoming_mut().put_back(inbox);
            AtOnce::Linked(conn, reading)
        }
    }
}

/// Whether all links take the general path: a shutdown has begun, or tests disturb servers on purpose.
#[inline]
pub(crate) fn avoids_fast_case(servers: &Servers, plan: &Plan) -> bool {
    plan.stopping.has_begun() || servers.chaos.is_some()
}

/// Links, and sends the request if it is one that has no effect except its answer.
#[inline(always)]
fn begin_plainly(step: &mut Step<'_>, link: &mut Link<'_>, bytes: (&[u8], Source, usize)) -> Sent {
    link.begin(step.now, &step.plan.settings, step.agenda.unpublished());
    let Some(mut plain) = link.plain() else { return Sent::No(None) };
    let sent = plain.send(step.now, bytes, step.caches, step.machine.actions);
    if matches!(sent, Sent::Yes) && link.pool().rules().times_links() {
        step.agenda.arm(Owner::Conn(link.session_id()));
    }
    sent
}

/// Ends a link of which nothing is special, if its transaction is over. Whether it has ended: then the server is to be placed.
#[inline(always)]
pub(crate) fn end_plainly(plain: Plain<'_, '_>, step: &mut Step<'_>) -> bool {
    let link = plain.link();
    if machine::sabotage::is_on(&step.plan.settings)
        || !is_armed_idle(step.now, link.server(), link.pool())
        || !plain.may_end(step.now)
    {
        return false;
    }
    if !link.session().incoming().inbox().is_empty() {
        step.agenda.reconsider(link.session_id());
    }
    plain.end(step.now, step.agenda.unpublished());
    true
}

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
    let mut link = Link::new((conn, session), (server_id, server), pool);
    link.begin(step.now, &step.plan.settings, step.agenda.unpublished());
    let (session, server, pool) = link.into_parts();
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
    if session.has_begun() {
        untouched::begin_again(session, server_id, server, step.actions);
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
    // Nothing begins at one of two hosts that accept writes.
    let is_disputed = servers[server_id].end().close_needed() == Some(&CloseReason::TwoPrimaries);
    let leaves = has_lost || is_disputed || may_lose_own(&servers[server_id], session);
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
    let is_armed = pool.rules().is_armed_idle(session, step.now) && !pool.is_removed();
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
    let (id, removed, is_armed) = (pool.id(), pool.is_removed(), pool.rules().is_armed_idle(session, step.now));
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
