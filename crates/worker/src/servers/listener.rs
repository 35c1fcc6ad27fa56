//! The server that listens for all sessions of its pool: how it becomes the listener, how its notifications are
//! delivered, and how it ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use link::checking::CLEAR;
use link::end_reason::EndReason;
use link::notifiers::Notifiers;
use link::server::{Answerer, CloseReason, Expect, Server};
use link::session::{Session, SessionState};
use machine::sabotage::{Fault, does};
use session_state::parameters::Tracked;
use session_state::state::{ListenerWait, Overflow, Subscriptions};
use session_state::tracker::Tracker;
use units::deadline::Owner;
use units::table::Table;
use units::{ConnId, PoolId};
use wire::backend;
use wire::backend::{Notification, Status};
use wire::frontend::Query;

use crate::servers::{chores, idle_servers};
use crate::tables::owners::{Pools, Servers, Sessions};
use crate::tables::step::Step;
use crate::tables::{backpressure, lookups};

/// A session waits for its pool's listener: it should LISTEN or UNLISTEN.
pub(crate) fn attend(sessions: &Sessions, servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, id: PoolId) {
    let listener = pools[id].listener().expect("a session has wanted something of it");
    match listener.server() {
        Some(server) => begin_round(servers, pools, step, server),
        None if !listener.needs_connection() => {}
        None => match idle_servers::take_idle(sessions, servers, pools, step, id, None) {
            Some(server) => become_listener(servers, pools, step, server),
            None => step.agenda.feed(id),
        },
    }
}

/// An idle server becomes its pool's listener.
pub(crate) fn become_listener(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    chores::turn_server(servers, pools, step, server_id, Server::listen);
    let server = &mut servers[server_id];
    assert!(server.is_clean() && server.cancel().under_way() == 0, "I3: only a clean server listens");
    let pool = &mut pools[server.pool()];
    pool.ensure_listener().connected(server_id);
    let is_initial =
        pool.welcome().report().is_some_and(|report| Arc::ptr_eq(&report.parameters, server.kept().parameters()));
    server.work_mut().count_use();
    if !is_initial || server.kept().session_state().is_some() || server.kept().has_shown_name() {
        send_query(servers, step, server_id, CLEAR);
    }
    begin_round(servers, pools, step, server_id);
}

fn send_query(servers: &mut Servers, step: &mut Step<'_>, server_id: ConnId, text: &[u8]) {
    let server = &mut servers[server_id];
    server.ledger_mut().sent(Answerer::Chore, Expect::Query);
    server.statements_mut().unnamed_gone();
    server.transaction_mut().query_sent(step.now);
    step.actions.send_new(server_id, |out| Query { text }.encode(out));
}

/// Sends the next batch of LISTEN and UNLISTEN, if none is under way.
pub(crate) fn begin_round(servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, server_id: ConnId) {
    // It was closed in this step, and the agenda ends its listening sessions next; or a round is under way, and the
    // next one follows it.
    let Some(server) = servers.get_mut(server_id).filter(|server| server.ledger().is_clear()) else { return };
    let listener = pools[server.pool()].listener_mut();
    let listener = listener.expect("a server that listens is its pool's listener's");
    let mut text = Vec::new();
    if listener.next_round(&mut text) {
        send_query(servers, step, server_id, &text);
    } else if listener.is_unused() {
        server.work_mut().begin_anew(step.now);
    }
    step.agenda.arm(Owner::Conn(server_id));
}

/// The tracker and the server of a session that listens or waits to listen. A session leaves the listener before it
/// ends. If it has not, only this one client loses notifications.
fn listening(sessions: &mut Table<Session>, conn: ConnId) -> Option<(&mut Tracker, Option<ConnId>)> {
    let found = sessions.get_mut(conn).and_then(|session| {
        let server = session.server();
        session.tracker_mut().map(|tracker| (tracker, server))
    });
    debug_assert!(found.is_some(), "a session leaves its pool's listener before it goes");
    found
}

/// The listener has done what a session waited for.
pub(crate) fn attended(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let Some((tracker, _)) = listening(sessions, conn) else { return };
    match tracker.notifications.listener_wait() {
        ListenerWait::ToSend { .. } => tracker.notifications.subscriptions_mut().listener_wait = ListenerWait::MaySend,
        ListenerWait::ToBeReady => send_ready(step, conn, tracker),
        ListenerWait::Nothing | ListenerWait::MaySend => return,
    }
    go_on(sessions, servers, pools, step, conn);
}

fn send_ready(step: &mut Step<'_>, conn: ConnId, tracker: &mut Tracker) {
    tracker.notifications.subscriptions_mut().listener_wait = ListenerWait::Nothing;
    let unread = tracker.take_unread();
    step.actions.send_new(conn, |out| {
        out.extend_from_slice(&unread);
        backend::encode_ready(out, Status::Idle);
    });
}

