//! Links a session and a server for a transaction (I1), and releases the server (I3).
//!
//! [`begin`] and [`serve_next`] are the most frequent links: nothing is special about session, server and pool, and the server has the
//! session's parameters. They look up all three only once. Where something is special they decline and change nothing;
//! `placement::place`, `idle_servers::take_idle` and [`link`] then have the same effect.

use std::sync::Arc;

use link::Link;
use link::caches::Caches;
use link::checking::{Leaves, may_leave};
use link::following::may_lose_own;
use link::plain::Plain;
use link::pool::LocalBuffers;
use link::rebasing;
use link::server::{CloseReason, ServerState};
use link::session::{Admission, SessionState, WaitFor};
use machine::action::Source;
use machine::sabotage::releases_early;
use machine::{Settings, Step};
use queueing::classes::ClassId;
use settings::{Fidelity, PoolMode};
use units::ConnId;
use units::deadline::Owner;

use crate::servers::idle_servers::is_expired;
use crate::servers::{closed_servers, disturbances, free_servers, listener};
use crate::tables::agenda::Agenda;
use crate::tables::stale::is_stale;
use crate::tables::timers::is_armed_idle;
use crate::tables::{Tables, backpressure};

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
pub(crate) fn begin(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, bytes: &[u8], class: ClassId) -> AtOnce {
    if is_special(tables) || tables.plan.settings.global.servers.server_round_robin {
        return AtOnce::Declined;
    }
    let session = &mut tables.sessions[conn];
    let pool = &mut tables.pools[session.pool()];
    // Without one the session waits.
    let Some(&server_id) = pool.servers().idle().back() else { return AtOnce::Declined };
    let server = &mut tables.servers[server_id];
    let may_take = pool.queue().admits(class) && !pool.known().is_awaited() && pool.rules().max_pinned() == 0;
    let is_fresh = !is_stale(step.now, server, &tables.plan.settings)
        && !is_expired(step.now, server, pool, &tables.plan.settings);
    let mut link = Link::new((conn, session), (server_id, server), pool);
    let names = &tables.caches.server_names;
    if !may_take || !is_fresh || !link.plain().is_some_and(|mut plain| plain.fits(bytes, names)) {
        return AtOnce::Declined;
    }
    link.session_mut().requests(step.now);
    let bytes = (bytes, Source::Chunk, 0);
    if begin_plainly(step, link, bytes, &tables.plan.settings, &mut tables.caches, &mut tables.agenda) {
        sent_plainly(tables, step, conn, server_id);
        return AtOnce::Done;
    }
    AtOnce::Linked(conn)
}

/// A server has become free: it serves the next waiting session, if there is one.
#[inline(never)]
pub(crate) fn serve_next(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) -> AtOnce {
    // Deliberate faults are only in the general path.
    if is_special(tables) || machine::sabotage::is_on(&tables.plan.settings) {
        return AtOnce::Declined;
    }
    // It may have been closed since it became free.
    let Some(server) = tables.servers.get_mut(server_id) else { return AtOnce::Declined };
    let pool = &mut tables.pools[server.pool()];
    let is_asked = pool.known().is_awaited() || pool.known().is_overdue(step.now);
    let is_shared = pool.exchange().is_shared()
        || !pool.servers().own().queue().is_empty()
        || pool.listener().is_some()
        || pool.measured().wait_sampling().is_some();
    if !matches!(server.state(), ServerState::Idle) || is_asked || is_shared || pool.rules().reserve_pool_size() > 0 {
        return AtOnce::Declined;
    }
    if is_expired(step.now, server, pool, &tables.plan.settings) {
        return AtOnce::Declined;
    }
    let Some(waiter) = pool.queue().peek(step.now) else {
        let is_used = pool.known().is_due(step.now, pool.servers().idle().len() > 1) || pool.is_vacating(step.now);
        return if is_used { AtOnce::Declined } else { AtOnce::Done };
    };
    let (conn, session) = (waiter.session, &mut tables.sessions[waiter.session]);
    let SessionState::Waiting { wait_for: WaitFor::Server, deadline_ms: 0, .. } = session.state() else {
        return AtOnce::Declined;
    };
    let inbox = session.incoming_mut().take_inbox();
    let source = step.actions.next_kept();
    let mut link = Link::new((conn, session), (server_id, server), pool);
    if !link.plain().is_some_and(|mut plain| plain.fits(&inbox, &tables.caches.server_names)) {
        tables.sessions[conn].incoming_mut().put_back(inbox);
        return AtOnce::Declined;
    }
    link.pool_mut().queue_mut().pop(step.now);
    let (id, is_timed) = (link.pool().id(), link.pool().rules().times_links());
    let bytes = (&*inbox, source, 0);
    let is_sent = begin_plainly(step, link, bytes, &tables.plan.settings, &mut tables.caches, &mut tables.agenda);
    let pool = &tables.pools[id];
    if pool.queue().has_waiters() && !pool.asks_no_more(step.now) {
        tables.agenda.feed(id);
    }
    if is_sent {
        step.actions.keep(inbox);
        if is_timed {
            tables.agenda.arm(Owner::Conn(conn));
        }
        return AtOnce::Done;
    }
    tables.sessions[conn].incoming_mut().put_back(inbox);
    AtOnce::Linked(conn)
}

