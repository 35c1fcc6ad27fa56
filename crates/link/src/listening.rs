//! One server that listens for all sessions of its pool on this worker, so that LISTEN keeps none of them on a server.
//!
//! ```text
//!   client: LISTEN jobs ──► the listener: LISTEN "jobs" ──► answered ──► the server: LISTEN jobs ──► ReadyForQuery
//!   client: COMMIT      ──► the listener: (empty)       ──► answered ──► the server: COMMIT; from here on it is notified
//!   client: NOTIFY jobs ──► the server ──► the listener: (empty) ──► answered ──► NotificationResponse, ReadyForQuery
//! ```
//!
//! What a client says goes to its server as it is, for its tag or its error; the server is told UNLISTEN * before anybody
//! else gets it, and what it is told meanwhile of these channels is passed over.
//!
//! Promises: a session is notified of all that was committed after its own LISTEN was, and nothing that was committed before the
//! message was sent that committed it; it is told outside of transactions only, before the ReadyForQuery that ends one. If
//! the listener is lost, its sessions end. An UNLISTEN outside of a transaction block is sent once the listener has answered, so that
//! what was said before it is received. What it has said itself it is told behind the ParameterStatus of the same message, which
//! PostgreSQL would send last: those are passed on as they come.
//!
//! While there is no listener, a session that has not begun a transaction waits without a server: that one may become it.
//!
//! Where one connection cannot listen for all (the pool has one server, the session another encoding, the name is cut by
//! the server, no server was to be had in time, the session knows its server's pid, a function may have said LISTEN), the session
//! listens on its own server and keeps it. If it is notified of other channels by the listener, the order between the two is not kept.
//!
//! Does not do: within a transaction, `pg_listening_channels()` shows what its server listens to, not the session.
//!
//! //= pg18 sql-listen
//! //= pg18 sql-notify

use connections::server::{Answerer, Expect, Server, State as ServerState};
use machine::pids::virtual_pid;
use session_state::parameters::Tracked;
use session_state::state::{Effect, Effects, ListenerWait, Pins, Reading, is_portable, write_identifier};
use session_state::tracker::Tracker;
use units::ConnId;
use wire::backend::{Notification, Status};
use wire::frontend::{Parse, Query};

use crate::answers::Answers;
use crate::pool::Pool;
use crate::requests::Requests;
use crate::session::Session;
use crate::texts;

pub const UNLISTEN: &[u8] = b"UNLISTEN *";

/// What a message is about to do to the session's channels. False: not before the listener is ready for it.
pub(crate) fn may_listen(requests: &mut Requests<'_>, effects: &mut Effects) -> bool {
    // Whatever listens or has said something has a tracker.
    let Some(tracker) = &requests.session.tracker else { return true };
    let ends = effects.iter().any(|effect| *effect == Effect::End) && tracker.notifications.subscriptions().is_some();
    let listens = effects.iter().any(|effect| matches!(effect, Effect::Listen(_)));
    let leaves = leaves_listener(requests.server, requests.session, requests.pool, effects);
    // In a failed transaction there is nothing but its end; that may be under way.
    let failed = requests.server.transaction.status == Status::Failed && requests.server.ledger.is_clear();
    if !(ends || listens || leaves) || failed {
        // It may have waited all the same: answers that came meanwhile have shown that it need not. What comes next is to wait anew.
        if let Some(tracker) = requests
            .session
            .tracker
            .as_mut()
            .filter(|tracker| tracker.notifications.listener_wait() == ListenerWait::MaySend)
        {
            tracker.notifications.subscriptions_mut().listener_wait = ListenerWait::Nothing;
        }
        return true;
    }
    if listens && tracker.notifications.has_said() && requests.server.ledger.awaits_own_ready() {
        // It may have been said in a transaction of before: then it is out before anybody listens for this one.
        requests.call_for_answers();
        return false;
    }
    let is_new = choose_listeners(requests, effects);
    let (awaited, _) = requests.server.ledger.owing();
    let tracker = requests.session.tracker.as_mut().expect("it had one above");
    // An UNLISTEN under way takes away what is committed, and what says LISTEN behind it is not yet.
    let has_more = tracker
        .notifications
        .subscriptions()
        .is_some_and(|subscriptions| subscriptions.has_more_than(tracker.channels()));
    let uncommitted = has_more || tracker.notifications.subscriptions().is_some() && tracker.is_unlistening();
    // What is under way may end the transaction that the server was in when it told last.
    let alone = requests.server.transaction.status == Status::Idle || requests.server.ledger.awaits_own_ready();
    let commits = uncommitted && (ends || alone);
    match tracker.notifications.listener_wait() {
        ListenerWait::ToSend { .. } | ListenerWait::ToBeReady => false,
        ListenerWait::Nothing if !(is_new || commits || leaves) => true,
        ListenerWait::MaySend if !is_new => {
            let subscriptions = tracker.notifications.subscriptions_mut();
            subscriptions.listener_wait = ListenerWait::Nothing;
            if commits {
                subscriptions.commits(awaited);
            }
            true
        }
        ListenerWait::Nothing | ListenerWait::MaySend => {
            tracker.notifications.subscriptions_mut().listener_wait = ListenerWait::ToSend { since: requests.now };
            requests.pool.listener.get_or_insert_default().join_next_round(requests.conn);
            requests.attends = true;
            false
        }
    }
}