/// The client's messages are forwarded again.
fn go_on(sessions: &mut Sessions, servers: &mut Servers, pools: &mut Pools, step: &mut Step<'_>, conn: ConnId) {
    let session = &sessions[conn];
    let Some(server_id) = session.server() else {
        // It gave up its server while it waited, so that a server was free to become the listener.
        step.agenda.reconsider(conn);
        return;
    };
    settle_channels(sessions, servers, pools, step, server_id, conn);
    if servers.get_mut(server_id).is_some_and(Server::end_hold) {
        step.agenda.go_on(conn);
        backpressure::balance_if_paused(sessions, servers, step, conn);
    }
}

/// A transaction is over. `withheld`: its ReadyForQuery is held back until the listener listens. Returns whether the
/// session was ended.
pub(crate) fn note_transaction_over(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    conn: ConnId,
    withheld: bool,
) -> bool {
    if !withheld {
        settle_channels(sessions, servers, pools, step, server_id, conn);
        return false;
    }
    let session = &sessions[conn];
    if let Some(why) = session.tracker().and_then(|tracker| tracker.missed().map(str::to_owned)) {
        step.agenda.refuse(conn, EndReason::NotificationsMissed { words: why });
        return true;
    }
    let id = session.pool();
    let pool = &mut pools[id];
    pool.ensure_listener().join_next_round(conn);
    attend(sessions, servers, pools, step, id);
    false
}

/// The listener did not answer in time: the session listens on its own server, and is pinned.
pub(crate) fn listen_alone(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    conn: ConnId,
) {
    let session = &mut sessions[conn];
    let tracker = session.tracker_mut().expect("a session that waits for a listener has a tracker");
    if !matches!(tracker.notifications.listener_wait(), ListenerWait::ToSend { .. }) {
        return;
    }
    let channels = tracker.journal.channels().clone();
    let subscriptions = tracker.notifications.subscriptions_mut();
    (subscriptions.alone, subscriptions.listener_wait) = (true, ListenerWait::MaySend);
    let gone = subscriptions.settle(&channels, &channels);
    let pool = &mut pools[session.pool()];
    if let Some(listener) = pool.listener_mut() {
        listener.leave_round(conn);
        gone.iter().for_each(|name| listener.leave(name, conn));
    }
    go_on(sessions, servers, pools, step, conn);
}

/// Outside a transaction: the session leaves the channels that it no longer listens to.
fn settle_channels(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    conn: ConnId,
) {
    let calm = servers.get(server_id).is_some_and(|server| server.transaction().status() == Status::Idle);
    if !calm {
        return;
    }
    let session = &mut sessions[conn];
    let id = session.pool();
    // The pool's listener never listened for it.
    let Some(tracker) = session.tracker_mut().filter(|tracker| tracker.notifications.subscriptions().is_some()) else {
        return;
    };
    let gone = tracker.settle_channels();
    leave_channels(sessions, servers, pools, step, id, conn, &gone);
}

fn leave_channels(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    conn: ConnId,
    names: &[Box<[u8]>],
) {
    let for_all = does(&step.plan.settings, Fault::UnlistenForAll);
    // The listener was lost.
    let Some(listener) = pools[id].listener_mut() else { return };
    if !names.is_empty() {
        for name in names.iter().filter(|_| for_all) {
            let others: Vec<ConnId> = listener.audience(name).collect();
            others.into_iter().for_each(|other| listener.leave(name, other));
        }
        names.iter().for_each(|name| listener.leave(name, conn));
        attend(sessions, servers, pools, step, id);
    }
}

/// A session ends: it leaves the listener.
pub(crate) fn listens_no_more(
    sessions: &Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    conn: ConnId,
    names: &[Box<[u8]>],
) {
    if let Some(listener) = pools.get_mut(id).and_then(|pool| pool.listener_mut()) {
        listener.leave_round(conn);
        leave_channels(sessions, servers, pools, step, id, conn, names);
    }
}

/// The process ids that clients know, if a server may send notifications to the session that has it.
pub(crate) fn notifiers(sessions: &Sessions, servers: &Servers, server_id: ConnId) -> Notifiers {
    let server = &servers[server_id];
    let tracker = server.session().and_then(|conn| sessions[conn].tracker());
    if tracker.is_some_and(Tracker::may_listen_on_server) {
        lookups::notifiers(sessions, servers, server.pool())
    } else {
        Notifiers::default()
    }
}