/// A session's query was sent to its server by the fast case.
pub(crate) fn sent_plainly(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, server_id: ConnId) {
    if tables.pools[tables.sessions[conn].pool()].rules().times_links() {
        tables.agenda.arm(Owner::Conn(conn));
    }
    if machine::sabotage::is_on(&tables.plan.settings) {
        release_if_done(tables, step, server_id);
    }
}

/// Ends a link of which nothing is special, if its transaction is over. Whether it has ended: then the server is on the agenda.
#[inline(always)]
pub(crate) fn end_plainly(plain: Plain<'_, '_>, step: &mut Step<'_>, agenda: &mut Agenda) -> bool {
    let link = plain.link();
    let is_armed = is_armed_idle(step.now, link.server(), link.pool());
    if !is_armed || !plain.may_end(step.now) {
        return false;
    }
    if !link.session().incoming().inbox().is_empty() {
        agenda.reconsider(link.session_id());
    }
    let server = link.server_id();
    plain.end(step.now, agenda.unpublished());
    agenda.place(server);
    true
}

/// Whether all links must take the general path.
fn is_special(tables: &Tables) -> bool {
    tables.clock.stopping.has_begun() || tables.servers.chaos.is_some()
}

/// Links, and sends the query if it has no effect except its answer. Returns whether it was sent.
#[inline(always)]
fn begin_plainly(
    step: &mut Step<'_>,
    mut link: Link<'_>,
    bytes: (&[u8], Source, usize),
    settings: &Settings,
    caches: &mut Caches,
    agenda: &mut Agenda,
) -> bool {
    link.begin(step.now, settings, agenda.unpublished());
    link.plain().is_some_and(|mut plain| plain.send_query(step.now, bytes, caches, step.actions))
}

/// Links a session and a server (I1). Returns whether the session's messages may go there at once.
pub(crate) fn link(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, server_id: ConnId) -> bool {
    if tables.servers.chaos.is_some() {
        disturbances::observe_link(tables, step, conn, server_id);
    }
    let (session, server) = (&mut tables.sessions[conn], &mut tables.servers[server_id]);
    let pool = &mut tables.pools[session.pool()];
    let is_unknown = matches!(
        session.state(),
        SessionState::Welcoming { .. } | SessionState::Waiting { wait_for: WaitFor::Login, .. }
    );
    let begins = !session.is_confirmed() && !is_unknown;
    if let Some(news) = rebasing::rebase(session, pool, &mut tables.caches) {
        step.actions.send_new(conn, |out| out.extend_from_slice(&news));
    }
    let mut link = Link::new((conn, session), (server_id, server), pool);
    link.begin(step.now, &tables.plan.settings, tables.agenda.unpublished());
    let (session, server, pool) = link.into_parts();
    if let Some(permits) = session.claim_mut().permits_mut() {
        permits.linked(step.now);
    }
    let mut begun_with = None;
    let class = &tables.plan.settings.classes.class(session.claim().class()).name;
    let renaming = tables.caches.server_names.rename(session, class, server.kept_mut(), &mut tables.caches.interned);
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
        let tracked = &tables.caches.tracked;
        let replays = link::replaying::replay(step, session, server_id, server, tracked, configured, renaming.as_ref());
        if replays {
            pool.counts_mut().count_replay();
        }
        begun_with = begun_with.filter(|_| !replays);
    }
    let paused = !session.flow().is_reading() || !session.flow().is_clear() || !server.flow().is_reading();
    let is_open = !server.holds_messages();
    let Some(begun_with) = begun_with else {
        if paused {
            backpressure::balance_session(tables, step, conn);
        }
        return is_open;
    };
    link::replaying::confirm(step, (conn, session), server, pool, &tables.caches.tracked, &begun_with);
    if paused {
        backpressure::balance_session(tables, step, conn);
    }
    !tables.servers[server_id].holds_messages()
}

/// Ends the hold on a client's messages if the server has answered what they waited for. Whether it has.
pub(crate) fn ends_hold(tables: &mut Tables, server_id: ConnId, conn: ConnId) -> bool {
    if tables.view().waits_for_listener(conn) {
        return false;
    }
    let server = &mut tables.servers[server_id];
    let opens = server.hold().is_on() && server.has_answered();
    if opens {
        server.hold_mut().end();
    }
    opens
}