/// UNLISTEN outside of a transaction block, while the pool's listener listens for the session: what was said before has been told
/// to the listener, but may not have come here yet. PostgreSQL tells a session of it before it reads the UNLISTEN.
fn leaves_listener(server: &Server, session: &Session, pool: &Pool, effects: &Effects) -> bool {
    let is_shared = || pool.listener.as_ref().is_some_and(|listener| listener.server.is_some());
    let is_subscribed = |tracker: &Tracker| {
        tracker.notifications.subscriptions().is_some_and(|subscriptions| subscriptions.interest().next().is_some())
    };
    let leaves = |effect: &Effect| matches!(effect, Effect::Unlisten(_) | Effect::DiscardAll);
    // What is under way may end the transaction that the server was in when it told last.
    let may_be_alone = server.transaction.status == Status::Idle || server.ledger.awaits_own_ready();
    effects.iter().any(leaves) && may_be_alone && session.tracker.as_deref().is_some_and(is_subscribed) && is_shared()
}

/// A Parse comes, whole: whether it has to wait until there is a listener. Before anything of its batch is sent, the
/// server can be given back meanwhile; a LISTEN that begins otherwise is found when it is executed. Where names are not mapped
/// nobody knows when that is, and the session listens on its own server.
pub(crate) fn calls_listener(requests: &mut Requests<'_>, body: &[u8]) -> bool {
    let name_end = body.iter().position(|&byte| byte == 0);
    let first = name_end.and_then(|end| body.get(end + 1..end + 7));
    if !first.is_some_and(|word| word.eq_ignore_ascii_case(b"listen")) || !requests.follows() || !requests.is_mapped() {
        return false;
    }
    let there = requests.pool.listener.as_ref().is_some_and(|listener| listener.server.is_some());
    // Whoever reads it tells what is wrong with it.
    let Some(parse) = Parse::decode(body).ok().filter(|_| !there && requests.server.is_clean()) else { return false };
    texts::read_text(requests, Some(parse.query));
    requests.session.tracker.get_or_insert_default();
    let mut effects = texts::effects(requests.server, requests.session, requests.caches, parse.query);
    !may_listen(requests, &mut effects)
}

/// Who listens to each channel: the pool's listener, or the session's own server. Returns whether one is new to the
/// former.
fn choose_listeners(requests: &mut Requests<'_>, effects: &mut Effects) -> bool {
    let mut is_new = false;
    for effect in effects.iter_mut() {
        let Effect::Listen(name) = &*effect else { continue };
        if !may_share(requests.server, requests.session, requests.pool, name) {
            *effect = Effect::ListenAlone;
            continue;
        }
        let subscriptions = requests.session.tracker.get_or_insert_default().notifications.subscriptions_mut();
        if subscriptions.take_interest(name) {
            is_new = true;
            requests.pool.listener.get_or_insert_default().listen(name, requests.conn);
        }
    }
    is_new
}

fn may_share(server: &Server, session: &Session, pool: &Pool, name: &[u8]) -> bool {
    // Without either, what its own server tells it is enough.
    let (Some(tracker), Some(base)) = (&session.tracker, &pool.welcome.base) else { return false };
    if tracker.notifications.subscriptions().is_some_and(|subscriptions| subscriptions.is_interested(name)) {
        return true;
    }
    // Its own server tells it of what it listens to there from a commit on. Before that, one that is notified of a channel by the listener
    // can be notified of the next by it, too: in the order in which NOTIFY was executed.
    let subscribed =
        tracker.notifications.subscriptions().is_some_and(|subscriptions| subscriptions.interest().next().is_some());
    let alone = if subscribed { tracker.channels().alone } else { tracker.listens_alone() };
    let free = tracker
        .notifications
        .subscriptions()
        .is_none_or(|subscriptions| !subscriptions.alone && subscriptions.has_room())
        && !alone
        && !tracker.pins().any(Pins::BACKEND_PID);
    let encoding = server.kept.parameters.get(Tracked::CLIENT_ENCODING);
    let same = encoding == base.parameters.get(Tracked::CLIENT_ENCODING);
    let is_utf8 = encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case(b"UTF8"));
    pool.rules.shares_listener && free && same && is_portable(name, is_utf8)
}