/// Passes notifications that a pool's listener has received on to every session that listens.
pub(crate) fn notify_all(
    sessions: &mut Sessions,
    servers: &Servers,
    pools: &Pools,
    step: &mut Step<'_>,
    server_id: ConnId,
    notifications: Vec<Vec<u8>>,
) {
    // These sessions end after this loop, and are listening until then.
    let mut refused = BTreeSet::new();
    if notifications.is_empty() {
        return;
    }
    let notifiers = lookups::notifiers(sessions, servers, servers[server_id].pool());
    for body in notifications {
        let server = &servers[server_id];
        // A notification that cannot be read is dropped.
        let Ok(said) = Notification::decode(&body) else { continue };
        let encoding = server.kept().parameters().get(Tracked::CLIENT_ENCODING).map(<[u8]>::to_vec);
        let id = server.pool();
        let pid = notifiers.known_pid(said.pid).unwrap_or(said.pid);
        let mut message = Vec::new();
        Notification { pid, ..said }.encode(&mut message);
        let listener = pools.get(id).and_then(|pool| pool.listener());
        let audience: Vec<ConnId> = listener.into_iter().flat_map(|found| found.audience(said.channel)).collect();
        for conn in audience {
            if !refused.contains(&conn) && !notify(sessions, servers, step, conn, &said, &message, encoding.as_deref())
            {
                refused.insert(conn);
            }
        }
    }
}

/// Delivers a notification to a session. False: the session cannot take it, and ends.
fn notify(
    sessions: &mut Sessions,
    servers: &Servers,
    step: &mut Step<'_>,
    conn: ConnId,
    said: &Notification<'_>,
    message: &[u8],
    encoding: Option<&[u8]>,
) -> bool {
    let withheld = does(&step.plan.settings, Fault::WithholdNews);
    let is_same = |session: &Session| session.parameters().get(Tracked::CLIENT_ENCODING) == encoding;
    let readable = said.payload.is_ascii() && said.channel.is_ascii() || sessions.get(conn).is_some_and(is_same);
    let Some((tracker, _)) = listening(sessions, conn) else { return true };
    match tracker.deliver(said.channel, message) {
        Ok(true) if !withheld && !readable => {
            step.agenda.refuse(conn, EndReason::NotificationUnreadable);
            return false;
        }
        Ok(true) if !withheld => send_notifications(sessions, servers, step, conn),
        Ok(_) => {}
        Err(Overflow) => {
            step.agenda.refuse(conn, EndReason::NotificationsUnread);
            return false;
        }
    }
    true
}

/// Sends a client its notifications if it is between transactions and its socket has taken everything else.
pub(crate) fn send_notifications(sessions: &mut Sessions, servers: &Servers, step: &mut Step<'_>, conn: ConnId) {
    let session = &mut sessions[conn];
    let has_news = session
        .tracker()
        .and_then(|tracker| tracker.notifications.subscriptions())
        .is_some_and(Subscriptions::has_news);
    if !has_news {
        return;
    }
    let between = match session.state() {
        SessionState::Idle { .. } | SessionState::Waiting { .. } => true,
        SessionState::Linked { server } => servers.get(server).is_some_and(Server::is_clean),
        SessionState::Welcoming { .. }
        | SessionState::Opening { .. }
        | SessionState::Replicating { .. }
        | SessionState::LostBlock { .. }
        | SessionState::Console { .. }
        | SessionState::Leaving { .. } => false,
    };
    let is_written = session.flow().is_clear();
    let Some(tracker) =
        session.tracker_mut().filter(|tracker| tracker.notifications.listener_wait() != ListenerWait::ToBeReady)
    else {
        return;
    };
    if let Some(why) = tracker.missed().filter(|_| between).map(str::to_owned) {
        step.agenda.refuse(conn, EndReason::NotificationsMissed { words: why });
    } else if between && is_written {
        let unread = tracker.take_unread();
        step.actions.send_new(conn, |out| out.extend_from_slice(&unread));
    }
}

/// The listener's connection is lost. Sessions that listened may have missed notifications, so they are ended, at the
/// moment when a notification could be delivered: not within a transaction. Sessions that were only about to listen do
/// it on their own server.
pub(crate) fn listener_lost(
    sessions: &mut Sessions,
    servers: &mut Servers,
    pools: &mut Pools,
    step: &mut Step<'_>,
    id: PoolId,
    why: CloseReason,
) {
    let listener = pools[id].take_listener().expect("a server that listened was its pool's listener's");
    let lost = EndReason::ListenerLost { why };
    for conn in listener.all_sessions() {
        let Some((tracker, server)) = listening(sessions, conn) else { continue };
        let server = server.and_then(|server| servers.get(server));
        let waits = matches!(tracker.notifications.listener_wait(), ListenerWait::ToSend { .. });
        if tracker.journal.is_deaf() && waits {
            listen_alone(sessions, servers, pools, step, conn);
        } else if tracker.notifications.listener_wait() != ListenerWait::ToBeReady
            && server.is_some_and(|server| !server.is_clean())
        {
            tracker.notifications.subscriptions_mut().missed = Some(lost.to_string().into());
            // A statement that waits for the listener goes on without it.
            if waits {
                listen_alone(sessions, servers, pools, step, conn);
            }
        } else {
            step.agenda.refuse(conn, lost.clone());
        }
    }
}