/// Releases a server that has lost what `connect_query` gave it, before its session's next message: the session gets a server that has
/// that. If it may have lost something, it is asked first. Whether it was released.
pub(crate) fn leaves_lost_base(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId, conn: ConnId) -> bool {
    let session = &tables.sessions[conn];
    let has_lost = session.tracker().is_some_and(|tracker| tracker.unseen.has_lost_base());
    let leaves = has_lost || may_lose_own(&tables.servers[server_id], session);
    leaves && release_if_done(tables, step, server_id)
}

/// Releases the server of a session that has reset what it began with and was not given it back, since its client's messages waited for the
/// listener. Whether it was released.
pub(crate) fn leaves_reverted(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId) -> bool {
    // It may have ended meanwhile.
    let Some(session) = tables.sessions.get(conn) else { return false };
    let is_reverted = session.tracker().is_some_and(|tracker| tracker.is_reverted());
    let Some(server_id) = session.server().filter(|_| is_reverted) else { return false };
    release_if_done(tables, step, server_id)
}

/// Releases a linked server if its client's transaction is over and nothing is owed (I3). Returns whether it was
/// released; the session's deadline is then armed.
pub(crate) fn release_if_done(tables: &mut Tables, step: &mut Step<'_>, server_id: ConnId) -> bool {
    let server = &mut tables.servers.table[server_id];
    // It was released already.
    let ServerState::Linked(conn) = *server.state() else { return false };
    let pool = &mut tables.pools[server.pool()];
    let session = &mut tables.sessions[conn];
    let is_held = server.hold().is_on() && !(pool.needs_listener() && session.waits_for_listener());
    // In a limit's queue it has the place of a session with a server.
    let waits_for_limit = matches!(session.claim().admission(), Admission::Waits { .. });
    if pool.rules().mode() == PoolMode::Session || is_held || waits_for_limit {
        return server.end().close_needed().is_some() && closed_servers::close_fast(tables, step, server_id);
    }
    let lasted = step.now.micros_since(server.work().since());
    let is_clean = server.is_clean() || releases_early(&tables.plan.settings) && server.owes_no_more_after_ready();
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
    let resets = tables.plan.settings.global.servers.server_reset_query_always
        || server.traces().needs_reset()
        || server.traces().listens();
    let is_limited = session.claim().admission() != Admission::Not || session.claim().permits().is_some();
    let is_watched = is_limited || tables.servers.chaos.is_some();
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
        let_go(tables, step, conn, server_id, returns_pin_permit);
        return true;
    }
    if !session.incoming().inbox().is_empty() {
        tables.agenda.reconsider(conn);
    }
    server.released();
    if let Some(why) = pool.servers_mut().takes_back() {
        server.end_mut().close_when_released(why);
    }
    let is_armed = is_armed_idle(step.now, server, pool);
    pool.take_back(step.now, server_id, server, tables.agenda.unpublished());
    tables.agenda.place(server_id);
    if !is_armed {
        tables.agenda.arm(Owner::Conn(server_id));
    }
    true
}

/// The rest of a release where something is special about the session or the server.
#[inline(never)]
fn let_go(tables: &mut Tables, step: &mut Step<'_>, conn: ConnId, server_id: ConnId, returns_pin_permit: bool) {
    let session = &tables.sessions[conn];
    let pool = &tables.pools[session.pool()];
    let limited = session.claim().admission() != Admission::Not || session.claim().permits().is_some();
    let has_subscriptions = session.tracker().is_some_and(|tracker| tracker.notifications.subscriptions().is_some());
    let (id, removed, is_armed) = (pool.id(), pool.is_removed(), pool.rules().is_armed(session, step.now));
    let paused = !session.flow().is_reading() || !session.flow().is_clear();
    let has_more = !session.incoming().inbox().is_empty();
    if returns_pin_permit {
        tables.agenda.admit_to_pin(id);
    }
    closed_servers::retire_local_buffers(tables, step, id);
    if has_more {
        tables.agenda.reconsider(conn);
    }
    if paused {
        backpressure::balance_session(tables, step, conn);
    }
    if has_subscriptions {
        listener::send_notifications(tables, step, conn);
    }
    if limited {
        note_end(tables, conn);
    }
    if removed {
        tables.agenda.refuse(conn, CloseReason::DatabaseRemoved);
    }
    if removed || !is_armed {
        tables.agenda.arm(Owner::Conn(conn));
    }
    let traces = tables.servers[server_id].traces();
    let used = traces.needs_reset() || traces.listens();
    if tables.plan.settings.global.servers.server_reset_query_always || used {
        free_servers::reset_or_free(tables, step, server_id);
    } else {
        free_servers::free(tables, step, server_id);
    }
}

/// A session's transaction is over, and its server released: releases its permits.
fn note_end(tables: &mut Tables, conn: ConnId) {
    let session = &mut tables.sessions[conn];
    let admission = session.claim_mut().take_admission();
    debug_assert!(!matches!(admission, Admission::Waits { .. }), "a session that waits for a limit keeps its server");
    tables.agenda.release(session.claim_mut().take_permits());
}