/// A text is sent, now and not later. If it says NOTIFY, sessions that listen are to get the pid that the client knows; and if
/// the session listens itself, it gets the notification before the NOTIFY's CommandComplete.
pub(crate) fn says(server: &mut Server, session: &mut Session, conn: ConnId, reading: Reading) {
    if !reading.notifies() {
        return;
    }
    let has_real_pid = session.tracker.as_ref().is_some_and(|tracker| tracker.pins().any(Pins::BACKEND_PID));
    server.traces.notified_by = if has_real_pid { server.backend.pid } else { virtual_pid(conn) };
    let (awaited, _) = server.ledger.owing();
    if let Some(tracker) = &mut session.tracker {
        tracker.notifications.says(awaited);
    }
}

/// A text is about to be sent that may show what the session listens to: the server listens to it, too, where that
/// can be committed first.
pub(crate) fn bring_channels(requests: &mut Requests<'_>, reading: Reading) {
    let Some(tracker) = requests.session.tracker.as_ref().filter(|_| reading.lists_channels()) else { return };
    let ledger = &requests.server.ledger;
    let between = requests.server.transaction.status == Status::Idle && !ledger.awaits_own_ready() && !ledger.is_open();
    let mut text = Vec::new();
    for name in tracker.channels().names().filter(|_| between) {
        text.extend_from_slice(b"LISTEN ");
        write_identifier(name, &mut text);
        text.push(b';');
    }
    if text.is_empty() {
        return;
    }
    requests.stream.flush(requests.server_id, requests.actions);
    requests.server.ledger.sent(Answerer::Replay, Expect::Query);
    (requests.server.statements.unnamed, requests.server.traces.listens) = (session_state::unnamed::NONE, true);
    requests.actions.send_new(requests.server_id, |out| Query { text: &text }.encode(out));
}

/// The client's transaction is over: whether it may be told. If so, it is told what was said before.
#[inline]
pub(crate) fn may_be_ready(answers: &mut Answers<'_>) -> bool {
    answers.tracker().is_none_or(|tracker| tracker.notifications.subscriptions().is_none())
        || waits_for_own_notification(answers)
}

fn waits_for_own_notification(answers: &mut Answers<'_>) -> bool {
    answers.findings.subscriptions = true;
    // The answer to what was said last: nothing was sent behind it, so nothing has to wait with it.
    let alone = answers.server.ledger.depth() == 1;
    let last = alone && answers.server.hold.is_on;
    let (conn, session) = answers.session.as_mut().expect("a session has subscriptions");
    let tracker = session.tracker.as_mut().expect("a tracker has subscriptions");
    if alone && tracker.missed().is_some() {
        // It would be told of this before it is told that it is ready, so that is all that it is told.
        answers.findings.withheld = true;
        return false;
    }
    if !last && tracker.notifications.has_said() {
        // Its own notification must not reach it before the CommandComplete of its NOTIFY.
        return true;
    }
    if tracker.notifications.take_said() && !tracker.is_deaf() {
        tracker.notifications.subscriptions_mut().listener_wait = ListenerWait::ToBeReady;
        answers.findings.withheld = true;
        return false;
    }
    let (conn, unread) = (*conn, tracker.take_unread());
    if !unread.is_empty() {
        answers.flush();
        answers.actions.send_new(conn, |out| out.extend_from_slice(&unread));
        answers.pool.counts.totals.sent += unread.len() as u64;
    }
    true
}

/// A NotificationResponse. Returns whether it is the client's.
pub(crate) fn notification(answers: &mut Answers<'_>, body: &[u8]) -> bool {
    if matches!(answers.server.state(), ServerState::Listening) {
        answers.findings.words().notifications.push(body.to_vec());
        return false;
    }
    // Also while the server answers what the pooler asks it about its session.
    let is_chore = matches!(answers.server.ledger.owner(), Some(Answerer::Chore | Answerer::Nobody));
    // Nobody has said LISTEN.
    let Some(tracker) = answers.tracker() else { return false };
    // It is notified of its other channels by the listener.
    let channel = Notification::decode(body).map(|said| said.channel);
    let shared = channel.is_ok_and(|channel| {
        tracker.notifications.subscriptions().is_some_and(|subscriptions| subscriptions.is_interested(channel))
    });
    !is_chore && tracker.listens_alone() && !shared
}
